"""Causes of disagreement that are known, each with the row of docs/numerics.md that tells it.

A rule looks at one finding: the types of operations of the smallest part that differs, the element types, what is
unusual about the values, and which implementations agree. `--all` of hunt.py reports what it covers as well."""
import re

# Types that the plugin computes in others: f64 in f32, integers of 64 bits in 32, small ones saturate.
OTHER_WIDTH = {"f64", "i64", "u64", "i8", "u8", "i16", "u16", "u32"}
# The plugin's vector code loses NaN, or compares with it as IEEE 754 does not.
NAN = {"Relu", "Maximum", "Minimum", "Clamp", "Greater", "GreaterEqual", "HardSigmoid", "Exp", "Softmax", "Gelu", "FakeQuantize",
       "LSTMCell", "GRUCell", "RNNCell", "SearchSorted", "Bucketize", "Unique", "LRN", "TopK", "ReduceMax", "ReduceMin",
       "Elu", "HSwish", "HSigmoid", "Mish", "SoftPlus", "Swish", "Sigmoid", "Selu", "Tanh", "Erf", "PRelu", "Round",
       "LogSoftmax", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "TensorIterator", "Loop", "If",
       "FakeConvert", "MulticlassNms", "MatrixNms", "NonMaxSuppression"}
# Sums and products of infinities, in another order or padded: any of NaN and ±∞.
INFINITE = {"DFT", "IDFT", "RDFT", "IRDFT", "STFT", "Convolution", "GroupConvolution", "ConvolutionBackpropData",
            "GroupConvolutionBackpropData", "DeformableConvolution", "Interpolate", "MVN", "MatMul", "Einsum",
            "GridSample", "ROIAlign", "ROIAlignRotated", "ROIPooling", "NormalizeL2", "GroupNormalization", "CumSum",
            "ScaledDotProductAttention"}
# Rows that need nothing but the operation; with the name of the row.
ALWAYS = {
    "BinaryConvolution": "BinaryConvolution, input channels that are no multiple of 8",
    "CTCLoss": "CTCLoss",
    "GatherTree": "GatherTree of real numbers",
    "IsFinite": "IsFinite of subnormal numbers",
    "SearchSorted": "SearchSorted of a row that is not sorted",
    "BitwiseLeftShift": "BitwiseLeftShift, BitwiseRightShift, a shift below 0 or beyond the width",
    "BitwiseRightShift": "BitwiseLeftShift, BitwiseRightShift, a shift below 0 or beyond the width",
    "FakeConvert": "FakeConvert of f32",
    "SquaredDifference": "SquaredDifference of i8 and u8",
    "ROIAlign": "ROIAlign, a region that is not in order",
    "ROIAlignRotated": "ROIAlign, a region that is not in order",
}


def parts_of(finding):
    """The operations, the types that they read, and what is unusual."""
    matched = re.match(r"([\w+]+)\(([\w,]*)\)→([\w,]*)", finding.get("what", ""))
    if not matched:
        return [], set(), set()
    kinds, read, made = matched.groups()
    return kinds.split("+"), set(f"{read},{made}".split(",")), set(finding.get("traits", []))


def rule_of(finding):
    """The name of the rule that a finding falls under, or None."""
    kinds, types, traits = parts_of(finding)
    if finding["kind"] in ("refused", "unread"):
        return "OpenVINO refuses it"
    if finding["kind"] == "irrun":
        return "f16 in f32 from end to end" if finding.get("f16") else None
    if finding["kind"] in ("crash", "hang", "crash of the graph", "hang of the graph"):
        return "the plugin crashes"
    if finding["kind"] != "differs" or not kinds:
        return None
    last = kinds[-1]
    if last in ALWAYS:
        return ALWAYS[last]
    if last in ("AvgPool", "MaxPool") and len(kinds) == 1:
        return "AvgPool, MaxPool: a window without taps"
    if last == "MatMul" and not types & {"f32", "f16", "bf16", "f64"}:
        return "MatMul of integers: in f32"
    if last == "Convert" and traits:
        return "Convert, real to integer"
    if "special" in traits and last in NAN:
        return "NaN in vector code"
    if "special" in traits and last in INFINITE:
        return "sums of infinities"
    if finding.get("verdict") != "reference as plugin":
        if "f64" in types:
            return "f64 in f32"
        if "empty" in traits:
            return "empty tensors: the plugin leaves what the memory held"
        if last == "Interpolate":
            return "Interpolate, nearest, antialias and pads"
        integers = types & OTHER_WIDTH and not types & {"f32", "f16", "bf16"}
        if integers and finding.get("numpy") != "numpy as plugin":
            return "integers in another width"
    return None
