//! Attributes that converters wrote but that no version of the operation has. They change nothing,
//! so they are no finding.

/// Attributes that Model Optimizer and POT wrote on layers of any type.
const ANYWHERE: &[&str] = &[
    "InputMemoryFormats",
    "OutputMemoryFormats",
    "PrimitivesPriority",
    "cacheable",
    "originalLayersNames",
    "primitives_priority",
];

/// Attributes that they wrote on layers of some types: from older IR versions, from the original
/// framework, or from a similar operation.
const OF_TYPES: &[(&[&str], &[&str])] = &[
    (
        &[
            "BinaryConvolution",
            "Convolution",
            "ConvolutionBackpropData",
            "DeformableConvolution",
            "GroupConvolution",
            "GroupConvolutionBackpropData",
        ],
        &["group", "input", "kernel", "mode", "output", "output_padding", "pad_value"],
    ),
    (
        &["AvgPool", "MaxPool"],
        &["axis", "dilations", "exclude-pad", "index_element_type", "pool-method", "rounding_type"],
    ),
    (
        &["DetectionOutput"],
        &[
            "clip",
            "eta",
            "height",
            "height_scale",
            "interp_mode",
            "interpolate_orientation",
            "label_map_file",
            "name_size_file",
            "num_classes",
            "num_orient_classes",
            "num_test_image",
            "output_directory",
            "output_format",
            "output_name_prefix",
            "pad_mode",
            "pad_value",
            "prob",
            "resize_mode",
            "save_file",
            "visualize",
            "visualize_threshold",
            "width",
            "width_scale",
        ],
    ),
    (
        &["PriorBox", "PriorBoxClustered"],
        &["aspect_ratio", "flip", "img_h", "img_size", "img_w", "step", "step_h", "step_w"],
    ),
    (
        &["Interpolate"],
        &["factor", "height", "pad_beg", "pad_end", "shrink_factor", "width", "zoom_factor"],
    ),
    (
        &["PRelu"],
        &[
            "channel_shared",
            "filler_type",
            "filler_value",
            "max",
            "mean",
            "min",
            "sparse",
            "std",
            "variance_norm",
        ],
    ),
    (&["NormalizeL2"], &["across_spatial", "channel_shared"]),
    (&["LRN"], &["local-size", "region"]),
    (
        &["PSROIPooling", "DeformablePSROIPooling"],
        &["no_trans", "part_size", "pooled_height", "pooled_width", "sample_per_part", "trans_std"],
    ),
    (
        &["Proposal"],
        &["clip_after_nms", "clip_before_nms", "for_deformable", "normalize", "num_outputs"],
    ),
    (&["Split", "VariadicSplit"], &["axis", "num_splits", "num_split", "size_splits"]),
    (&["Tile"], &["axis", "tiles"]),
    (&["Reshape", "Squeeze", "Unsqueeze"], &["dim", "special_zero"]),
    (&["Convert"], &["precision"]),
    (&["NonMaxSuppression"], &["center_point_box"]),
    (&["LSTMCell", "GRUCell", "RNNCell"], &["axis", "direction", "format", "has_sequence_dim"]),
    (&["LSTMSequence", "GRUSequence", "RNNSequence"], &["axis", "format", "has_sequence_dim"]),
    (&["CTCGreedyDecoder"], &["merge_repeated"]),
    (&["Add", "Maximum", "Minimum", "Multiply", "Subtract"], &["operation"]),
    (&["Power"], &["operation", "power", "scale", "shift"]),
    (&["Relu"], &["negative_slope"]),
    (&["MatMul"], &["out-size"]),
];

/// Whether an attribute that the operation lacks is a relic of an older converter.
pub(crate) fn is_relic(op_type: &str, attribute: &str) -> bool {
    let of_type = |(op_types, names): &(&[&str], &[&str])| {
        op_types.contains(&op_type) && names.contains(&attribute)
    };
    ANYWHERE.contains(&attribute) || OF_TYPES.iter().any(of_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn relics_belong_to_operations_there_are() {
        let known: Vec<&str> = table::ROWS.iter().map(|row| row.op_type).collect();
        let named = OF_TYPES.iter().flat_map(|(op_types, _)| op_types.iter());
        let strange: Vec<&&str> = named.filter(|op_type| !known.contains(op_type)).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }

    #[test]
    fn a_relic_of_one_operation_is_a_mistake_on_another() {
        assert!(is_relic("Convolution", "output_padding") && is_relic("Roll", "cacheable"));
        assert!(!is_relic("Roll", "output_padding") && !is_relic("Convolution", "output_paddings"));
    }
}
