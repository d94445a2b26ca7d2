//! The one table of operations. `infer` expands it to parsers, `runtime` to kernels, and
//! `docs/operations.md` and `irrun ops` are generated from it.

use crate::rule::attrs::Attrs;
use crate::rule::error::AttrError;
use crate::rule::op::{Op, Parse};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Calls a macro with every row: `"Type", versions => module::Struct(Kind);`.
///
/// `opset(a..=b)` means that the type exists in opsets `a` to `b` with the same meaning;
/// `named("x")` means `version="x"`. The optional `Kind` is a variant of `module::Kind`.
#[macro_export]
macro_rules! opset {
    ($with:path) => {
        $with! {
            "AUGRUCell", named("ie_internal_opset") => recurrent::Recurrent(AugruCell);
            "AUGRUSequence", named("ie_internal_opset") => recurrent::Recurrent(AugruSequence);
            "Abs", opset(1..=16) => unary::Unary(Abs);
            "Acos", opset(1..=16) => unary::Unary(Acos);
            "Acosh", opset(4..=16) => unary::Unary(Acosh);
            "AdaptiveAvgPool", opset(8..=16) => adaptive_pool::AdaptivePool(Avg);
            "AdaptiveMaxPool", opset(8..=16) => adaptive_pool::AdaptivePool(Max);
            "Add", opset(1..=16) => binary::Binary(Add);
            "Asin", opset(1..=16) => unary::Unary(Asin);
            "Asinh", opset(4..=16) => unary::Unary(Asinh);
            "Assign", opset(3..=5) => variable::Variable(Assign);
            "Assign", opset(6..=16) => variable::Variable(Assign);
            "Atan", opset(1..=16) => unary::Unary(Atan);
            "Atanh", opset(4..=16) => unary::Unary(Atanh);
            "AvgPool", opset(1..=13) => pool::Pool(Avg1);
            "AvgPool", opset(14..=15) => pool::Pool(Avg14);
            "AvgPool", opset(16..=16) => pool::Pool(Avg16);
            "BGRtoNV12", opset(17..=17) => color::Color(BgrToNv12);
            "BPETokenizer", named("extension") => tokenizer::Tokenizer(Bpe);
            "BatchNormInference", opset(1..=4) => batch_norm::BatchNorm(V1);
            "BatchNormInference", opset(5..=16) => batch_norm::BatchNorm(V5);
            "BatchToSpace", opset(2..=16) => space_to_batch::SpaceToBatch(BatchToSpace);
            "BinaryConvolution", opset(1..=16) => binary_convolution::BinaryConvolution;
            "BitwiseAnd", opset(13..=16) => binary::Binary(BitwiseAnd);
            "BitwiseLeftShift", opset(15..=16) => binary::Binary(BitwiseLeftShift);
            "BitwiseNot", opset(13..=16) => unary::Unary(BitwiseNot);
            "BitwiseOr", opset(13..=16) => binary::Binary(BitwiseOr);
            "BitwiseRightShift", opset(15..=16) => binary::Binary(BitwiseRightShift);
            "BitwiseXor", opset(13..=16) => binary::Binary(BitwiseXor);
            "Broadcast", opset(1..=2) => broadcast::Broadcast(V1);
            "Broadcast", opset(3..=16) => broadcast::Broadcast(V3);
            "Bucketize", opset(3..=16) => search_sorted::Bucketize;
            "ByteFallback", named("extension") => text_normalize::TextNormalize(ByteFallback);
            "BytesToChars", named("extension") => text_bytes::TextBytes(ToChars);
            "CTCGreedyDecoder", opset(1..=16) => ctc::Ctc(GreedyDecoder);
            "CTCGreedyDecoderSeqLen", opset(6..=16) => ctc::Ctc(GreedyDecoderSeqLen);
            "CTCLoss", opset(4..=16) => ctc::Ctc(Loss);
            "CaseFold", named("extension") => text_normalize::TextNormalize(CaseFold);
            "Ceiling", opset(1..=16) => unary::Unary(Ceiling);
            "CharsMapNormalization", named("extension") => text_normalize::TextNormalize(CharsMap);
            "CharsToBytes", named("extension") => text_bytes::TextBytes(ToBytes);
            "Clamp", opset(1..=16) => unary::Unary(Clamp);
            "Col2Im", opset(15..=16) => col2im::Col2Im;
            "CombineSegments", named("extension") => ragged::Ragged(Combine);
            "Concat", opset(1..=16) => concat::Concat;
            "Constant", opset(1..=16) => constant::Constant;
            "ContribStringJoin", named("extension") => text_values::TextValues(Join);
            "ContribStringSplit", named("extension") => text_values::TextValues(Split);
            "Convert", opset(1..=17) => convert::Convert(Convert);
            "ConvertLike", opset(1..=16) => convert::Convert(ConvertLike);
            "ConvertPromoteTypes", opset(14..=16) => convert_promote_types::ConvertPromoteTypes;
            "Convolution", opset(1..=16) => convolution::Convolution(Plain);
            "ConvolutionBackpropData", opset(1..=16) => convolution::Convolution(Backward);
            "Cos", opset(1..=16) => unary::Unary(Cos);
            "Cosh", opset(1..=16) => unary::Unary(Cosh);
            "CumSum", opset(3..=16) => cum_sum::CumSum;
            "DFT", opset(7..=16) => fourier::Fourier(Dft);
            "DeformableConvolution", opset(1..=7) => deformable_convolution::DeformableConvolution(V1);
            "DeformableConvolution", opset(8..=16) => deformable_convolution::DeformableConvolution(V8);
            "DeformablePSROIPooling", opset(1..=16) => psroi_pooling::PsroiPooling(Deformable);
            "DepthToSpace", opset(1..=16) => space_to_depth::SpaceToDepth(DepthToSpace);
            "DetectionOutput", opset(1..=7) => detection_output::DetectionOutput(V1);
            "DetectionOutput", opset(8..=16) => detection_output::DetectionOutput(V8);
            "Divide", opset(1..=16) => binary::Binary(Divide);
            "Einsum", opset(7..=16) => einsum::Einsum;
            "Elu", opset(1..=16) => unary::Unary(Elu);
            "EmbeddingBagOffsets", opset(15..=16) => embedding_bag::EmbeddingBag(Offsets);
            "EmbeddingBagOffsetsSum", opset(3..=16) => embedding_bag::EmbeddingBag(OffsetsSum);
            "EmbeddingBagPacked", opset(15..=16) => embedding_bag::EmbeddingBag(Packed);
            "EmbeddingBagPackedSum", opset(3..=16) => embedding_bag::EmbeddingBag(PackedSum);
            "EmbeddingSegmentsSum", opset(3..=16) => embedding_bag::EmbeddingBag(SegmentsSum);
            "Equal", opset(1..=16) => comparison::Comparison(Equal);
            "EqualStr", named("extension") => text_values::TextValues(Equal);
            "Erf", opset(1..=16) => unary::Unary(Erf);
            "ErfInv", opset(17..=17) => unary::Unary(ErfInv);
            "Exp", opset(1..=16) => unary::Unary(Exp);
            "ExperimentalDetectronDetectionOutput", opset(6..=16) => experimental_detectron_detection_output::ExperimentalDetectronDetectionOutput;
            "ExperimentalDetectronGenerateProposalsSingleImage", opset(6..=16) => generate_proposals::GenerateProposals(Single);
            "ExperimentalDetectronPriorGridGenerator", opset(6..=16) => experimental_detectron_prior_grid_generator::ExperimentalDetectronPriorGridGenerator;
            "ExperimentalDetectronROIFeatureExtractor", opset(6..=16) => experimental_detectron_roi_feature_extractor::ExperimentalDetectronRoiFeatureExtractor;
            "ExperimentalDetectronTopKROIs", opset(6..=16) => experimental_detectron_top_k_rois::ExperimentalDetectronTopKRois;
            "ExtractImagePatches", opset(3..=16) => extract_image_patches::ExtractImagePatches;
            "Eye", opset(9..=16) => eye::Eye;
            "FakeConvert", opset(13..=16) => fake_convert::FakeConvert;
            "FakeQuantize", opset(1..=16) => fake_quantize::FakeQuantize;
            "Floor", opset(1..=16) => unary::Unary(Floor);
            "FloorMod", opset(1..=16) => binary::Binary(FloorMod);
            "FuzeRagged", named("extension") => ragged::Ragged(Fuze);
            "GRN", opset(1..=16) => normalize::Normalize(Grn);
            "GRUCell", opset(3..=16) => recurrent::Recurrent(GruCell);
            "GRUSequence", opset(5..=16) => recurrent::Recurrent(GruSequence);
            "Gather", opset(1..=6) => gather::Gather(V1);
            "Gather", opset(7..=7) => gather::Gather(V7);
            "Gather", opset(8..=16) => gather::Gather(V8);
            "GatherElements", opset(6..=16) => gather_elements::GatherElements;
            "GatherND", opset(5..=7) => gather_nd::GatherNd(V5);
            "GatherND", opset(8..=16) => gather_nd::GatherNd(V8);
            "GatherTree", opset(1..=16) => gather_tree::GatherTree;
            "Gelu", opset(2..=6) => unary::Unary(Gelu0);
            "Gelu", opset(7..=16) => unary::Unary(Gelu);
            "GenerateProposals", opset(9..=16) => generate_proposals::GenerateProposals(Batch);
            "Greater", opset(1..=16) => comparison::Comparison(Greater);
            "GreaterEqual", opset(1..=16) => comparison::Comparison(GreaterEqual);
            "GridSample", opset(9..=16) => grid_sample::GridSample;
            "GroupConvolution", opset(1..=16) => convolution::Convolution(Grouped);
            "GroupConvolutionBackpropData", opset(1..=16) => convolution::Convolution(GroupedBackward);
            "GroupNormalization", opset(12..=16) => group_normalization::GroupNormalization;
            "GroupedMatMul", opset(17..=17) => grouped_matmul::GroupedMatMul;
            "HSigmoid", opset(5..=16) => unary::Unary(HSigmoid);
            "HSwish", opset(4..=16) => unary::Unary(HSwish);
            "HardSigmoid", opset(1..=16) => unary::Unary(HardSigmoid);
            "I420toBGR", opset(8..=16) => color::Color(I420ToBgr);
            "I420toRGB", opset(8..=16) => color::Color(I420ToRgb);
            "IDFT", opset(7..=16) => fourier::Fourier(Idft);
            "IRDFT", opset(9..=16) => fourier::Fourier(Irdft);
            "ISTFT", opset(16..=16) => stft::Stft(Istft);
            "Identity", opset(16..=16) => unary::Unary(Identity);
            "If", opset(8..=16) => condition::If;
            "Interpolate", opset(1..=3) => interpolate::Interpolate(V1);
            "Interpolate", opset(4..=10) => interpolate::Interpolate(V4);
            "Interpolate", opset(11..=16) => interpolate::Interpolate(V11);
            "Inverse", opset(14..=16) => inverse::Inverse;
            "IsFinite", opset(10..=16) => unary::Unary(IsFinite);
            "IsInf", opset(10..=16) => unary::Unary(IsInf);
            "IsNaN", opset(10..=16) => unary::Unary(IsNaN);
            "LRN", opset(1..=16) => lrn::Lrn;
            "LSTMCell", opset(1..=3) => recurrent::Recurrent(LstmCell1);
            "LSTMCell", opset(4..=16) => recurrent::Recurrent(LstmCell);
            "LSTMSequence", opset(5..=16) => recurrent::Recurrent(LstmSequence);
            "Less", opset(1..=16) => comparison::Comparison(Less);
            "LessEqual", opset(1..=16) => comparison::Comparison(LessEqual);
            "Log", opset(1..=16) => unary::Unary(Log);
            "LogSoftmax", opset(5..=16) => softmax::Softmax(Log);
            "LogicalAnd", opset(1..=16) => comparison::Comparison(LogicalAnd);
            "LogicalNot", opset(1..=16) => unary::Unary(LogicalNot);
            "LogicalOr", opset(1..=16) => comparison::Comparison(LogicalOr);
            "LogicalXor", opset(1..=16) => comparison::Comparison(LogicalXor);
            "Loop", opset(5..=16) => iteration::Iteration(Loop);
            "MVN", opset(1..=5) => normalize::Normalize(Mvn1);
            "MVN", opset(6..=16) => normalize::Normalize(Mvn6);
            "MatMul", opset(1..=16) => matmul::MatMul;
            "MatrixNms", opset(8..=16) => class_nms::ClassNms(Matrix);
            "MaxPool", opset(1..=7) => pool::Pool(Max1);
            "MaxPool", opset(8..=13) => pool::Pool(Max8);
            "MaxPool", opset(14..=16) => pool::Pool(Max14);
            "Maximum", opset(1..=16) => binary::Binary(Maximum);
            "Minimum", opset(1..=16) => binary::Binary(Minimum);
            "Mish", opset(4..=16) => unary::Unary(Mish);
            "Mod", opset(1..=16) => binary::Binary(Mod);
            "MulticlassNms", opset(8..=8) => class_nms::ClassNms(V8);
            "MulticlassNms", opset(9..=16) => class_nms::ClassNms(V9);
            "Multinomial", opset(13..=16) => random_uniform::Multinomial;
            "Multiply", opset(1..=16) => binary::Binary(Multiply);
            "NMSRotated", opset(13..=16) => non_max_suppression::NonMaxSuppression(Rotated);
            "NV12toBGR", opset(8..=16) => color::Color(Nv12ToBgr);
            "NV12toRGB", opset(8..=16) => color::Color(Nv12ToRgb);
            "Negative", opset(1..=16) => unary::Unary(Negative);
            "NonMaxSuppression", opset(1..=2) => non_max_suppression::NonMaxSuppression(V1);
            "NonMaxSuppression", opset(3..=3) => non_max_suppression::NonMaxSuppression(V3);
            "NonMaxSuppression", opset(4..=4) => non_max_suppression::NonMaxSuppression(V4);
            "NonMaxSuppression", opset(5..=16) => non_max_suppression::NonMaxSuppression(V5);
            "NonZero", opset(3..=16) => nonzero::NonZero;
            "NormalizeL2", opset(1..=16) => normalize::Normalize(L2);
            "NormalizeUnicode", named("extension") => text_normalize::TextNormalize(Unicode);
            "NotEqual", opset(1..=16) => comparison::Comparison(NotEqual);
            "NumericToString", named("openvino_tokenizers") => text_values::TextValues(OfNumber);
            "OneHot", opset(1..=15) => one_hot::OneHot(V1);
            "OneHot", opset(16..=16) => one_hot::OneHot(V16);
            "PRelu", opset(1..=16) => prelu::PRelu;
            "PSROIPooling", opset(1..=16) => psroi_pooling::PsroiPooling(Plain);
            "Pad", opset(1..=11) => pad::Pad;
            "Pad", opset(12..=16) => pad::Pad;
            "Parameter", opset(1..=17) => parameter::Parameter;
            "Power", opset(1..=16) => binary::Binary(Power);
            "PriorBox", opset(1..=7) => prior_box::PriorBox(V1);
            "PriorBox", opset(8..=16) => prior_box::PriorBox(V8);
            "PriorBoxClustered", opset(1..=16) => prior_box_clustered::PriorBoxClustered;
            "Proposal", opset(1..=3) => proposal::Proposal;
            "Proposal", opset(4..=16) => proposal::Proposal;
            "RDFT", opset(9..=16) => fourier::Fourier(Rdft);
            "RGBtoNV12", opset(17..=17) => color::Color(RgbToNv12);
            "RNNCell", opset(1..=1) => recurrent::Recurrent(RnnCell);
            "RNNCell", opset(3..=16) => recurrent::Recurrent(RnnCell);
            "RNNSequence", opset(5..=16) => recurrent::Recurrent(RnnSequence);
            "ROIAlign", opset(3..=8) => roi_align::RoiAlign(V3);
            "ROIAlign", opset(9..=16) => roi_align::RoiAlign(V9);
            "ROIAlignRotated", opset(15..=16) => roi_align::RoiAlign(Rotated);
            "ROIPooling", opset(1..=16) => roi_pooling::RoiPooling;
            "RaggedTensorPack", named("extension") => ragged::Ragged(Pack);
            "RaggedToDense", named("extension") => ragged::Ragged(ToDense);
            "RaggedToRagged", named("extension") => ragged::Ragged(ToRagged);
            "RaggedToSparse", named("extension") => ragged::Ragged(ToSparse);
            "RandomUniform", opset(8..=16) => random_uniform::RandomUniform;
            "Range", opset(1..=3) => range::Range(V1);
            "Range", opset(4..=16) => range::Range(V4);
            "ReadValue", opset(3..=5) => variable::Variable(Read3);
            "ReadValue", opset(6..=16) => variable::Variable(Read6);
            "ReduceL1", opset(4..=16) => reduce::Reduce(L1);
            "ReduceL2", opset(4..=16) => reduce::Reduce(L2);
            "ReduceLogicalAnd", opset(1..=16) => reduce::Reduce(LogicalAnd);
            "ReduceLogicalOr", opset(1..=16) => reduce::Reduce(LogicalOr);
            "ReduceMax", opset(1..=16) => reduce::Reduce(Max);
            "ReduceMean", opset(1..=16) => reduce::Reduce(Mean);
            "ReduceMin", opset(1..=16) => reduce::Reduce(Min);
            "ReduceProd", opset(1..=16) => reduce::Reduce(Prod);
            "ReduceSum", opset(1..=16) => reduce::Reduce(Sum);
            "RegexNormalization", named("extension") => text_normalize::TextNormalize(Regex);
            "RegexSplit", named("extension") => text_split::TextSplit(Regex);
            "RegionYolo", opset(1..=16) => region_yolo::RegionYolo;
            "Relu", opset(1..=16) => unary::Unary(Relu);
            "ReorgYolo", opset(1..=16) => reorg_yolo::ReorgYolo;
            "Reshape", opset(1..=16) => reshape::Reshape;
            "Reshape", named("mxnet") => mxnet_reshape::MxnetReshape;
            "Reshape", named("caffe") => caffe_reshape::CaffeReshape;
            "Result", opset(1..=16) => result::ResultOp;
            "Reverse", opset(1..=1) => reverse::Reverse;
            "ReverseSequence", opset(1..=16) => reverse_sequence::ReverseSequence;
            "Roll", opset(7..=16) => roll::Roll;
            "Round", opset(5..=16) => unary::Unary(Round);
            "STFT", opset(15..=16) => stft::Stft(Stft);
            "ScaledDotProductAttention", opset(13..=16) => scaled_dot_product_attention::ScaledDotProductAttention;
            "ScatterElementsUpdate", opset(3..=11) => scatter_elements_update::ScatterElementsUpdate(V3);
            "ScatterElementsUpdate", opset(12..=16) => scatter_elements_update::ScatterElementsUpdate(V12);
            "ScatterNDUpdate", opset(4..=14) => scatter_nd_update::ScatterNdUpdate(V3);
            "ScatterNDUpdate", opset(15..=16) => scatter_nd_update::ScatterNdUpdate(V15);
            "ScatterUpdate", opset(3..=16) => scatter_update::ScatterUpdate;
            "SearchSorted", opset(15..=16) => search_sorted::SearchSorted;
            "SegmentMax", opset(16..=16) => segment_max::SegmentMax;
            "Select", opset(1..=16) => select::Select;
            "Selu", opset(1..=16) => unary::Unary(Selu);
            "SentencepieceDetokenizer", named("extension") => sentencepiece::Sentencepiece(Detokenizer);
            "SentencepieceStreamDetokenizer", named("extension") => sentencepiece::Sentencepiece(StreamDetokenizer);
            "SentencepieceTokenizer", named("extension") => sentencepiece::Sentencepiece(Tokenizer);
            "ShapeOf", opset(1..=2) => shape_of::ShapeOf(V1);
            "ShapeOf", opset(3..=17) => shape_of::ShapeOf(V3);
            "ShuffleChannels", opset(1..=1) => shuffle_channels::ShuffleChannels;
            "ShuffleChannels", opset(3..=16) => shuffle_channels::ShuffleChannels;
            "Sigmoid", opset(1..=16) => unary::Unary(Sigmoid);
            "Sign", opset(1..=16) => unary::Unary(Sign);
            "Sin", opset(1..=16) => unary::Unary(Sin);
            "Sinh", opset(1..=16) => unary::Unary(Sinh);
            "Slice", opset(8..=16) => slice::Slice;
            "SliceScatter", opset(15..=16) => slice_scatter::SliceScatter;
            "SoftPlus", opset(4..=16) => unary::Unary(SoftPlus);
            "SoftSign", opset(9..=16) => unary::Unary(SoftSign);
            "Softmax", opset(1..=7) => softmax::Softmax(V1);
            "Softmax", opset(8..=16) => softmax::Softmax(V8);
            "SpaceToBatch", opset(2..=16) => space_to_batch::SpaceToBatch(SpaceToBatch);
            "SpaceToDepth", opset(1..=16) => space_to_depth::SpaceToDepth(SpaceToDepth);
            "SparseFillEmptyRows", opset(16..=16) => sparse_fill_empty_rows::SparseFillEmptyRows;
            "SpecialTokensSplit", named("extension") => text_split::TextSplit(SpecialTokens);
            "Split", opset(1..=16) => split::Split(Split);
            "Sqrt", opset(1..=16) => unary::Unary(Sqrt);
            "SquaredDifference", opset(1..=16) => binary::Binary(SquaredDifference);
            "Squeeze", opset(1..=14) => squeeze::Squeeze(Squeeze);
            "Squeeze", opset(15..=16) => squeeze::Squeeze(Squeeze15);
            "StaticReshape", named("onednn") => static_reshape::StaticReshape;
            "StaticReshape", named("extension") => static_reshape::StaticReshape;
            "StridedSlice", opset(1..=16) => strided_slice::StridedSlice;
            "StringTensorPack", opset(15..=16) => string_tensor::StringTensorPack(V15);
            "StringTensorPack", named("extension") => string_tensor::StringTensorPack(Extension);
            "StringTensorUnpack", opset(15..=16) => string_tensor::StringTensorUnpack(V15);
            "StringTensorUnpack", named("extension") => string_tensor::StringTensorUnpack(Extension);
            "StringToHashBucket", named("extension") => text_values::TextValues(HashBucket);
            "Subtract", opset(1..=16) => binary::Binary(Subtract);
            "Swish", opset(4..=16) => unary::Unary(Swish);
            "Tan", opset(1..=16) => unary::Unary(Tan);
            "Tanh", opset(1..=16) => unary::Unary(Tanh);
            "TensorIterator", opset(1..=16) => iteration::Iteration(TensorIterator);
            "Tile", opset(1..=16) => broadcast::Tile;
            "TopK", opset(1..=10) => topk::TopK(V1);
            "TopK", opset(11..=16) => topk::TopK(V11);
            "Transpose", opset(1..=16) => transpose::Transpose;
            "TrieTokenizer", named("extension") => tokenizer::Tokenizer(Trie);
            "Truncate", named("extension") => ragged::Ragged(Truncate);
            "UTF8Validate", named("extension") => text_normalize::TextNormalize(Validate);
            "UnigramTokenizer", named("extension") => tokenizer::Tokenizer(Unigram);
            "Unique", opset(10..=16) => unique::Unique;
            "Unsqueeze", opset(1..=16) => squeeze::Squeeze(Unsqueeze);
            "VariadicSplit", opset(1..=16) => split::Split(VariadicSplit);
            "VocabDecoder", named("extension") => vocab::VocabDecoder;
            "VocabEncoder", named("extension") => vocab::VocabEncoder;
            "WordpieceTokenizer", named("extension") => tokenizer::Tokenizer(Wordpiece);
            "Xor", opset(1..=1) => comparison::Comparison(LogicalXor);
        }
    };
}

/// The versions that a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Opsets from the first to the last, both included.
    Opset(u32, u32),
    /// A version by its own name: `onednn`, `mxnet`, `caffe`, `extension`.
    Named(&'static str),
}

/// A row for opsets.
pub const fn opset(range: std::ops::RangeInclusive<u32>) -> Versions {
    Versions::Opset(*range.start(), *range.end())
}

/// A row for a version outside the opsets.
pub const fn named(name: &'static str) -> Versions {
    Versions::Named(name)
}

impl Versions {
    /// The version that a file names for this row: the first opset that has it.
    pub fn introduced(&self) -> String {
        match self {
            Versions::Opset(first, _) => format!("opset{first}"),
            Versions::Named(name) => (*name).to_owned(),
        }
    }

    /// Whether this covers a version that a file names.
    pub(crate) fn has(&self, version: &str) -> bool {
        match self {
            Versions::Named(name) => *name == version,
            Versions::Opset(first, last) => {
                opset_number(version).is_some_and(|n| (*first..=*last).contains(&n))
            }
        }
    }
}

fn opset_number(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("opset")?;
    // `opset07` and `opset+7` would parse as numbers too.
    digits.starts_with(|c| ('1'..='9').contains(&c)).then(|| digits.parse().ok())?
}

/// Types that files used before an opset had them, with version `experimental` or `extension`.
/// OpenVINO reads them as opset6.
const BEFORE_OPSETS: [&str; 8] = [
    "ExperimentalDetectronDetectionOutput",
    "ExperimentalDetectronGenerateProposalsSingleImage",
    "ExperimentalDetectronPriorGridGenerator",
    "ExperimentalDetectronROIFeatureExtractor",
    "ExperimentalDetectronTopKROIs",
    "GRUCell",
    "Proposal",
    "RNNCell",
];

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Row {
    /// The operation type, as the specification spells it.
    pub op_type: &'static str,
    /// The versions it covers.
    pub versions: Versions,
    /// The file of `ops/` with its rule; empty for an extension.
    pub module: &'static str,
    /// Reads the attributes of a layer.
    pub parse: fn(&mut Attrs<'_>) -> Result<Arc<dyn Op>, AttrError>,
}

macro_rules! rows {
    ($($op_type:literal, $versions:expr => $module:ident::$op:ident $(($variant:ident))?;)*) => {
        /// Every row, sorted by type.
        pub const ROWS: &[Row] = &[$(Row {
            op_type: $op_type,
            versions: $versions,
            module: stringify!($module),
            parse: |attrs| {
                type Operation = crate::ops::$module::$op;
                #[allow(unused_variables)]
                let kind = ();
                $(let kind = crate::ops::$module::Kind::$variant;)?
                Ok(Arc::new(<Operation as Parse>::parse(kind, attrs)?))
            },
        },)*];
    };
}

opset!(rows);

static BY_TYPE: LazyLock<HashMap<String, Vec<&'static Row>>> = LazyLock::new(|| {
    let mut map: HashMap<String, Vec<&'static Row>> = HashMap::new();
    for row in ROWS {
        map.entry(row.op_type.to_ascii_lowercase()).or_default().push(row);
    }
    // The writer spells Constant as `Const`.
    let constant = map.get("constant").cloned().unwrap_or_default();
    map.insert("const".to_owned(), constant);
    map
});

/// Finds the row of a layer. Types are matched in any letter case, versions exactly.
///
/// # Errors
/// A message about the types or versions that exist instead.
pub fn find(op_type: &str, version: &str) -> Result<&'static Row, String> {
    let rows = BY_TYPE.get(&op_type.to_ascii_lowercase());
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let before =
        matches!(version, "experimental" | "extension") && BEFORE_OPSETS.contains(&op_type);
    let version = if before { "opset6" } else { version };
    if let Some(row) = rows.iter().find(|row| row.versions.has(version)) {
        return Ok(row);
    }
    if rows.is_empty() {
        return Err(format!("there is no operation {op_type}; `irrun ops` lists those there are"));
    }
    let known: Vec<String> = rows
        .iter()
        .map(|row| match row.versions {
            Versions::Opset(first, last) if first != last => format!("opset{first}..opset{last}"),
            other => other.introduced(),
        })
        .collect();
    Err(format!("{op_type} does not exist in {version}; it exists in {}", known.join(", ")))
}

/// Whether the table has an operation of this type, in any version.
pub(crate) fn has_type(op_type: &str) -> bool {
    BY_TYPE.contains_key(&op_type.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_do_not_overlap() {
        for pair in ROWS.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert!(a.op_type <= b.op_type, "{} comes after {}", a.op_type, b.op_type);
            if let (true, Versions::Opset(_, last), Versions::Opset(first, _)) =
                (a.op_type == b.op_type, a.versions, b.versions)
            {
                assert!(last < first, "{} has two rows for opset{first}", a.op_type);
            }
        }
    }

    #[test]
    fn lookup() {
        assert_eq!(find("RESHAPE", "opset16").unwrap().op_type, "Reshape");
        assert_eq!(find("Const", "opset1").unwrap().op_type, "Constant");
        for (op_type, version, message) in [
            ("Roll", "opset6", "Roll does not exist in opset6; it exists in opset7..opset16"),
            ("Roll", "OPSET7", "Roll does not exist in OPSET7; it exists in opset7..opset16"),
            ("Roll", "opset07", "Roll does not exist in opset07; it exists in opset7..opset16"),
            ("Roll", "opset+7", "Roll does not exist in opset+7; it exists in opset7..opset16"),
            ("Roll", "", "Roll does not exist in ; it exists in opset7..opset16"),
            ("Rol", "opset7", "there is no operation Rol; `irrun ops` lists those there are"),
        ] {
            assert_eq!(find(op_type, version).err().unwrap(), message);
        }
    }
}
