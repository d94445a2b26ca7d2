//! BatchNormalization, Norm, Normalize, MVN, GRN and SoftMax.

use super::layer::axis_of;
use super::rewrite::{Cx, Made};

/// Its weights are the variances, its biases the means.
pub(super) fn batch_normalization(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let channels = cx.old.dims_in(0)?.get(1).copied().ok_or("its input has no channels")?;
    let variance = cx.weights("weights", 1, &[channels])?.ok_or("it has no weights")?;
    let mean = cx.weights("biases", 2, &[channels])?.ok_or("it has no biases")?;
    let shape = cx.ints(&[channels]);
    let [gamma, beta] = [1.0, 0.0].map(|value| {
        let value = cx.reals(&[value], &[]);
        cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[value, shape])
    });
    let epsilon = cx.old.float_or("epsilon", 0.0)?.to_string();
    let inputs = [x, gamma, beta, mean, variance].map(|value| cx.to(value, x.element_type));
    Ok(vec![cx.op("BatchNormInference", "opset5", &[("epsilon", &epsilon)], &inputs)])
}

/// LRN across channels, or within a channel over neighbouring positions.
pub(super) fn lrn(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let rank = i64::try_from(cx.old.dims_in(0)?.len()).unwrap_or(0);
    let old = cx.old;
    let region = old.text(&["region"]).unwrap_or("across");
    let axes: Vec<i64> =
        if region.eq_ignore_ascii_case("across") { vec![1] } else { (2..rank).collect() };
    let size = old
        .int("local-size")?
        .or(old.int("local_size")?)
        .ok_or("it has no local-size")?
        .to_string();
    let float = |key, default| Ok::<_, String>(old.float_or(key, default)?.to_string());
    let (alpha, beta, bias) = (float("alpha", 1e-4)?, float("beta", 0.75)?, float("k", 1.0)?);
    let data = [("alpha", alpha.as_str()), ("beta", &beta), ("bias", &bias), ("size", &size)];
    let axes = cx.ints(&axes);
    Ok(vec![cx.op("LRN", "opset1", &data, &[x, axes])])
}

/// Divides by the L2 norm, then multiplies each channel by its weight.
pub(super) fn l2(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let dims = cx.old.dims_in(0)?;
    let rank = i64::try_from(dims.len()).unwrap_or(0);
    let axes: Vec<i64> =
        if cx.old.flag("across_spatial", false)? { (1..rank).collect() } else { vec![1] };
    let eps = cx.old.float_or("eps", 1e-10)?.to_string();
    let axes = cx.ints(&axes);
    let mut y = cx.op("NormalizeL2", "opset1", &[("eps", &eps), ("eps_mode", "add")], &[x, axes]);
    let mut shape = vec![1; dims.len()];
    if let Some(channels) = shape.get_mut(1) {
        *channels = -1;
    }
    if let Some(scale) = cx.weights("weights", 1, &shape)? {
        let scale = cx.to(scale, y.element_type);
        y = cx.op("Multiply", "opset1", &[], &[y, scale]);
    }
    Ok(vec![y])
}

pub(super) fn mvn(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let rank = i64::try_from(cx.old.dims_in(0)?.len()).unwrap_or(0);
    let first = if cx.old.flag("across_channels", false)? { 1 } else { 2 };
    let variance = if cx.old.flag("normalize_variance", true)? { "true" } else { "false" };
    let eps = cx.old.float_or("eps", 1e-9)?.to_string();
    let data = [("normalize_variance", variance), ("eps", &eps), ("eps_mode", "inside_sqrt")];
    let axes = cx.ints(&(first..rank).collect::<Vec<_>>());
    Ok(vec![cx.op("MVN", "opset6", &data, &[x, axes])])
}

pub(super) fn grn(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let bias = cx.old.float_or("bias", 0.0)?.to_string();
    Ok(vec![cx.op("GRN", "opset1", &[("bias", &bias)], &[x])])
}

pub(super) fn softmax(cx: &mut Cx<'_, '_>) -> Made {
    along(cx, "Softmax", "opset1", 1)
}

pub(super) fn log_softmax(cx: &mut Cx<'_, '_>) -> Made {
    along(cx, "LogSoftmax", "opset5", -1)
}

fn along(cx: &mut Cx<'_, '_>, op_type: &str, version: &str, default: i64) -> Made {
    let x = cx.real(0)?;
    let axis = axis_of(cx.old.int_or("axis", default)?, cx.old.dims_in(0)?.len())?.to_string();
    Ok(vec![cx.op(op_type, version, &[("axis", &axis)], &[x])])
}
