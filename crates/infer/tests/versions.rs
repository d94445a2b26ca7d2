//! The versions that files may name: every type in every opset that OpenVINO reads it in.

use irrun_infer::{Row, find};

/// Opsets and types, one line per set of opsets. Opsets joined by `-` mean the same operation.
/// Asked of OpenVINO 2026.4 with a file per type and opset.
const READ: &str = "
1-1: Reverse Xor
1-1 3-16: RNNCell ShuffleChannels
1-2 3-3 4-4 5-8 9-16: NonMaxSuppression
1-2 3-10 11-16: TopK
1-2 3-16: Broadcast
1-2 3-17: ShapeOf
1-3 4-10 11-16: Interpolate
1-3 4-16: LSTMCell Proposal Range
1-4 5-16: BatchNormInference
1-5 6-16: MVN
1-6 7-7 8-16: Gather
1-7 8-13 14-16: MaxPool
1-7 8-16: DeformableConvolution DetectionOutput PriorBox Softmax
1-11 12-16: Pad
1-13 14-15 16-16: AvgPool
1-14 15-16: Squeeze
1-15 16-16: OneHot
1-16: Abs Acos Add Asin Atan BinaryConvolution CTCGreedyDecoder Ceiling Clamp Concat Constant
  ConvertLike Convolution ConvolutionBackpropData Cos Cosh DeformablePSROIPooling DepthToSpace
  Divide Elu Equal Erf Exp FakeQuantize Floor FloorMod GRN GatherTree Greater GreaterEqual
  GroupConvolution GroupConvolutionBackpropData HardSigmoid LRN Less LessEqual Log LogicalAnd
  LogicalNot LogicalOr LogicalXor MatMul Maximum Minimum Mod Multiply Negative NormalizeL2
  NotEqual PRelu PSROIPooling Power PriorBoxClustered ROIPooling ReduceLogicalAnd ReduceLogicalOr
  ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum RegionYolo Relu ReorgYolo Reshape Result
  ReverseSequence Select Selu Sigmoid Sign Sin Sinh SpaceToDepth Split Sqrt SquaredDifference
  StridedSlice Subtract Tan Tanh TensorIterator Tile Transpose Unsqueeze VariadicSplit
1-17: Convert Parameter
2-6 7-16: Gelu
2-16: BatchToSpace SpaceToBatch
3-5 6-16: Assign ReadValue
3-8 9-16: ROIAlign
3-11 12-16: ScatterElementsUpdate
3-16: Bucketize CumSum EmbeddingBagOffsetsSum EmbeddingBagPackedSum EmbeddingSegmentsSum
  ExtractImagePatches GRUCell NonZero ScatterUpdate
4-14 15-16: ScatterNDUpdate
4-16: Acosh Asinh Atanh CTCLoss HSwish Mish ReduceL1 ReduceL2 SoftPlus Swish
5-7 8-16: GatherND
5-16: GRUSequence HSigmoid LSTMSequence LogSoftmax Loop RNNSequence Round
6-16: CTCGreedyDecoderSeqLen ExperimentalDetectronDetectionOutput
  ExperimentalDetectronGenerateProposalsSingleImage ExperimentalDetectronPriorGridGenerator
  ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs GatherElements
7-16: DFT Einsum IDFT Roll
8-8 9-16: MulticlassNms
8-16: AdaptiveAvgPool AdaptiveMaxPool I420toBGR I420toRGB If MatrixNms NV12toBGR NV12toRGB
  RandomUniform Slice
9-16: Eye GenerateProposals GridSample IRDFT RDFT SoftSign
10-16: IsFinite IsInf IsNaN Unique
12-16: GroupNormalization
13-16: BitwiseAnd BitwiseNot BitwiseOr BitwiseXor FakeConvert Multinomial NMSRotated
  ScaledDotProductAttention
14-16: ConvertPromoteTypes Inverse
15-16: BitwiseLeftShift BitwiseRightShift Col2Im EmbeddingBagOffsets EmbeddingBagPacked
  ROIAlignRotated STFT SearchSorted SliceScatter StringTensorPack StringTensorUnpack
16-16: ISTFT Identity SegmentMax SparseFillEmptyRows
17-17: BGRtoNV12 ErfInv GroupedMatMul RGBtoNV12
";

/// Types with versions that irrun does not distinguish, so that one row covers them.
const JOINED: [&str; 2] = ["NonMaxSuppression", "TopK"];

/// Types with the first and last opset of each of their meanings.
fn types() -> Vec<(&'static str, Vec<(u32, u32)>)> {
    let number = |text: &str| text.parse::<u32>().unwrap();
    let span = |text: &str| text.split_once('-').map(|(a, b)| (number(a), number(b))).unwrap();
    let mut types = Vec::new();
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for line in READ.lines() {
        let names = match line.split_once(':') {
            Some((opsets, names)) => {
                spans = opsets.split_whitespace().map(span).collect();
                names
            }
            None => line,
        };
        types.extend(names.split_whitespace().map(|name| (name, spans.clone())));
    }
    types
}

fn row(kind: &str, opset: u32) -> Option<&'static Row> {
    find(kind, &format!("opset{opset}")).ok()
}

#[test]
fn every_type_is_found_in_the_opsets_that_have_it() {
    let types = types();
    assert_eq!(types.len(), 209);
    let pairs: u32 = types.iter().flat_map(|(_, s)| s).map(|(a, b)| b - a + 1).sum();
    assert_eq!(pairs, 2594);
    for (kind, spans) in types {
        let mut before: Option<&Row> = None;
        for (first, last) in &spans {
            let row_of = |n| row(kind, n).unwrap_or_else(|| panic!("{kind} in opset{n}"));
            let this = row_of(*first);
            assert!((*first..=*last).all(|n| std::ptr::eq(row_of(n), this)), "{kind} {first}");
            let same = before.is_some_and(|b| std::ptr::eq(b, this));
            assert!(!same || JOINED.contains(&kind), "{kind} is another one from opset{first} on");
            before = Some(this);
        }
        // Before the first, after the last, and in opsets that lack it.
        let read = |n| spans.iter().any(|(first, last)| (*first..=*last).contains(&n));
        let more = (0..=20).find(|&n| !read(n) && row(kind, n).is_some());
        assert_eq!(more, None, "{kind} {spans:?}");
    }
}

#[test]
fn types_from_before_the_opsets() {
    let of = |kind, version| find(kind, version).map(std::ptr::from_ref).ok();
    for version in ["experimental", "extension"] {
        for kind in ["ExperimentalDetectronTopKROIs", "GRUCell", "Proposal", "RNNCell"] {
            assert_eq!(of(kind, version), of(kind, "opset6"), "{kind}");
        }
        assert_eq!(of("Relu", version), None);
    }
    // The spellings of old files.
    for (kind, now) in [("ReLU", "Relu"), ("PReLU", "PRelu"), ("SoftMax", "Softmax")] {
        assert_eq!(of(kind, "opset1"), of(now, "opset1"));
    }
}
