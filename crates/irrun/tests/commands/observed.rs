//! Looking at the values of layers changes nothing, and shows what the file says.

use cli::suite::case::{self, Case};
use runtime::{Observed, Observer, Options, Origin, Session, Tensor, Threads};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The values of both runs, by path.
#[derive(Default)]
struct Both {
    written: HashMap<String, Tensor>,
    run: HashMap<String, Tensor>,
}

impl Observer for Both {
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        let tensor = value.tensor().map_err(|e| e.to_string())?;
        let values = match value.origin {
            Origin::AsWritten => &mut self.written,
            Origin::AsRun => &mut self.run,
        };
        values.insert(value.path(), tensor);
        Ok(())
    }
}

fn cases() -> Vec<PathBuf> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let find = |dir| case::find(&root.join(dir)).expect("the directory can be read");
    ["fixtures", "models"].into_iter().flat_map(find).collect()
}

fn is_same(a: &Tensor, b: &Tensor) -> bool {
    a.sizes() == b.sizes() && a.bytes() == b.bytes() && a.as_strings() == b.as_strings()
}

/// Far from equal by more than rounding: another layer's value, or one in another layout.
fn is_another(a: &Tensor, b: &Tensor) -> bool {
    if a.sizes() != b.sizes() || a.element_type() != b.element_type() {
        return true;
    }
    let wide = |t: &Tensor| runtime::convert(t, ir::ElementType::F64).ok();
    let (Some(a), Some(b)) = (wide(a), wide(b)) else { return !is_same(a, b) };
    let (a, b) = (a.as_slice::<f64>().unwrap_or_default(), b.as_slice::<f64>().unwrap_or_default());
    let finite = a.iter().zip(b).filter(|(a, b)| a.is_finite() && b.is_finite());
    let (mut apart, mut size) = (0.0, 1e-6);
    for (a, b) in finite {
        apart += (a - b).powi(2);
        size += b.powi(2);
    }
    apart > 0.01 * size
}

fn session(dir: &Path, inputs: &[Tensor], optimize: bool) -> Session {
    let graph = ir::read(dir.join("model.xml")).expect("a case can be read");
    let options = Options { optimize, ..Options::default() };
    let plan = cli::run::plan(&graph, inputs, &[], &options).expect("a case has a plan");
    plan.session_on(Arc::new(Threads::new(1)))
}

#[test]
fn outputs_have_the_same_bits_when_layers_are_looked_at() {
    for dir in cases() {
        let graph = ir::read(dir.join("model.xml")).expect("a case can be read");
        let case = Case::open(&dir).expect("a case can be opened");
        let steps = case.inputs(&graph).expect("the inputs can be read");
        for optimize in [false, true] {
            let (mut plain, mut observed) =
                (session(&dir, &steps[0], optimize), session(&dir, &steps[0], optimize));
            for inputs in &steps {
                let wanted = plain.run(inputs).expect("a case runs");
                let (outputs, both) = observed.run_observed(inputs, Both::default());
                let outputs = outputs.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
                let same = wanted.iter().zip(&outputs).all(|(a, b)| is_same(a, b));
                assert!(same && wanted.len() == outputs.len(), "{}, {optimize}", dir.display());
                assert_eq!(both.written.is_empty(), !optimize, "{}", dir.display());
            }
        }
    }
}

#[test]
fn what_is_shown_of_the_plan_is_what_the_file_says_but_for_rounding() {
    for dir in cases() {
        let graph = ir::read(dir.join("model.xml")).expect("a case can be read");
        let case = Case::open(&dir).expect("a case can be opened");
        let steps = case.inputs(&graph).expect("the inputs can be read");
        let (outputs, both) =
            session(&dir, &steps[0], true).run_observed(&steps[0], Both::default());
        outputs.expect("a case runs");
        for (path, run) in &both.run {
            let Some(written) = both.written.get(path) else { continue };
            assert!(!is_another(run, written), "{}: {path} is {run:?}", dir.display());
        }
    }
}

/// What is a part of a result that was computed in place has the values behind that step, not those
/// before it, which lie in the same memory.
#[test]
fn parts_of_what_is_computed_in_place_are_shown_when_it_is_there() {
    let mut g = ir::GraphBuilder::new("m");
    let x = g.parameter("x", ir::ElementType::F32, "3");
    let abs = g.layer("Abs", "opset1").name("abs").inputs(&[x]).output();
    let negative = g.layer("Negative", "opset1").name("negative").inputs(&[abs]).output();
    let part = g.layer("Identity", "opset16").name("part").inputs(&[negative]).output();
    let floor = g.layer("Floor", "opset1").name("floor").inputs(&[part]).output();
    g.result("y", floor);
    let graph = g.finish().expect("it is complete");
    let input = Tensor::from_vec(&[3], vec![1.5f32, -2.5, 3.5]).expect("it fits");
    let options = Options { optimize: false, ..Options::default() };
    let inputs = std::slice::from_ref(&input);
    let plan = cli::run::plan(&graph, inputs, &[], &options).expect("it has a plan");
    let (outputs, both) =
        plan.session_on(Arc::new(Threads::new(1))).run_observed(inputs, Both::default());
    outputs.expect("it runs");
    let values = |path: &str| both.run[path].as_slice::<f32>().expect("f32").to_vec();
    assert_eq!(values("abs:0"), [1.5, 2.5, 3.5]);
    assert_eq!(values("negative:0"), [-1.5, -2.5, -3.5]);
    assert_eq!(values("part:0"), [-1.5, -2.5, -3.5]);
    assert_eq!(values("floor:0"), [-2.0, -3.0, -4.0]);
}
