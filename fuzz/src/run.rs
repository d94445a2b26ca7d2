//! Tame graphs: the same bits optimised and as written.

use super::graphs::{self, Grown};
use infer::{Facts, Inputs, PartialShape};
use ir::{ElementType, Graph, Layer};
use runtime::{Activations, Options, Plan, Precision, Session, Tensor, Threads};
use std::sync::{Arc, OnceLock};

/// The memory limit of tensors.
pub const MEMORY: u64 = 1 << 28;

/// A graph has the same outputs, bit for bit, in each run, with any number of threads, and with
/// `--no-optimize`, unless docs/numerics.md says otherwise. The outputs match the inferred facts.
/// In bf16, all runs have the same bits.
pub fn run(data: &[u8]) {
    let Some(grown) = graphs::tame(data) else { return };
    runtime::set_memory_limit(Some(MEMORY));
    let (graph, inputs) = (&grown.graph, &grown.inputs);
    let shapes = inputs.iter().map(|input| PartialShape::fixed(input.sizes()));
    let exact = match infer::propagate(graph, &Inputs::shapes(shapes)) {
        Ok(exact) => exact,
        Err(_) if grown.late => return,
        Err(error) => panic!("it was accepted layer by layer: {error}"),
    };
    let facts = match open(&grown, &exact) {
        Ok(facts) => facts,
        Err(_) if grown.late => return,
        Err(error) => panic!("open sizes are refused: {error}"),
    };
    let plain = Options { optimize: false, ..Options::default() };
    let written = outputs(&mut session(graph, &facts, &plain), inputs, "as written");
    if let Ok(written) = &written {
        is_within(graph, &exact, written);
        is_within(graph, &facts, written);
    }
    let mut planned = session(graph, &facts, &Options::default());
    let first = outputs(&mut planned, inputs, "planned");
    // An error in a layer is not found if the optimised plan does not need its output.
    let Ok(written) = written else { return };
    let first = first.unwrap_or_else(|e| panic!("planned, it fails: {e}"));
    is_within(graph, &facts, &first);
    if draws_anew(&grown) {
        return;
    }
    if has_same_bits(&grown) {
        compare(&first, &written, "as written");
    }
    planned.iter_mut().for_each(Session::reset);
    let second = outputs(&mut planned, inputs, "again");
    compare(&second.unwrap_or_default(), &first, "in the second run");
    let once = Options { runs_once: true, ..Options::default() };
    let other = outputs(&mut on(3, graph, &facts, &once), inputs, "once");
    compare(&other.unwrap_or_default(), &first, "in a plan for one run, on three threads");
    let bf16 = Options { precision: Precision::Bf16, ..Options::default() };
    let bf16 = Options { activations: Activations::Int8, ..bf16 };
    let mut rounded = session(graph, &facts, &bf16);
    let first = outputs(&mut rounded, inputs, "in bf16").unwrap_or_else(|e| panic!("in bf16: {e}"));
    is_within(graph, &facts, &first);
    rounded.iter_mut().for_each(Session::reset);
    let second = outputs(&mut rounded, inputs, "in bf16");
    compare(&second.unwrap_or_default(), &first, "in the second run, in bf16");
}

/// The facts of a graph with its dynamic sizes.
pub(super) fn open(grown: &Grown, exact: &Facts) -> Result<Facts, String> {
    match grown.kinds.contains(&"Squeeze") {
        // An axis of unknown size that Squeeze names is assumed to have size 1, as in OpenVINO.
        true => Ok(exact.clone()),
        false => {
            infer::propagate(&grown.graph, &Inputs::default()).map_err(|error| error.to_string())
        }
    }
}

/// The graph of these bytes as text.
pub fn text(data: &[u8]) -> String {
    graphs::tame(data).map(|grown| grown.text()).unwrap_or_default()
}

/// A session on two threads.
pub(super) fn session(graph: &Graph, facts: &Facts, options: &Options) -> Option<Session> {
    on(2, graph, facts, options)
}

/// A session on one to three threads, shared by all sessions with as many.
fn on(count: usize, graph: &Graph, facts: &Facts, options: &Options) -> Option<Session> {
    static THREADS: [OnceLock<Arc<Threads>>; 4] = [const { OnceLock::new() }; 4];
    let plan: Plan = runtime::compile_with(graph, facts, options).ok()?;
    let threads = THREADS[count].get_or_init(|| Arc::new(Threads::new(count)));
    Some(plan.session_on(Arc::clone(threads)))
}

/// The outputs of a run.
pub(super) fn outputs(
    session: &mut Option<Session>,
    inputs: &[Tensor],
    how: &str,
) -> Result<Vec<Tensor>, String> {
    let session = session.as_mut().ok_or_else(|| format!("no plan {how}"))?;
    session.run(inputs).map_err(|error| error.to_string())
}

/// Checks that types and shapes match the inferred facts.
fn is_within(graph: &Graph, facts: &Facts, outputs: &[Tensor]) {
    for (&result, output) in graph.results().iter().zip(outputs) {
        let Some(fact) = graph.inputs_of(result).first().and_then(|port| facts.output(*port))
        else {
            panic!("nothing is known of an output");
        };
        let shape = PartialShape::fixed(output.sizes());
        assert!(fact.shape.covers(&shape), "{output:?} is not in {fact}");
        let own = output.element_type();
        assert!(fact.element_type == own || !fact.element_type.is_static(), "{own} is not {fact}");
    }
}

/// Whether the graph has no operation that docs/numerics.md lists as rounded differently when
/// optimised.
fn has_same_bits(grown: &Grown) -> bool {
    let any = |kinds: &[&str]| grown.kinds.iter().any(|kind| kinds.contains(kind));
    let product = any(&["MatMul", "Einsum"]);
    let convolutions = grown.kinds.iter().filter(|kind| kind.contains("Convolution")).count();
    let convolution = convolutions > 0;
    let sums = grown.kinds.iter().any(|kind| kind.starts_with("Reduce") || kind.contains("Pool"));
    let norms = any(&["MVN", "GroupNormalization", "NormalizeL2", "BatchNormInference"]);
    let half = grown.types.contains(&ElementType::F16);
    let attention = product && any(&["Softmax"]);
    // Also behind activations and sums, as a step of a chain of element-wise operations.
    let quantized = any(&["FakeQuantize"]);
    let gelu = any(&["Erf"]) && any(&["Multiply"]);
    let hard_swish = any(&["Clamp"]) && any(&["Divide"]);
    let scaled = convolution && any(&["Multiply"]) || convolutions > 1 && any(&["Add"]);
    let rooted = any(&["ReduceMean"]) && any(&["Sqrt", "Power"]);
    let rows = norms && any(&["Multiply", "Add", "Subtract"]);
    let layout = (convolution || any(&["Transpose"])) && (sums || norms);
    !(half || attention || quantized || gelu || hard_swish || scaled || rooted || rows || layout)
}

/// Whether random numbers are drawn without a seed, so that each run differs.
fn draws_anew(grown: &Grown) -> bool {
    let seed = |layer: &Layer, name: &str| {
        let given = layer.data.iter().find(|(key, _)| key == name);
        given.and_then(|(_, value)| value.parse::<i64>().ok()).unwrap_or(0)
    };
    let draws = |layer: &&Layer| matches!(&*layer.op_type, "RandomUniform" | "Multinomial");
    let is_open = |layer: &Layer| seed(layer, "global_seed") == 0 && seed(layer, "op_seed") == 0;
    grown.graph.layers().iter().filter(draws).any(is_open)
}

/// Equal to the bit, except that any NaN equals any NaN.
fn compare(some: &[Tensor], others: &[Tensor], how: &str) {
    assert_eq!(some.len(), others.len(), "{how}");
    for (i, (a, b)) in some.iter().zip(others).enumerate() {
        assert_eq!(
            (a.element_type(), a.sizes()),
            (b.element_type(), b.sizes()),
            "output {i} {how}"
        );
        let same = a.bytes() == b.bytes() && a.as_strings() == b.as_strings();
        if same {
            continue;
        }
        let wide =
            |t: &Tensor| runtime::convert(t, ElementType::F64).unwrap_or_else(|e| panic!("{e}"));
        let (wide_a, wide_b) = (wide(a), wide(b));
        let [x, y] = [&wide_a, &wide_b].map(|t| t.as_slice::<f64>().unwrap_or_default());
        let differs =
            |(x, y): (&f64, &f64)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan());
        let at = x.iter().zip(y).position(differs);
        assert!(
            at.is_none(),
            "output {i} {how}: {:?} is {:?} at {at:?}",
            at.map(|i| x[i]),
            at.map(|i| y[i])
        );
    }
}
