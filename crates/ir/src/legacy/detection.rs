//! Detection: priors, proposals and their selection.

use super::layer::product;
use super::rewrite::{Cx, Made, Value};
use crate::element::ElementType::{F32, I32, I64};

/// The attributes of ROIPooling.
pub(super) const ROI_POOLING: &[&str] = &["pooled_h", "pooled_w", "spatial_scale", "method"];

/// Height and width of an image.
fn size_of_image(cx: &mut Cx<'_, '_>, input: usize) -> Result<Value, String> {
    let x = cx.any(input)?;
    let shape = cx.op("ShapeOf", "opset3", &[("output_type", "i64")], &[x]);
    let [axes, zero] = [cx.ints(&[2, 3]), cx.int(0)];
    let size = cx.op("Gather", "opset1", &[], &[shape.of_type(I64), axes, zero]);
    Ok(size.of_type(I64))
}

/// Prior boxes with the leading dim of 1 that these versions have.
fn priors(
    cx: &mut Cx<'_, '_>,
    op_type: &str,
    attributes: &[&'static str],
    sizes: [Value; 2],
) -> Made {
    let data = cx.attributes(attributes);
    let boxes = cx.op(op_type, "opset1", &data, &sizes);
    let axis = cx.ints(&[0]);
    let boxes = cx.op("Unsqueeze", "opset1", &[], &[boxes.of_type(F32), axis]);
    Ok(vec![boxes])
}

pub(super) fn prior_box(cx: &mut Cx<'_, '_>) -> Made {
    const ATTRIBUTES: &[&str] = &[
        "min_size",
        "max_size",
        "aspect_ratio",
        "flip",
        "clip",
        "step",
        "offset",
        "variance",
        "scale_all_sizes",
        "fixed_ratio",
        "fixed_size",
        "density",
    ];
    let sizes = [size_of_image(cx, 0)?, size_of_image(cx, 1)?];
    priors(cx, "PriorBox", ATTRIBUTES, sizes)
}

pub(super) fn prior_box_clustered(cx: &mut Cx<'_, '_>) -> Made {
    const ATTRIBUTES: &[&str] =
        &["width", "height", "clip", "step", "step_w", "step_h", "offset", "variance"];
    let cells = size_of_image(cx, 0)?;
    let image = match (cx.old.int_or("img_h", 0)?, cx.old.int_or("img_w", 0)?) {
        (0, 0) => size_of_image(cx, 1)?,
        // A size of 0 means that of the second input.
        (height, width) => {
            let dims = cx.old.dims_in(1)?;
            let [_, _, own_height, own_width] = dims[..] else {
                return Err(format!("its second input is no image: it has the dims {dims:?}"));
            };
            let or_own = |size, own| if size == 0 { own } else { size };
            cx.ints(&[or_own(height, own_height), or_own(width, own_width)])
        }
    };
    priors(cx, "PriorBoxClustered", ATTRIBUTES, [cells, image])
}

/// The defaults are those of the old inference engine, not of the current operation.
pub(super) fn detection_output(cx: &mut Cx<'_, '_>) -> Made {
    const ATTRIBUTES: &[&str] = &[
        "num_classes",
        "background_label_id",
        "top_k",
        "variance_encoded_in_target",
        "keep_top_k",
        "share_location",
        "nms_threshold",
        "clip_after_nms",
        "decrease_label_id",
        "input_height",
        "input_width",
        "objectness_score",
    ];
    let inputs = (0..cx.inputs()).map(|i| cx.any(i)).collect::<Result<Vec<_>, _>>()?;
    let mut data = cx.attributes(ATTRIBUTES);
    let words = |is_set: bool| if is_set { "1" } else { "0" };
    let code = cx.old.text(&["code_type"]).unwrap_or_default().to_ascii_lowercase();
    let is_center = code.ends_with("center_size");
    data.push((
        "code_type",
        if is_center {
            "caffe.PriorBoxParameter.CENTER_SIZE"
        } else {
            "caffe.PriorBoxParameter.CORNER"
        },
    ));
    data.push(("normalized", words(cx.old.flag("normalized", true)?)));
    let clips = cx.old.flag("clip_before_nms", false)? || cx.old.flag("clip", false)?;
    data.push(("clip_before_nms", words(clips)));
    data.push((
        "confidence_threshold",
        cx.old.text(&["confidence_threshold"]).unwrap_or("-3.4e38"),
    ));
    if cx.old.text(&["keep_top_k"]).is_none() {
        data.push(("keep_top_k", "-1"));
    }
    Ok(vec![cx.op("DetectionOutput", "opset1", &data, &inputs)])
}

/// The first elements of the image size, as a list.
fn image_info(cx: &mut Cx<'_, '_>) -> Result<Value, String> {
    let (x, dims) = (cx.real(2)?, cx.old.dims_in(2)?);
    let pattern = cx.ints(&[-1]);
    let mut info = if dims.len() == 1 {
        x
    } else {
        cx.op("Reshape", "opset1", &[("special_zero", "false")], &[x, pattern])
    };
    if product(&dims)? > 4 {
        let [start, stop, step] = [0, 3, 1].map(|value| cx.ints(&[value]));
        info = cx.op("Slice", "opset8", &[], &[info, start, stop, step]);
    }
    Ok(info)
}

pub(super) fn proposal(cx: &mut Cx<'_, '_>) -> Made {
    const ATTRIBUTES: &[&str] = &[
        "base_size",
        "pre_nms_topn",
        "post_nms_topn",
        "nms_thresh",
        "feat_stride",
        "min_size",
        "ratio",
        "scale",
        "clip_before_nms",
        "clip_after_nms",
        "normalize",
        "box_size_scale",
        "box_coordinate_scale",
        "framework",
    ];
    let data = cx.attributes(ATTRIBUTES);
    proposed(cx, &data, [0, 1])
}

/// Proposal with its own anchors; the scores may be either of two inputs.
pub(super) fn simpler_nms(cx: &mut Cx<'_, '_>) -> Made {
    let channels = |input| Ok::<_, String>(cx.old.dims_in(input)?.get(1).copied().unwrap_or(0));
    let order = if channels(0)? > channels(1)? { [1, 0] } else { [0, 1] };
    let mut data = cx.attributes(&["pre_nms_topn", "post_nms_topn", "feat_stride", "scale"]);
    for (key, own) in [("nms_thresh", "iou_threshold"), ("min_size", "min_bbox_size")] {
        data.push((key, cx.old.text(&[own]).ok_or_else(|| format!("it has no {own}"))?));
    }
    data.extend([("base_size", "16"), ("ratio", "0.5,1,2"), ("clip_before_nms", "1")]);
    proposed(cx, &data, order)
}

fn proposed(cx: &mut Cx<'_, '_>, data: &[(&str, &str)], [scores, boxes]: [usize; 2]) -> Made {
    let inputs = [cx.real(scores)?, cx.real(boxes)?, image_info(cx)?];
    if cx.old.layer.outputs.len() < 2 {
        return Ok(vec![cx.op("Proposal", "opset1", data, &inputs)]);
    }
    cx.ops("Proposal", "opset4", data, &inputs, 2);
    let element_type = inputs[0].element_type;
    Ok(vec![cx.port(0, element_type), cx.port(1, element_type)])
}

pub(super) fn psroi_pooling(cx: &mut Cx<'_, '_>) -> Made {
    let inputs = (0..cx.inputs()).map(|i| cx.any(i)).collect::<Result<Vec<_>, _>>()?;
    let mut data = cx.attributes(&[
        "output_dim",
        "group_size",
        "spatial_scale",
        "mode",
        "spatial_bins_x",
        "spatial_bins_y",
    ]);
    if cx.old.text(&["mode"]) != Some("bilinear_deformable") {
        return Ok(vec![cx.op("PSROIPooling", "opset1", &data, &inputs)]);
    }
    data.extend(cx.attributes(&["trans_std", "part_size"]));
    Ok(vec![cx.op("DeformablePSROIPooling", "opset1", &data, &inputs)])
}

pub(super) fn region_yolo(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let mut data =
        cx.attributes(&["coords", "classes", "num", "do_softmax", "mask", "axis", "end_axis"]);
    for (key, default) in [("axis", "1"), ("end_axis", "3")] {
        if cx.old.text(&[key]).is_none() {
            data.push((key, default));
        }
    }
    Ok(vec![cx.op("RegionYolo", "opset1", &data, &[x])])
}

/// Positions that are not selected are -1.
pub(super) fn non_max_suppression(cx: &mut Cx<'_, '_>) -> Made {
    let mut inputs = vec![cx.real(0)?, cx.real(1)?];
    for input in 2..cx.inputs() {
        let value = if input == 2 { cx.index(input)? } else { cx.real(input)? };
        inputs.push(value);
    }
    let encoding = if cx.old.flag("center_point_box", false)? { "center" } else { "corner" };
    let sorted = if cx.old.flag("sort_result_descending", true)? { "true" } else { "false" };
    let data =
        [("box_encoding", encoding), ("sort_result_descending", sorted), ("output_type", "i32")];
    let y = cx.op("NonMaxSuppression", "opset4", &data, &inputs);
    let declared = cx.declared(0);
    Ok(vec![cx.to(y.of_type(I32), declared)])
}

/// Without lengths, sequences are as long as the data.
pub(super) fn ctc_greedy_decoder(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let mask = match cx.inputs() {
        0 | 1 => {
            let dims = cx.old.dims_in(0)?;
            let (one, shape) = (cx.reals(&[1.0], &[]), cx.ints(dims.get(..2).unwrap_or_default()));
            cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[one, shape])
        }
        _ => cx.real(1)?,
    };
    let mask = cx.to(mask, x.element_type);
    let merges = if cx.old.flag("ctc_merge_repeated", true)? { "true" } else { "false" };
    Ok(vec![cx.op("CTCGreedyDecoder", "opset1", &[("ctc_merge_repeated", merges)], &[x, mask])])
}
