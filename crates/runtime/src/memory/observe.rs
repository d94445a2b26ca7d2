//! Observation of layer values during a run, to find where results go wrong.

use crate::tensor::convert::convert_tensor;
use crate::tensor::{Tensor, TensorError};
use ir::{ElementType, Graph, Layer, OutputRef, Role};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;

/// Sees the values of layers during a run; see
/// [`Session::run_observed`](crate::Session::run_observed).
pub trait Observer: Any + Send {
    /// Called when an output of a layer has been computed.
    ///
    /// # Errors
    /// An objection to the value. It ends the run with an error that names the layer.
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String>;
}

/// Which of the two runs computed a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The run without optimisation, layer by layer as in the file.
    AsWritten,
    /// The run of the optimised plan, which gives the outputs. Passes may have replaced layers.
    AsRun,
}

/// A running body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningBody {
    /// The name of the layer with the body.
    pub layer: String,
    /// Which of its bodies it is.
    pub role: Role,
    /// How many times it has run before in this run of the layer.
    pub iteration: usize,
}

/// Prints `loop[3]` or `if.then`.
impl fmt::Display for RunningBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Body => write!(f, "{}[{}]", self.layer, self.iteration),
            Role::Then => write!(f, "{}.then", self.layer),
            Role::Else => write!(f, "{}.else", self.layer),
        }
    }
}

/// A computed output of a layer.
pub struct Observed<'a> {
    /// The bodies around the layer, outermost first.
    pub bodies: &'a [RunningBody],
    /// The graph of the layer.
    pub graph: &'a Graph,
    /// The index of the layer in that graph.
    pub position: usize,
    /// The layer.
    pub layer: &'a Layer,
    /// The index of the output.
    pub port: usize,
    /// Which run computed it.
    pub origin: Origin,
    /// The element type in the file.
    pub element_type: ElementType,
    /// Memory of the session, of which only copies may leave it.
    tensor: &'a Tensor,
}

impl Observed<'_> {
    /// A copy of the value, in the element type of the file.
    ///
    /// # Errors
    /// When the copy does not fit in memory.
    pub fn tensor(&self) -> Result<Tensor, TensorError> {
        if self.tensor.element_type() == self.element_type {
            return self.tensor.to_owned();
        }
        convert_tensor(self.tensor, self.element_type)
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        self.tensor.sizes()
    }

    /// A path that is unique in a run if layer names are: `loop[3]/add:0`.
    pub fn path(&self) -> String {
        let bodies = self.bodies.iter().map(|body| format!("{body}/"));
        format!("{}{}:{}", bodies.collect::<String>(), self.layer.name, self.port)
    }
}

/// The observer of a session, if there is one.
#[derive(Default)]
pub(crate) struct Observation(RefCell<Option<Shown>>);

/// An observer during a run.
struct Shown {
    observer: Box<dyn Observer>,
    origin: Origin,
    /// The running layers with bodies, outermost first.
    running: Vec<Running>,
    /// The running bodies, outermost first.
    bodies: Vec<RunningBody>,
}

/// A running layer with bodies.
struct Running {
    layer: String,
    /// The role of each body, and how many times it has run.
    bodies: Vec<(Role, usize)>,
}

impl Observation {
    /// Shows what runs during `f` to an observer.
    pub(crate) fn observed<R>(
        &self,
        observer: Box<dyn Observer>,
        origin: Origin,
        f: impl FnOnce() -> R,
    ) -> (R, Box<dyn Observer>) {
        let (running, bodies) = (Vec::new(), Vec::new());
        *self.0.borrow_mut() = Some(Shown { observer, origin, running, bodies });
        let result = f();
        let shown = self.0.borrow_mut().take();
        (result, shown.expect("nobody else takes it").observer)
    }

    /// Called when a layer with bodies starts.
    pub(crate) fn enter(&self, layer: &Layer) {
        if let Some(shown) = &mut *self.0.borrow_mut()
            && !layer.bodies.is_empty()
        {
            let bodies = layer.bodies.iter().map(|body| (body.role, 0)).collect();
            shown.running.push(Running { layer: layer.name.clone(), bodies });
        }
    }

    /// Called when a layer with bodies has ended.
    pub(crate) fn leave(&self, layer: &Layer) {
        if let Some(shown) = &mut *self.0.borrow_mut()
            && !layer.bodies.is_empty()
        {
            shown.running.pop();
        }
    }

    /// Called when body `index` of the innermost running layer starts.
    pub(crate) fn enter_body(&self, index: usize) {
        let mut shown = self.0.borrow_mut();
        let Some(shown) = &mut *shown else { return };
        let Some(running) = shown.running.last_mut() else { return };
        let Some((role, times)) = running.bodies.get_mut(index) else { return };
        let (layer, role, iteration) = (running.layer.clone(), *role, *times);
        *times += 1;
        shown.bodies.push(RunningBody { layer, role, iteration });
    }

    /// Called when the innermost running body has ended.
    pub(crate) fn leave_body(&self) {
        if let Some(shown) = &mut *self.0.borrow_mut() {
            shown.bodies.pop();
        }
    }

    /// Shows an output of a layer to the observer.
    ///
    /// # Errors
    /// The objection of the observer.
    pub(crate) fn show(
        &self,
        (graph, at): (&Graph, OutputRef),
        element_type: ElementType,
        tensor: &Tensor,
    ) -> Result<(), String> {
        let mut shown = self.0.borrow_mut();
        let Some(Shown { observer, origin, bodies, .. }) = &mut *shown else {
            return Ok(());
        };
        let OutputRef { layer: position, port } = at;
        let Some(layer) = graph.layers().get(position) else { return Ok(()) };
        let origin = *origin;
        observer.value(&Observed {
            bodies,
            graph,
            position,
            layer,
            port,
            origin,
            element_type,
            tensor,
        })
    }

    /// Whether there is an observer.
    pub(crate) fn is_observed(&self) -> bool {
        self.0.borrow().is_some()
    }
}
