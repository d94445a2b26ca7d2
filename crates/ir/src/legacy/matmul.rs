//! FullyConnected and Gemm.

use super::layer::product;
use super::rewrite::{Cx, Made};

/// Multiplies rows of the input by rows of the weights, which are outputs × inputs.
pub(super) fn fully_connected(cx: &mut Cx<'_, '_>) -> Made {
    let mut x = cx.real(0)?;
    let (dims, out) = (cx.old.dims_in(0)?, cx.old.dims_out(0)?);
    let units = cx.old.int("out-size")?.or(out.last().copied()).ok_or("it has no out-size")?;
    let weights = cx.weights("weights", 1, &[units, -1])?.ok_or("it has no weights")?;
    let weights = cx.to(weights, x.element_type);
    // Images become rows. Rows of sequences are kept if the output has as many dims.
    if dims.len() != 2 && dims.len() != out.len() || dims.len() > 3 {
        let depth = match cx.old.blob("weights") {
            Some(blob) => cx.elements(blob)? / units.max(1),
            None => product(dims.get(1..).unwrap_or_default())?,
        };
        let pattern = cx.ints(&[-1, depth]);
        x = cx.op("Reshape", "opset1", &[("special_zero", "false")], &[x, pattern]);
    }
    let data = [("transpose_a", "false"), ("transpose_b", "true")];
    let mut y = cx.op("MatMul", "opset1", &data, &[x, weights]);
    if let Some(bias) = cx.weights("biases", 2, &[units])? {
        let bias = cx.to(bias, y.element_type);
        y = cx.op("Add", "opset1", &[], &[y, bias]);
    }
    Ok(vec![y])
}

/// `alpha * a * b + beta * c`.
pub(super) fn gemm(cx: &mut Cx<'_, '_>) -> Made {
    let (a, b) = (cx.real(0)?, cx.real(1)?);
    let b = cx.to(b, a.element_type);
    let words = |is_set| if is_set { "true" } else { "false" };
    let transposed = [cx.old.flag("transpose_a", false)?, cx.old.flag("transpose_b", false)?];
    let data = [("transpose_a", words(transposed[0])), ("transpose_b", words(transposed[1]))];
    let mut y = cx.op("MatMul", "opset1", &data, &[a, b]);
    y = scaled(cx, y, "alpha")?;
    if cx.inputs() > 2 {
        let c = cx.real(2)?;
        let c = cx.to(c, a.element_type);
        let c = scaled(cx, c, "beta")?;
        y = cx.op("Add", "opset1", &[], &[y, c]);
    }
    Ok(vec![y])
}

fn scaled(
    cx: &mut Cx<'_, '_>,
    value: super::rewrite::Value,
    key: &str,
) -> Result<super::rewrite::Value, String> {
    let factor = cx.old.float_or(key, 1.0)?;
    if factor == 1.0 {
        return Ok(value);
    }
    let factor = cx.reals(&[factor], &[]);
    let factor = cx.to(factor, value.element_type);
    Ok(cx.op("Multiply", "opset1", &[], &[value, factor]))
}
