//! The values of layers while a graph runs, for those who look for where results go wrong.

use crate::tensor::convert::convert_tensor;
use crate::tensor::{Tensor, TensorError};
use ir::{ElementType, Graph, Layer, OutputRef, Role};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;

/// Sees the values of layers while a graph runs; see
/// [`Session::run_observed`](crate::Session::run_observed).
pub trait Observer: Any + Send {
    /// An output of a layer has been computed.
    ///
    /// # Errors
    /// What is wrong with it. The run ends there, with an error that names the layer.
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String>;
}

/// By which of the two runs a value was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Layer by layer as the file says.
    AsWritten,
    /// By the plan that gives the outputs, in which passes have replaced many a layer.
    AsRun,
}

/// A body that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningBody {
    /// The name of the layer that has it.
    pub layer: String,
    /// Which of its bodies it is.
    pub role: Role,
    /// How often it has run before, in this run of the layer.
    pub iteration: usize,
}

/// `loop[3]`, `if.then`.
impl fmt::Display for RunningBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Body => write!(f, "{}[{}]", self.layer, self.iteration),
            Role::Then => write!(f, "{}.then", self.layer),
            Role::Else => write!(f, "{}.else", self.layer),
        }
    }
}

/// An output of a layer that has been computed.
pub struct Observed<'a> {
    /// The bodies around the layer, the outermost first.
    pub bodies: &'a [RunningBody],
    /// The graph that it belongs to.
    pub graph: &'a Graph,
    /// Where it is among the layers of that.
    pub position: usize,
    /// The layer.
    pub layer: &'a Layer,
    /// Which of its outputs it is.
    pub port: usize,
    /// By which run it was computed.
    pub origin: Origin,
    /// The type that it has in the file.
    pub element_type: ElementType,
    /// Memory of the session: only copies leave it.
    tensor: &'a Tensor,
}

impl Observed<'_> {
    /// A copy of the value, in the type that it has in the file.
    ///
    /// # Errors
    /// When there is no memory for it.
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

    /// Where it is in words that tell it from all others of a run, if names do: `loop[3]/add:0`.
    pub fn path(&self) -> String {
        let bodies = self.bodies.iter().map(|body| format!("{body}/"));
        format!("{}{}:{}", bodies.collect::<String>(), self.layer.name, self.port)
    }
}

/// Who looks at the values of layers in a session, if anybody does.
#[derive(Default)]
pub(crate) struct Observation(RefCell<Option<Shown>>);

/// An observer at work.
struct Shown {
    observer: Box<dyn Observer>,
    origin: Origin,
    /// The layers with bodies that are running, the outermost first.
    running: Vec<Running>,
    /// The bodies that are running, the outermost first.
    bodies: Vec<RunningBody>,
}

/// A layer with bodies that is running.
struct Running {
    layer: String,
    /// What each body is, and how often it has run.
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

    /// A layer with bodies begins.
    pub(crate) fn enter(&self, layer: &Layer) {
        if let Some(shown) = &mut *self.0.borrow_mut()
            && !layer.bodies.is_empty()
        {
            let bodies = layer.bodies.iter().map(|body| (body.role, 0)).collect();
            shown.running.push(Running { layer: layer.name.clone(), bodies });
        }
    }

    /// A layer with bodies has ended.
    pub(crate) fn leave(&self, layer: &Layer) {
        if let Some(shown) = &mut *self.0.borrow_mut()
            && !layer.bodies.is_empty()
        {
            shown.running.pop();
        }
    }

    /// Body `index` of the layer that was entered last begins.
    pub(crate) fn enter_body(&self, index: usize) {
        let mut shown = self.0.borrow_mut();
        let Some(shown) = &mut *shown else { return };
        let Some(running) = shown.running.last_mut() else { return };
        let Some((role, times)) = running.bodies.get_mut(index) else { return };
        let (layer, role, iteration) = (running.layer.clone(), *role, *times);
        *times += 1;
        shown.bodies.push(RunningBody { layer, role, iteration });
    }

    /// The body that began last has ended.
    pub(crate) fn leave_body(&self) {
        if let Some(shown) = &mut *self.0.borrow_mut() {
            shown.bodies.pop();
        }
    }

    /// Shows a value that is an output of a layer.
    ///
    /// # Errors
    /// What the observer has found wrong with it.
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

    /// Whether anybody looks.
    pub(crate) fn is_observed(&self) -> bool {
        self.0.borrow().is_some()
    }
}
