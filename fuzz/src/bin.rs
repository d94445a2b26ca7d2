//! A constant of any type, shape, offset and size, over any `.bin`.

use super::choices::Choices;
use super::run::MEMORY;
use infer::Inputs;
use ir::{ElementType, Weights};
use runtime::Options;
use std::path::Path;
use std::sync::Arc;

/// Numbers for offsets and sizes.
const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "8",
    "64",
    "-1",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "",
];
/// Dims of shapes.
const DIMS: [&str; 10] =
    ["1", "2", "0", "3", "8", "-1", "?", "4294967296", "9223372036854775807", "1..2"];

/// The constant, as itself and in f32, is an error or has the values of its bytes.
pub fn bin(data: &[u8]) {
    let mut c = Choices::new(data);
    let types: Vec<ElementType> = ElementType::all().collect();
    let (element_type, to) = (c.of(&types), c.of(&types));
    let dims: Vec<&str> = (0..c.below(5)).map(|_| c.of(&DIMS)).collect();
    let offset = number(&mut c);
    let size =
        if c.flag() { number(&mut c) } else { size(element_type, &dims).unwrap_or(1).to_string() };
    let text = document(element_type.name(), &dims.join(","), &offset, &size, to.name());
    let weights = Arc::new(Weights::from_bytes(c.rest().to_vec()));
    let Ok(graph) = ir::read_bytes(text.as_bytes(), Path::new("model.xml"), weights) else {
        return;
    };
    let facts = match infer::propagate(&graph, &Inputs::default()) {
        Ok(facts) => facts,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    runtime::set_memory_limit(Some(MEMORY));
    for optimize in [true, false] {
        let options = Options { optimize, ..Options::default() };
        let plan = runtime::compile_with(&graph, &facts, &options);
        let Ok(outputs) = plan.and_then(|plan| plan.session().run(&[])) else { continue };
        assert_eq!(outputs[0].element_type(), element_type);
    }
}

/// A number as text: one of a list, or a small one.
fn number(c: &mut Choices) -> String {
    if c.flag() { c.of(&NUMBERS).to_owned() } else { c.below(40).to_string() }
}

/// The size in bytes of a shape.
fn size(element_type: ElementType, dims: &[&str]) -> Option<u64> {
    let sizes: Option<Vec<u64>> = dims.iter().map(|dim| dim.parse().ok()).collect();
    let count = sizes?.into_iter().try_fold(1u64, u64::checked_mul)?;
    element_type.packed_len(count)
}

fn document(element_type: &str, shape: &str, offset: &str, size: &str, to: &str) -> String {
    format!(
        r#"<net name="bin" version="11"><layers>
<layer id="0" name="c" type="Const" version="opset1">
<data element_type="{element_type}" shape="{shape}" offset="{offset}" size="{size}"/>
<output><port id="0"/></output></layer>
<layer id="1" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>
<layer id="2" name="v" type="Convert" version="opset1"><data destination_type="{to}"/>
<input><port id="0"/></input><output><port id="1"/></output></layer>
<layer id="3" name="s" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="2" from-port="1" to-layer="3" to-port="0"/>
</edges></net>"#
    )
}
