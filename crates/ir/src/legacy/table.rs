//! The operation types of IR versions 2 to 9, and their rules.

use super::elementwise::{self as each, Activation};
use super::rewrite::{Cx, Made};
use super::{detection, iterator, matmul, normalize, recurrent, shape, window};

/// What replaces a layer.
#[derive(Clone, Copy)]
enum Rule {
    /// One layer of this type and opset, with these of its attributes and all of its inputs.
    Same(&'static str, &'static str, &'static [&'static str]),
    /// An element-wise function of real numbers.
    Function(Activation),
    /// A reduction; the argument is the current operation type.
    Reduce(&'static str),
    /// A function.
    Own(fn(&mut Cx<'_, '_>) -> Made),
}

use Rule::{Function, Own, Reduce, Same};

#[rustfmt::skip]
const RULES: &[(&str, Rule)] = &[
    // Parameters, constants and variables.
    ("Input", Own(shape::parameter)),
    ("Const", Own(shape::constant)),
    ("Memory", Own(shape::memory)),
    ("Result", Same("Result", "opset1", &[])),
    // Windows over spatial axes.
    ("Convolution", Own(window::convolution)),
    ("BinaryConvolution", Own(window::binary_convolution)),
    ("Deconvolution", Own(window::deconvolution)),
    ("DeformableConvolution", Own(window::deformable)),
    ("Pooling", Own(window::pooling)),
    ("Interp", Own(window::interp)),
    ("Resample", Own(window::resample)),
    // Matrix products.
    ("FullyConnected", Own(matmul::fully_connected)),
    ("InnerProduct", Own(matmul::fully_connected)),
    ("Gemm", Own(matmul::gemm)),
    // Element-wise.
    ("Eltwise", Own(each::eltwise)),
    ("Power", Own(each::power)),
    ("ScaleShift", Own(each::scale_shift)),
    ("PReLU", Own(each::prelu)),
    ("Activation", Own(each::activation)),
    ("Select", Own(each::select)),
    ("FakeQuantize", Own(each::fake_quantize)),
    ("Quantize", Own(each::fake_quantize)),
    ("Convert", Own(each::convert)),
    ("Copy", Own(each::copy)),
    ("ReLU", Function(Activation::Relu)),
    ("ReLU6", Function(Activation::Relu6)),
    ("Clamp", Function(Activation::Clamp)),
    ("ELU", Function(Activation::Elu)),
    ("Not", Function(Activation::Not)),
    ("HardSigmoid", Function(Activation::HardSigmoid)),
    ("Selu", Function(Activation::Selu)),
    ("Reciprocal", Function(Activation::Reciprocal)),
    ("Sigmoid", Function(Activation::Named("Sigmoid", "opset1"))),
    ("TanH", Function(Activation::Named("Tanh", "opset1"))),
    ("Exp", Function(Activation::Named("Exp", "opset1"))),
    ("Abs", Function(Activation::Named("Abs", "opset1"))),
    ("Acos", Function(Activation::Named("Acos", "opset1"))),
    ("Acosh", Function(Activation::Named("Acosh", "opset4"))),
    ("Asin", Function(Activation::Named("Asin", "opset1"))),
    ("Asinh", Function(Activation::Named("Asinh", "opset4"))),
    ("Atan", Function(Activation::Named("Atan", "opset1"))),
    ("Atanh", Function(Activation::Named("Atanh", "opset4"))),
    ("Ceil", Function(Activation::Named("Ceiling", "opset1"))),
    ("Cos", Function(Activation::Named("Cos", "opset1"))),
    ("Cosh", Function(Activation::Named("Cosh", "opset1"))),
    ("Erf", Function(Activation::Named("Erf", "opset1"))),
    ("Floor", Function(Activation::Named("Floor", "opset1"))),
    ("HSigmoid", Function(Activation::Named("HSigmoid", "opset5"))),
    ("HSwish", Function(Activation::Named("HSwish", "opset4"))),
    ("Log", Function(Activation::Named("Log", "opset1"))),
    ("Mish", Function(Activation::Named("Mish", "opset4"))),
    ("Neg", Function(Activation::Named("Negative", "opset1"))),
    ("Sign", Function(Activation::Named("Sign", "opset1"))),
    ("Sin", Function(Activation::Named("Sin", "opset1"))),
    ("Sinh", Function(Activation::Named("Sinh", "opset1"))),
    ("Softplus", Function(Activation::Named("SoftPlus", "opset4"))),
    ("Softsign", Function(Activation::Named("SoftSign", "opset9"))),
    ("Swish", Own(each::swish)),
    ("Tan", Function(Activation::Named("Tan", "opset1"))),
    // Normalization.
    ("BatchNormalization", Own(normalize::batch_normalization)),
    ("Norm", Own(normalize::lrn)),
    ("LRN", Own(normalize::lrn)),
    ("Normalize", Own(normalize::l2)),
    ("MVN", Own(normalize::mvn)),
    ("GRN", Own(normalize::grn)),
    ("SoftMax", Own(normalize::softmax)),
    ("LogSoftmax", Own(normalize::log_softmax)),
    // Shapes and movement.
    ("Reshape", Own(shape::reshape)),
    ("Flatten", Own(shape::flatten)),
    ("Permute", Own(shape::permute)),
    ("Concat", Own(shape::concat)),
    ("Split", Own(shape::split)),
    ("Slice", Own(shape::split)),
    ("Crop", Own(shape::crop)),
    ("Tile", Own(shape::tile)),
    ("Pad", Own(shape::pad)),
    ("Squeeze", Own(shape::squeeze)),
    ("Unsqueeze", Own(shape::unsqueeze)),
    ("Gather", Own(shape::gather)),
    ("StridedSlice", Own(shape::strided_slice)),
    ("Shape", Own(shape::shape_of)),
    ("Broadcast", Own(shape::broadcast)),
    ("Fill", Own(shape::fill)),
    ("Range", Own(shape::range)),
    ("OneHot", Own(shape::one_hot)),
    ("ShuffleChannels", Own(shape::shuffle_channels)),
    ("DepthToSpace", Own(shape::depth_to_space)),
    ("SpaceToDepth", Own(shape::space_to_depth)),
    ("ReverseSequence", Own(shape::reverse_sequence)),
    // Search, sums and reductions.
    ("CumSum", Own(shape::cum_sum)),
    ("TopK", Own(shape::top_k)),
    ("ArgMax", Own(shape::arg_max)),
    ("ReduceAnd", Reduce("ReduceLogicalAnd")),
    ("ReduceOr", Reduce("ReduceLogicalOr")),
    ("ReduceL1", Reduce("ReduceL1")),
    ("ReduceL2", Reduce("ReduceL2")),
    ("ReduceMax", Reduce("ReduceMax")),
    ("ReduceMean", Reduce("ReduceMean")),
    ("ReduceMin", Reduce("ReduceMin")),
    ("ReduceProd", Reduce("ReduceProd")),
    ("ReduceSum", Reduce("ReduceSum")),
    ("ReduceSumSquare", Reduce("ReduceSumSquare")),
    ("ReduceLogSum", Reduce("ReduceLogSum")),
    ("ReduceLogSumExp", Reduce("ReduceLogSumExp")),
    // Detection.
    ("PriorBox", Own(detection::prior_box)),
    ("PriorBoxClustered", Own(detection::prior_box_clustered)),
    ("DetectionOutput", Own(detection::detection_output)),
    ("Proposal", Own(detection::proposal)),
    ("SimplerNMS", Own(detection::simpler_nms)),
    ("PSROIPooling", Own(detection::psroi_pooling)),
    ("ROIPooling", Same("ROIPooling", "opset2", detection::ROI_POOLING)),
    ("RegionYolo", Own(detection::region_yolo)),
    ("ReorgYolo", Same("ReorgYolo", "opset2", &["stride"])),
    ("NonMaxSuppression", Own(detection::non_max_suppression)),
    ("CTCGreedyDecoder", Own(detection::ctc_greedy_decoder)),
    // Cells, sequences and loops.
    ("LSTMCell", Own(recurrent::cell)),
    ("GRUCell", Own(recurrent::cell)),
    ("RNNCell", Own(recurrent::cell)),
    ("LSTMSequence", Own(recurrent::sequence)),
    ("GRUSequence", Own(recurrent::sequence)),
    ("RNNSequence", Own(recurrent::sequence)),
    ("TensorIterator", Own(iterator::tensor_iterator)),
];

/// Applies the rule of a layer; `None` for a type without a rule.
pub(super) fn apply(cx: &mut Cx<'_, '_>) -> Option<Made> {
    Some(find(&cx.old.layer.op_type)?.apply(cx))
}

/// The rule of a type, in any letter case.
fn find(op_type: &str) -> Option<Rule> {
    RULES.iter().find(|row| row.0.eq_ignore_ascii_case(op_type)).map(|row| row.1)
}

impl Rule {
    /// Makes the layers that replace a layer.
    fn apply(self, cx: &mut Cx<'_, '_>) -> Made {
        match self {
            Same(op_type, version, attributes) => {
                let inputs = (0..cx.inputs()).map(|i| cx.any(i)).collect::<Result<Vec<_>, _>>()?;
                let data = cx.attributes(attributes);
                Ok(vec![cx.op(op_type, version, &data, &inputs)])
            }
            Function(function) => each::function(cx, function),
            Reduce(op_type) => shape::reduce(cx, op_type),
            Own(rule) => rule(cx),
        }
    }
}
