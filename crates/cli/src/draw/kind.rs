//! What an operation does, by which pictures colour it.

/// A kind of operation. Its name is its class in pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Inputs and outputs of the model.
    Interface,
    /// Constants.
    Constant,
    /// Convolutions, matrix products, attention, recurrent cells.
    Compute,
    /// Functions of one element.
    Activation,
    /// Arithmetic and comparison of elements.
    Elementwise,
    /// Normalisation and softmax.
    Normalize,
    /// Pooling, reductions, sorting.
    Reduce,
    /// Elements that are moved: Reshape, Transpose, Concat, Gather, …
    Move,
    /// Conversions and quantisation.
    Convert,
    /// If, Loop, TensorIterator.
    Control,
    /// Variables.
    State,
    /// Everything else.
    Other,
}

impl Kind {
    /// All kinds, in the order of a legend.
    pub(super) const ALL: [Kind; 12] = [
        Kind::Interface,
        Kind::Compute,
        Kind::Activation,
        Kind::Elementwise,
        Kind::Normalize,
        Kind::Reduce,
        Kind::Move,
        Kind::Convert,
        Kind::Control,
        Kind::State,
        Kind::Constant,
        Kind::Other,
    ];

    /// The kind of an operation: that of the family which holds its rule.
    pub(super) fn of(op_type: &str, version: &str) -> Kind {
        let Ok(row) = infer::find(op_type, version) else { return Kind::Other };
        match row.module {
            "parameter" | "result" => Kind::Interface,
            "constant" => Kind::Constant,
            "convolution"
            | "deformable_convolution"
            | "binary_convolution"
            | "matmul"
            | "grouped_matmul"
            | "einsum"
            | "scaled_dot_product_attention"
            | "recurrent"
            | "fourier"
            | "stft"
            | "inverse" => Kind::Compute,
            "unary" | "prelu" => Kind::Activation,
            "binary" | "comparison" | "select" => Kind::Elementwise,
            "batch_norm" | "normalize" | "lrn" | "group_normalization" | "softmax" => {
                Kind::Normalize
            }
            "reduce" | "pool" | "adaptive_pool" | "topk" | "cum_sum" | "segment_max"
            | "roi_pooling" | "roi_align" | "psroi_pooling" => Kind::Reduce,
            "reshape"
            | "mxnet_reshape"
            | "caffe_reshape"
            | "static_reshape"
            | "squeeze"
            | "transpose"
            | "concat"
            | "split"
            | "slice"
            | "strided_slice"
            | "gather"
            | "gather_nd"
            | "gather_elements"
            | "scatter_update"
            | "scatter_nd_update"
            | "scatter_elements_update"
            | "slice_scatter"
            | "pad"
            | "roll"
            | "reverse"
            | "reverse_sequence"
            | "broadcast"
            | "space_to_depth"
            | "space_to_batch"
            | "shuffle_channels"
            | "shape_of"
            | "col2im"
            | "extract_image_patches"
            | "interpolate"
            | "grid_sample" => Kind::Move,
            "convert" | "convert_promote_types" | "fake_quantize" | "fake_convert" => Kind::Convert,
            "condition" | "iteration" => Kind::Control,
            "variable" => Kind::State,
            _ => Kind::Other,
        }
    }

    /// The class in a style sheet.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Interface => "interface",
            Kind::Constant => "constant",
            Kind::Compute => "compute",
            Kind::Activation => "activation",
            Kind::Elementwise => "elementwise",
            Kind::Normalize => "normalize",
            Kind::Reduce => "reduce",
            Kind::Move => "move",
            Kind::Convert => "convert",
            Kind::Control => "control",
            Kind::State => "state",
            Kind::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_that_is_named_exists() {
        for (op_type, version, kind) in [
            ("Parameter", "opset1", Kind::Interface),
            ("Const", "opset1", Kind::Constant),
            ("MatMul", "opset1", Kind::Compute),
            ("Relu", "opset1", Kind::Activation),
            ("MVN", "opset6", Kind::Normalize),
            ("ReduceMean", "opset1", Kind::Reduce),
            ("Reshape", "opset1", Kind::Move),
            ("FakeQuantize", "opset1", Kind::Convert),
            ("Loop", "opset5", Kind::Control),
            ("Assign", "opset6", Kind::State),
            ("NonMaxSuppression", "opset9", Kind::Other),
            ("NoSuchThing", "opset1", Kind::Other),
        ] {
            assert_eq!(Kind::of(op_type, version), kind, "{op_type}");
        }
    }
}
