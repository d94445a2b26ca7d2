//! Recurrent cells and sequences: RNNCell-3, RNNSequence-5, GRUCell-3, GRUSequence-5, LSTMCell-1,
//! LSTMCell-4, LSTMSequence-5, and the internal AUGRUCell and AUGRUSequence.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/lstm-sequence-5.html>
//!
//! LSTMCell-1 equals LSTMCell-4. OpenVINO writes peepholes, `input_forget` and `weights_format` for
//! it, which are not in the specification; its CPU plugin ignores them too.

use crate::rule::prelude::*;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    RnnCell,
    RnnSequence,
    GruCell,
    GruSequence,
    /// LSTMCell-1, with an input of peepholes that is ignored.
    LstmCell1,
    LstmCell,
    LstmSequence,
    AugruCell,
    AugruSequence,
}

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// One gate.
    Rnn,
    /// Update, reset and hidden gate.
    Gru,
    /// The same, with the reset gate after the matrix product (`linear_before_reset`).
    LinearGru,
    /// Forget, input, cell and output gate.
    Lstm,
}

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words of the specification
pub enum Activation {
    Relu,
    Sigmoid,
    Tanh,
}

/// The inputs of the operations in this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The data.
    X,
    /// The initial hidden state.
    Hidden,
    /// The initial cell state.
    Cell,
    /// The number of steps of each sequence.
    Lengths,
    /// Weights of the input.
    W,
    /// Recurrent weights.
    R,
    /// Biases.
    B,
    /// Attention scores.
    Attention,
    /// Weights that are ignored.
    Peepholes,
}

/// The directions of an operation, and whether each runs backwards.
const DIRECTIONS: &[(&str, &[bool])] =
    &[("forward", &[false]), ("reverse", &[true]), ("bidirectional", &[false, true])];

const FUNCTIONS: &[(&str, Activation)] =
    &[("relu", Activation::Relu), ("sigmoid", Activation::Sigmoid), ("tanh", Activation::Tanh)];

impl Kind {
    fn is_sequence(self) -> bool {
        matches!(
            self,
            Kind::RnnSequence | Kind::GruSequence | Kind::LstmSequence | Kind::AugruSequence
        )
    }

    fn has_attention(self) -> bool {
        matches!(self, Kind::AugruCell | Kind::AugruSequence)
    }

    /// The cell, without its variation, and its default activations.
    fn cell(self) -> (Cell, &'static [Activation]) {
        use Activation::{Sigmoid, Tanh};
        match self {
            Kind::RnnCell | Kind::RnnSequence => (Cell::Rnn, &[Tanh]),
            Kind::LstmCell1 | Kind::LstmCell | Kind::LstmSequence => {
                (Cell::Lstm, &[Sigmoid, Tanh, Tanh])
            }
            _ => (Cell::Gru, &[Sigmoid, Tanh]),
        }
    }

    /// The inputs, and their names in the specification.
    fn inputs(self) -> (&'static [Port], &'static [&'static str]) {
        use Port::*;
        match self {
            Kind::RnnCell | Kind::GruCell => {
                (&[X, Hidden, W, R, B], &["X", "initial_hidden_state", "W", "R", "B"])
            }
            Kind::RnnSequence | Kind::GruSequence => (
                &[X, Hidden, Lengths, W, R, B],
                &["X", "initial_hidden_state", "sequence_lengths", "W", "R", "B"],
            ),
            Kind::LstmCell1 | Kind::LstmCell => (
                &[X, Hidden, Cell, W, R, B, Peepholes],
                &["X", "initial_hidden_state", "initial_cell_state", "W", "R", "B", "P"],
            ),
            Kind::LstmSequence => (
                &[X, Hidden, Cell, Lengths, W, R, B],
                &[
                    "X",
                    "initial_hidden_state",
                    "initial_cell_state",
                    "sequence_lengths",
                    "W",
                    "R",
                    "B",
                ],
            ),
            Kind::AugruCell => {
                (&[X, Hidden, W, R, B, Attention], &["X", "H_t", "W", "R", "B", "A"])
            }
            Kind::AugruSequence => (
                &[X, Hidden, Lengths, W, R, B, Attention],
                &["X", "H_t", "sequence_lengths", "W", "R", "B", "A"],
            ),
        }
    }
}

impl Cell {
    /// Number of gates.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru | Cell::LinearGru => 3,
            Cell::Lstm => 4,
        }
    }

    /// Number of biases per element of the hidden state.
    pub fn biases(self) -> usize {
        self.gates() + usize::from(self == Cell::LinearGru)
    }
}

/// The meaning of an axis of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Batch,
    Steps,
    Width,
    Hidden,
    Directions,
    Gates,
    Biases,
    Peepholes,
    One,
}

impl Port {
    /// The axes of this input in a sequence. A cell has neither steps nor directions.
    fn axes(self) -> &'static [Axis] {
        use Axis::*;
        match self {
            Port::X => &[Batch, Steps, Width],
            Port::Hidden | Port::Cell => &[Batch, Directions, Hidden],
            Port::Lengths => &[Batch],
            Port::W => &[Directions, Gates, Width],
            Port::R => &[Directions, Gates, Hidden],
            Port::B => &[Directions, Biases],
            Port::Attention => &[Batch, Steps, One],
            Port::Peepholes => &[Peepholes],
        }
    }
}

/// An operation of this file.
#[derive(Debug)]
pub struct Recurrent {
    kind: Kind,
    cell: Cell,
    hidden_size: usize,
    activations: Vec<Activation>,
    clip: f64,
    directions: &'static [bool],
}

impl Parse for Recurrent {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let (mut cell, functions) = kind.cell();
        // The activations take no parameters, so these are only checked.
        for name in ["activations_alpha", "activations_beta"] {
            attrs.list_opt::<f64>(name)?;
        }
        if kind == Kind::LstmCell1 {
            attrs.ignore(&["input_forget", "weights_format"]);
        }
        let direction = if !kind.is_sequence() {
            &[false][..]
        } else if kind.has_attention() {
            attrs.choice_or("direction", &DIRECTIONS[..1], &[false])?
        } else {
            attrs.choice("direction", DIRECTIONS)?
        };
        if cell == Cell::Gru && attrs.bool_or("linear_before_reset", false) {
            if kind.has_attention() {
                return Err(AttrError::new("linear_before_reset", "must be false"));
            }
            cell = Cell::LinearGru;
        }
        let clip = attrs.float_or("clip", 0.0)?;
        if clip.is_nan() || clip < 0.0 || (clip > 0.0 && kind.has_attention()) {
            return Err(AttrError::new("clip", format!("{clip} is no bound")));
        }
        Ok(Recurrent {
            kind,
            cell,
            hidden_size: attrs.size("hidden_size")?,
            activations: activations(attrs, functions, direction.len())?,
            clip,
            directions: direction,
        })
    }
}

/// The activations in an attribute, as many as there are defaults. OpenVINO's converters of ONNX
/// list them for each direction.
fn activations(
    attrs: &mut Attrs<'_>,
    defaults: &[Activation],
    directions: usize,
) -> Result<Vec<Activation>, AttrError> {
    let function = |word: &str| {
        let named = FUNCTIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word.trim()));
        let unknown = || format!("\"{}\" is not one of relu, sigmoid, tanh", word.trim());
        named.map(|(_, function)| *function).ok_or_else(unknown)
    };
    let list = |text: &str| -> Result<Vec<Activation>, String> {
        let mut named: Vec<Activation> = text.split(',').map(function).collect::<Result<_, _>>()?;
        if named.len() == defaults.len() * directions {
            let others = named.split_off(defaults.len());
            if !others.is_empty() && others != named {
                return Err("names other functions for the second direction".to_owned());
            }
        }
        if named.len() == defaults.len() {
            Ok(named)
        } else {
            Err(format!("names {} functions, not {}", named.len(), defaults.len()))
        }
    };
    Ok(attrs.optional("activations", list)?.unwrap_or_else(|| defaults.to_vec()))
}

impl Recurrent {
    /// What each step computes.
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// Whether it is a sequence; a cell computes one step.
    pub fn is_sequence(&self) -> bool {
        self.kind.is_sequence()
    }

    /// The activations, in the order of the specification: f, g, h.
    pub fn activations(&self) -> &[Activation] {
        &self.activations
    }

    /// The clipping bound of the arguments of the activations, if there is one.
    pub fn clip(&self) -> Option<f64> {
        (self.clip > 0.0).then_some(self.clip)
    }

    /// Whether each direction runs backwards.
    pub fn directions(&self) -> &'static [bool] {
        self.directions
    }

    /// Number of elements of the hidden state.
    pub fn hidden_size(&self) -> usize {
        self.hidden_size
    }

    /// The index of an input, if the operation has it.
    pub fn port(&self, port: Port) -> Option<usize> {
        self.kind.inputs().0.iter().position(|p| *p == port)
    }

    fn axes(&self, port: Port) -> impl Iterator<Item = Axis> + use<> {
        let all = self.kind.is_sequence();
        let here = move |axis: &Axis| all || !matches!(axis, Axis::Steps | Axis::Directions);
        port.axes().iter().copied().filter(here)
    }

    /// Batch, steps and width, on which all inputs agree.
    fn sizes(&self, cx: &InferCx<'_>) -> Result<[Dim; 3], RuleError> {
        let mut open = [Dim::any(); 3];
        for (input, port) in self.kind.inputs().0.iter().enumerate().take(cx.input_count()) {
            let rank = self.axes(*port).count();
            cx.expect_rank(input, rank..=rank)?;
            for (axis, what) in self.axes(*port).enumerate() {
                let met = cx.expect_dim(input, axis, what.name(), self.size(what, &open))?;
                let slot = [Axis::Batch, Axis::Steps, Axis::Width].iter().position(|a| *a == what);
                if let Some(slot) = slot.and_then(|i| open.get_mut(i)) {
                    *slot = met;
                }
            }
        }
        Ok(open)
    }

    fn size(&self, axis: Axis, [batch, steps, width]: &[Dim; 3]) -> Dim {
        let hidden = |times: usize| Dim::of(self.hidden_size).times(Dim::of(times));
        match axis {
            Axis::Batch => *batch,
            Axis::Steps => *steps,
            Axis::Width => *width,
            Axis::Hidden => hidden(1),
            Axis::Directions => Dim::of(self.directions.len()),
            Axis::Gates => hidden(self.cell.gates()),
            Axis::Biases => hidden(self.cell.biases()),
            Axis::Peepholes => hidden(3),
            Axis::One => Dim::fixed(1),
        }
    }

    fn expect_types(&self, cx: &InferCx<'_>) -> Result<ElementType, RuleError> {
        let is_lengths = |input: usize| self.port(Port::Lengths) == Some(input);
        for input in 0..cx.input_count() {
            if is_lengths(input) {
                cx.expect_integer(input)?
            } else {
                cx.expect_real(input)?
            };
        }
        cx.same_type((0..cx.input_count()).filter(|input| !is_lengths(*input)))
    }
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Axis::Batch => "batch_size",
            Axis::Steps => "seq_length",
            Axis::Width => "input_size",
            Axis::Hidden => "hidden_size",
            Axis::Directions => "num_directions",
            Axis::Gates => "a hidden_size for each gate",
            Axis::Biases => "a hidden_size for each bias",
            Axis::Peepholes => "a hidden_size for each peephole",
            Axis::One => "the score",
        }
    }
}

impl Op for Recurrent {
    fn input_names(&self) -> &'static [&'static str] {
        self.kind.inputs().1
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let all = self.kind.inputs().0.len();
        cx.expect_inputs(match self.kind {
            Kind::RnnCell | Kind::GruCell => all - 1..=all,
            Kind::LstmCell1 => all - 2..=all,
            Kind::LstmCell => all - 2..=all - 1,
            _ => all..=all,
        })?;
        let element_type = self.expect_types(cx)?;
        let [batch, steps, _] = self.sizes(cx)?;
        cx.because("the shapes of the inputs leave it open");
        let (directions, hidden) = (Dim::of(self.directions.len()), Dim::of(self.hidden_size));
        let state: PartialShape = if self.is_sequence() {
            [batch, directions, hidden].into()
        } else {
            [batch, hidden].into()
        };
        let states = if self.cell == Cell::Lstm { 2 } else { 1 };
        let first = usize::from(self.is_sequence());
        let outputs = cx.output_count();
        require!(outputs == first + states, "it has {} outputs, not {outputs}", first + states);
        if self.is_sequence() {
            cx.set(0, element_type, [batch, directions, steps, hidden]);
        }
        for output in first..first + states {
            cx.set(output, element_type, state.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, version: &'static str, shapes: &[&str]) -> Case {
        let is_lengths = |i: usize| match kind {
            "LSTMSequence" => i == 3,
            "GRUSequence" | "RNNSequence" | "AUGRUSequence" => i == 2,
            _ => false,
        };
        let input =
            |(i, shape): (usize, &&str)| Input::shape(if is_lengths(i) { I32 } else { F32 }, shape);
        Case::of(kind, version)
            .attr("hidden_size", "4")
            .inputs(shapes.iter().enumerate().map(input))
    }

    #[test]
    fn cells() {
        let lstm = |shapes: &[&str]| case("LSTMCell", "opset4", shapes);
        let state = Ok("f32[2,4]");
        lstm(&["2,5", "2,4", "2,4", "16,5", "16,4", "16"]).expect(&[state, state]);
        lstm(&["?,5", "1..3,4", "2..,4", "...", "..."]).expect(&[Ok("f32[2..3,4]"); 2]);
        lstm(&["2,5", "3,4", "2,4", "16,5", "16,4", "16"]).expect(&[Err(
            "input 1 (initial_hidden_state): is [3,4]: axis 0, batch_size, must be 2",
        )]);
        lstm(&["2,5", "2,4", "2,4", "12,5", "16,4", "16"])
            .expect(&[Err("axis 0, a hidden_size for each gate, must be 16")]);
        lstm(&["2,5", "2,4", "2,4", "16,6", "16,4", "16"]).expect(&[Err("input_size, must be 5")]);
        lstm(&["2,5,1", "2,4", "2,4", "16,6", "16,4"]).expect(&[Err("must have rank 2, not 3")]);
        lstm(&["2,5", "2,4", "2,4", "16,5"]).expect(&[Err("it takes 5 to 6 inputs, not 4")]);
        let with_peepholes = &["2,5", "2,4", "2,4", "16,5", "16,4", "16", "12"];
        case("LSTMCell", "opset1", with_peepholes).expect(&[state, state]);
        let gru = case("GRUCell", "opset3", &["2,5", "2,4", "12,5", "12,4", "16"]);
        gru.clone().attr("linear_before_reset", "true").expect(&[state]);
        gru.expect(&[Err("a hidden_size for each bias, must be 12")]);
        case("RNNCell", "opset1", &["...", "2,4", "4,5", "4,4", "4"]).expect(&[state]);
        let scored = &["2,5", "2,4", "12,5", "12,4", "12", "2,1"];
        case("AUGRUCell", "ie_internal_opset", scored).expect(&[state]);
    }

    #[test]
    fn sequences() {
        let both = case(
            "LSTMSequence",
            "opset5",
            &["?,3..7,5", "2,2,4", "2,2,4", "2", "2,16,5", "2,16,4", "2,16"],
        );
        both.clone().attr("direction", "bidirectional").expect(&[
            Ok("f32[2,2,3..7,4]"),
            Ok("f32[2,2,4]"),
            Ok("f32[2,2,4]"),
        ]);
        both.attr("direction", "forward").expect(&[Err("num_directions, must be 1")]);
        let gru = case("GRUSequence", "opset5", &["...", "...", "...", "...", "...", "..."]);
        gru.clone().attr("direction", "REVERSE").expect(&[Ok("f32[?,1,?,4]"), Ok("f32[?,1,4]")]);
        gru.clone().expect(&[Err("attribute direction: is missing")]);
        gru.attr("direction", "up").expect(&[Err("is not one of forward, reverse, bidirectional")]);
        let scored = &["2,3,5", "2,1,4", "2", "1,12,5", "1,12,4", "1,12", "2,?,1"];
        let scored = case("AUGRUSequence", "ie_internal_opset", scored);
        scored.clone().expect(&[Ok("f32[2,1,3,4]"), Ok("f32[2,1,4]")]);
        scored.attr("direction", "reverse").expect(&[Err("is not one of forward")]);
    }

    #[test]
    fn attributes() {
        let rnn = case("RNNCell", "opset1", &["2,5", "2,4", "4,5", "4,4", "4"]);
        let state = Ok("f32[2,4]");
        let shapes = ["2,3,5", "2,2,4", "2", "2,12,5", "2,12,4", "2,12"];
        let both = case("GRUSequence", "opset5", &shapes).attr("direction", "bidirectional");
        let twice = both.clone().attr("activations", "relu, tanh, relu, tanh");
        twice.expect(&[Ok("f32[2,2,3,4]"), Ok("f32[2,2,4]")]);
        for (names, message) in [
            ("relu, tanh, tanh, tanh", "names other functions for the second direction"),
            ("relu, tanh, tanh", "names 3 functions, not 2"),
        ] {
            both.clone().attr("activations", names).expect(&[Err(message)]);
        }
        rnn.clone().attr("activations", " ReLU").attr("clip", "0.5").expect(&[state]);
        rnn.clone().attr("clip", "-1").expect(&[Err("attribute clip: -1 is no bound")]);
        rnn.clone()
            .attr("activations_alpha", "")
            .attr("activations_beta", "1e3, 2")
            .expect(&[state]);
        for name in ["activations_alpha", "activations_beta"] {
            let expected = format!("attribute {name}: \"x\" is not a number");
            rnn.clone().attr(name, "0.5,x").expect(&[Err(&expected)]);
        }
        rnn.clone().attr("activations", "elu").expect(&[Err("\"elu\" is not one of relu")]);
        rnn.attr("activations", "tanh,tanh").expect(&[Err("names 2 functions, not 1")]);
        let mixed = [Input::shape(F32, "2,5"), Input::shape(F16, "2,4")];
        let rest = ["4,5", "4,4", "4"].map(|s| Input::shape(F32, s));
        Case::of("RNNCell", "opset1")
            .attr("hidden_size", "4")
            .inputs(mixed.into_iter().chain(rest))
            .expect(&[Err("is f16, but an earlier input is f32")]);
    }
}
