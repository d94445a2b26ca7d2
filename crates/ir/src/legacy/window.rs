//! Convolution, BinaryConvolution, Deconvolution, Pooling, and upsampling.

use super::layer::{Old, joined};
use super::rewrite::{Cx, Made, Value};

/// The windows of a layer, one number per spatial axis.
struct Windows {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads_begin: Vec<i64>,
    pads_end: Vec<i64>,
    auto_pad: &'static str,
}

impl Windows {
    /// Version 2 has separate attributes for x and y, later versions have lists.
    fn of(old: Old<'_>) -> Result<Windows, String> {
        let auto_pad = match old.text(&["auto_pad"]) {
            Some("same_upper") => "same_upper",
            Some("same_lower") => "same_lower",
            Some("valid") => "valid",
            _ => "explicit",
        };
        let Some(kernel) = old.ints("kernel")? else { return Windows::of_version_2(old, auto_pad) };
        let list = |key, default: i64| -> Result<Vec<i64>, String> {
            Ok(old.ints(key)?.unwrap_or_else(|| vec![default; kernel.len()]))
        };
        let pads_begin = list("pads_begin", 0)?;
        let windows = Windows {
            strides: list("strides", 1)?,
            dilations: list("dilations", 1)?,
            pads_end: old.ints("pads_end")?.unwrap_or_else(|| pads_begin.clone()),
            pads_begin,
            kernel,
            auto_pad,
        };
        windows.checked()
    }

    fn of_version_2(old: Old<'_>, auto_pad: &'static str) -> Result<Windows, String> {
        let pair = |keys: [&str; 2], default: [i64; 2]| -> Result<Vec<i64>, String> {
            let values = [old.int_or(keys[0], default[0])?, old.int_or(keys[1], default[1])?];
            Ok(values.to_vec())
        };
        let pads_begin = pair(["pad-y", "pad-x"], [0, 0])?;
        let [top, left] = pads_begin[..] else { return Err("it has no pads".to_owned()) };
        let windows = Windows {
            kernel: vec![old.needed("kernel-y")?, old.needed("kernel-x")?],
            // A stride of 0 means 1.
            strides: pair(["stride-y", "stride-x"], [1, 1])?.iter().map(|s| *s.max(&1)).collect(),
            dilations: pair(["dilation-y", "dilation-x"], [1, 1])?,
            pads_end: pair(["pad-b", "pad-r"], [top, left])?,
            pads_begin,
            auto_pad,
        };
        windows.checked()
    }

    fn checked(mut self) -> Result<Windows, String> {
        let count = self.kernel.len();
        // A dilation of 0 means 1.
        self.dilations.iter_mut().for_each(|d| *d = *d.max(&mut 1));
        for (key, list) in [
            ("strides", &self.strides),
            ("dilations", &self.dilations),
            ("pads_begin", &self.pads_begin),
            ("pads_end", &self.pads_end),
        ] {
            if list.len() != count {
                return Err(format!("{key} has {} values, kernel {count}", list.len()));
            }
        }
        if self.strides.iter().chain(&self.kernel).any(|v| *v < 1) {
            return Err("strides and kernel must be positive".to_owned());
        }
        Ok(self)
    }

    /// The attributes of a convolution.
    fn data(&self) -> Vec<(&'static str, String)> {
        let mut data = self.data_of_pooling();
        data.push(("dilations", joined(&self.dilations)));
        data
    }

    fn data_of_pooling(&self) -> Vec<(&'static str, String)> {
        vec![
            ("strides", joined(&self.strides)),
            ("pads_begin", joined(&self.pads_begin)),
            ("pads_end", joined(&self.pads_end)),
            ("auto_pad", self.auto_pad.to_owned()),
        ]
    }

    /// Output sizes with explicit pads: rounded down, rounded up, and rounded up without windows
    /// that begin after the data.
    fn sizes(&self, data: &[i64]) -> [Vec<i64>; 3] {
        let mut sizes = [Vec::new(), Vec::new(), Vec::new()];
        for (i, size) in data.iter().enumerate() {
            let of = |list: &[i64]| list.get(i).copied().unwrap_or(0);
            let (stride, begin) = (of(&self.strides).max(1), of(&self.pads_begin));
            let padded = size.saturating_add(begin).saturating_add(of(&self.pads_end));
            let span = padded.saturating_sub(of(&self.kernel)).max(0);
            let (down, rest) = (span / stride, span % stride);
            let up = down.saturating_add(i64::from(rest > 0));
            let clipped =
                if up.saturating_mul(stride) >= size.saturating_add(begin) { up - 1 } else { up };
            for (list, steps) in sizes.iter_mut().zip([down, up, clipped]) {
                list.push(steps.saturating_add(1));
            }
        }
        sizes
    }
}

fn borrowed<'d>(data: &'d [(&'static str, String)]) -> Vec<(&'d str, &'d str)> {
    data.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

fn spatial(dims: &[i64]) -> &[i64] {
    dims.get(2..).unwrap_or_default()
}

/// Adds a bias per channel.
fn biased(cx: &mut Cx<'_, '_>, y: Value, input: usize) -> Made {
    let mut shape = vec![1; cx.old.dims_out(0)?.len().max(2)];
    if let Some(channels) = shape.get_mut(1) {
        *channels = -1;
    }
    let Some(bias) = cx.weights("biases", input, &shape)? else { return Ok(vec![y]) };
    let bias = cx.to(bias, y.element_type);
    Ok(vec![cx.op("Add", "opset1", &[], &[y, bias])])
}

/// The dims of filters: groups, if there are several, then `first`, `second` and the kernel.
fn filters(groups: i64, first: i64, second: i64, kernel: &[i64]) -> Result<Vec<i64>, String> {
    if groups < 1 || first % groups != 0 {
        return Err(format!("{first} channels are not {groups} groups"));
    }
    let mut shape = if groups > 1 { vec![groups, first / groups] } else { vec![first] };
    shape.push(second);
    shape.extend(kernel);
    Ok(shape)
}

pub(super) fn convolution(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let windows = Windows::of(cx.old)?;
    let (groups, outputs) = (cx.old.int_or("group", 1)?, cx.old.needed("output")?);
    let shape = filters(groups, outputs, -1, &windows.kernel)?;
    let weights = cx.weights("weights", 1, &shape)?.ok_or("it has no weights")?;
    let weights = cx.to(weights, x.element_type);
    let op_type = if groups > 1 { "GroupConvolution" } else { "Convolution" };
    let y = cx.op(op_type, "opset1", &borrowed(&windows.data()), &[x, weights]);
    biased(cx, y, 2)
}

/// A weight is one bit, the lowest of a byte first, and 0 stands for -1, as in today's operation.
pub(super) fn binary_convolution(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let windows = Windows::of(cx.old)?;
    // A BinaryConvolution of today has no groups, and no file with groups is known.
    if let Some(groups) = cx.old.int("group")?.filter(|groups| *groups != 1) {
        return Err(format!("group=\"{groups}\" is not known"));
    }
    let mode = cx.old.text(&["mode"]).unwrap_or("xnor-popcount");
    if mode != "xnor-popcount" {
        return Err(format!("mode=\"{mode}\" is not known"));
    }
    // The number of bits need not fill the last byte, so that no dim follows from the size.
    let mut shape = vec![cx.old.needed("output")?, cx.old.needed("input")?];
    shape.extend(&windows.kernel);
    let weights = cx.bits("weights", &shape)?;
    let mut data = windows.data();
    data.push(("mode", mode.to_owned()));
    data.push(("pad_value", cx.old.float_or("pad_value", 0.0)?.to_string()));
    Ok(vec![cx.op("BinaryConvolution", "opset1", &borrowed(&data), &[x, weights])])
}

/// Filters are inputs × outputs. If pads follow from sizes, the output has the declared size.
pub(super) fn deconvolution(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let windows = Windows::of(cx.old)?;
    let (groups, outputs) = (cx.old.int_or("group", 1)?, cx.old.needed("output")?);
    let channels = cx.old.dims_in(0)?.get(1).copied().ok_or("its input has no channels")?;
    if groups < 1 || outputs % groups != 0 {
        return Err(format!("{outputs} channels are not {groups} groups"));
    }
    let shape = filters(groups, channels, outputs / groups, &windows.kernel)?;
    let weights = cx.weights("weights", 1, &shape)?.ok_or("it has no weights")?;
    let weights = cx.to(weights, x.element_type);
    let op_type =
        if groups > 1 { "GroupConvolutionBackpropData" } else { "ConvolutionBackpropData" };
    let mut inputs = vec![x, weights];
    if windows.auto_pad.starts_with("same") {
        inputs.push(cx.ints(spatial(&cx.old.dims_out(0)?)));
    }
    let y = cx.op(op_type, "opset1", &borrowed(&windows.data()), &inputs);
    biased(cx, y, 2)
}

pub(super) fn deformable(cx: &mut Cx<'_, '_>) -> Made {
    let (x, offsets) = (cx.real(0)?, cx.real(1)?);
    let windows = Windows::of(cx.old)?;
    let outputs = cx.old.needed("output")?;
    let mut shape = vec![outputs, -1];
    shape.extend(&windows.kernel);
    let weights = cx.weights("weights", 2, &shape)?.ok_or("it has no weights")?;
    let [offsets, weights] = [offsets, weights].map(|value| cx.to(value, x.element_type));
    let mut data = windows.data();
    data.push(("group", cx.old.int_or("group", 1)?.to_string()));
    let deformable = match cx.old.int("num_deformable_group")? {
        Some(groups) => groups,
        None => cx.old.int_or("deformable_group", 1)?,
    };
    data.push(("deformable_group", deformable.to_string()));
    let y = cx.op("DeformableConvolution", "opset1", &borrowed(&data), &[x, offsets, weights]);
    biased(cx, y, 3)
}

/// The declared output size determines the rounding, if the file does not.
pub(super) fn pooling(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let windows = Windows::of(cx.old)?;
    let (dims, declared) = (cx.old.dims_in(0)?, cx.old.dims_out(0)?);
    let [down, up, clipped] = windows.sizes(spatial(&dims));
    let declared = spatial(&declared);
    let is_down = match cx.old.text(&["rounding_type", "rounding-type"]) {
        Some(rounding) if declared != down.as_slice() || up == down => rounding == "floor",
        _ => declared == down.as_slice(),
    };
    let is_clipped = !is_down && clipped != up && windows.auto_pad == "explicit";
    let rounding = match (is_down, is_clipped) {
        (true, _) => "floor",
        (false, false) => "ceil",
        (false, true) => "ceil_torch",
    };
    let mut data = windows.data_of_pooling();
    data.push(("kernel", joined(&windows.kernel)));
    data.push(("rounding_type", rounding.to_owned()));
    let method = cx.old.text(&["pool-method"]).unwrap_or("max");
    match method {
        "max" if is_clipped => {
            data.push(("dilations", joined(&vec![1; windows.kernel.len()])));
            cx.ops("MaxPool", "opset14", &borrowed(&data), &[x], 2);
            Ok(vec![cx.port(0, x.element_type)])
        }
        "max" => Ok(vec![cx.op("MaxPool", "opset1", &borrowed(&data), &[x])]),
        "avg" => {
            let x = cx.real(0)?;
            // Zeros count only if there is padding before the data.
            let excludes =
                cx.old.flag("exclude-pad", false)? || windows.pads_begin.iter().all(|p| *p == 0);
            data.push(("exclude-pad", if excludes { "true" } else { "false" }.to_owned()));
            let version = if is_clipped { "opset14" } else { "opset1" };
            Ok(vec![cx.op("AvgPool", version, &borrowed(&data), &[x])])
        }
        other => Err(format!("pool-method=\"{other}\" is not known")),
    }
}

/// Attributes of an Interpolate with given sizes.
fn interpolate<'a>(
    mode: &'a str,
    coordinates: &'a str,
    nearest: &'a str,
    antialias: &'a str,
) -> Vec<(&'a str, &'a str)> {
    vec![
        ("mode", mode),
        ("shape_calculation_mode", "sizes"),
        ("coordinate_transformation_mode", coordinates),
        ("nearest_mode", nearest),
        ("antialias", antialias),
        ("pads_begin", "0"),
        ("pads_end", "0"),
        ("cube_coeff", "-0.75"),
    ]
}

/// Resizes the spatial axes to the declared sizes.
fn resized(cx: &mut Cx<'_, '_>, x: Value, data: &[(&str, &str)]) -> Made {
    let (input, output) = (cx.old.dims_in(0)?, cx.old.dims_out(0)?);
    let (from, to) = (spatial(&input), spatial(&output));
    if from.len() != to.len() || from.is_empty() {
        return Err(format!("it makes {output:?} of {input:?}"));
    }
    let rank = i64::try_from(input.len()).unwrap_or(0);
    let (sizes, axes) = (cx.ints(to), cx.ints(&(2..rank).collect::<Vec<_>>()));
    let scales = cx.reals(&vec![1.0; to.len()], &[rank - 2]);
    let scales = cx.to(scales, crate::ElementType::F32);
    Ok(vec![cx.op("Interpolate", "opset4", data, &[x, sizes, scales, axes])])
}

/// Linear interpolation; negative pads crop before it.
pub(super) fn interp(cx: &mut Cx<'_, '_>) -> Made {
    let mut x = cx.real(0)?;
    let [begin, end] = [cx.old.int_or("pad_beg", 0)?, cx.old.int_or("pad_end", 0)?];
    if begin > 0 || end > 0 {
        return Err(format!(
            "pad_beg={begin} and pad_end={end}: only what is cut off is known here"
        ));
    }
    if begin < 0 || end < 0 {
        let far = if end < 0 { end } else { i64::MAX };
        let [start, stop, step, axes] =
            [[-begin; 2], [far; 2], [1; 2], [2, 3]].map(|values| cx.ints(&values));
        x = cx.op("Slice", "opset8", &[], &[x, start, stop, step, axes]);
    }
    let coordinates =
        if cx.old.flag("align_corners", true)? { "align_corners" } else { "asymmetric" };
    resized(cx, x, &interpolate("linear_onnx", coordinates, "floor", "false"))
}

pub(super) fn resample(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let antialias = if cx.old.flag("antialias", false)? { "true" } else { "false" };
    let mode = match cx.old.text(&["type"]) {
        Some("caffe.ResampleParameter.NEAREST") => "nearest",
        Some("caffe.ResampleParameter.LINEAR") => "linear",
        other => return Err(format!("type=\"{}\" is not known", other.unwrap_or_default())),
    };
    resized(cx, x, &interpolate(mode, "half_pixel", "round_prefer_ceil", antialias))
}
