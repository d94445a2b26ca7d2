"""Causes of disagreement that are known, each with the row of docs/numerics.md that tells it.

A rule looks at one finding: the types of operations of the smallest part that differs, the element types, what is
unusual about the values (`traits`), what is special at the places that differ (`where`), and which implementations
agree. Each names its operations: what no rule names is reported. `--all` of hunt.py reports all."""
import re

REAL = {"f32", "f16", "bf16", "f64"}
# Types that the plugin computes in others: integers of 64 bits in 32, small ones saturate.
OTHER_WIDTH = {"i64", "u64", "i8", "u8", "i16", "u16", "u32"}

# Element for element; the places that differ are those where NaN is read or made.
NAN_BY_ELEMENT = {
    "Relu of NaN": {"Relu"},
    "Maximum, Minimum of NaN": {"Maximum", "Minimum"},
    "Clamp of NaN": {"Clamp"},
    "Greater, GreaterEqual of NaN": {"Greater", "GreaterEqual"},
    "Exp, HardSigmoid, Softmax, LogSoftmax, Gelu, recurrent cells of NaN": {
        "Exp", "HardSigmoid", "Gelu", "Softmax", "LogSoftmax", "LSTMCell", "GRUCell", "RNNCell"},
    "FakeQuantize of NaN": {"FakeQuantize"},
    "FakeConvert of NaN": {"FakeConvert"},
}
# Comparisons with NaN decide about other elements: whichever come out are numbers.
NAN_BY_ORDER = {
    "ReduceMax, ReduceMin, AdaptiveMaxPool of NaN": {"ReduceMax", "ReduceMin", "AdaptiveMaxPool"},
    "TopK, equal elements and NaN": {"TopK"},
    "Bucketize, SearchSorted of NaN": {"Bucketize"},
    "Unique of NaN": {"Unique"},
    "NonMaxSuppression and its kin, NaN": {"NonMaxSuppression", "MulticlassNms", "MatrixNms"},
}
# Sums and products of what is not finite, in another order, in another form, or with padding as zeros.
SUMS_OF_INFINITIES = {
    "DFT", "IDFT", "RDFT", "IRDFT", "STFT", "Convolution", "GroupConvolution", "ConvolutionBackpropData",
    "GroupConvolutionBackpropData", "DeformableConvolution", "Interpolate", "MVN", "MatMul", "Einsum", "GridSample",
    "ROIAlign", "ROIAlignRotated", "ROIPooling", "NormalizeL2", "GroupNormalization", "CumSum", "LRN", "AvgPool",
    "AdaptiveAvgPool", "ScaledDotProductAttention", "BatchNormInference", "PRelu",
    "GroupedMatMul", "ReduceProd"}
# Bodies hold any of the above; the whole of one is compared.
BODIES = {"TensorIterator", "Loop", "If"}
# Where an input has no elements the plugin leaves what the memory held, or the lowest and largest numbers.
EMPTY = {
    "Roll", "Gather", "GatherND", "GatherElements", "Convolution", "GroupConvolution", "ConvolutionBackpropData",
    "GroupConvolutionBackpropData", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "NormalizeL2",
    "LSTMCell", "GRUCell", "RNNCell", "MatMul", "MVN", "DeformableConvolution", "ROIPooling", "Tile", "Transpose",
    "Pad", "Einsum", "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "SparseFillEmptyRows"}
EMPTY_REDUCTIONS = {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceMean",
                    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}
# Rows that need nothing but the operation.
ALWAYS = {
    "BinaryConvolution": "BinaryConvolution, input channels that are no multiple of 8",
    "CTCLoss": "CTCLoss",
    "GatherTree": "GatherTree of real numbers",
    "IsFinite": "IsFinite of subnormal numbers",
    "SearchSorted": "SearchSorted in a row that is not sorted",
    "BitwiseLeftShift": "BitwiseLeftShift, BitwiseRightShift, a shift below 0 or beyond the width",
    "BitwiseRightShift": "BitwiseLeftShift, BitwiseRightShift, a shift below 0 or beyond the width",
    "FakeConvert": "FakeConvert of f32",
    "SquaredDifference": "SquaredDifference of i8 and u8",
    "ROIAlign": "ROIAlign, ROIAlignRotated, a corner before the first one, or indices out of range",
    "ROIAlignRotated": "ROIAlign, ROIAlignRotated, a corner before the first one, or indices out of range",
    "MulticlassNms": "MulticlassNms, MatrixNms, a box whose corners are not in order",
    "MatrixNms": "MulticlassNms, MatrixNms, a box whose corners are not in order",
    "LRN": "LRN, `bias`",
}
# The plugin's own rounding before one of these is another choice, or a large difference, behind it; each alone agrees.
MAGNIFY = {"Unique", "TopK", "NonZero", "MVN", "NormalizeL2", "Asin", "Acos", "Acosh", "Atanh", "Sin", "Cos", "Tan"}
# Integers of 32 bits go through f32.
I32_IN_F32 = {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "Mod", "FloorMod", "ReorgYolo"}
# Shifts, starts and steps of 64 bits, which the plugin holds in 32.
I64_OPERANDS = {"Roll", "Slice"}
# What the plugin alone does: the reference sides with irrun.
ALONE = {
    "FakeQuantize": "FakeQuantize halfway between two quantized values",
    "Gather": "Gather-1, Gather-7, a constant index below 0",
    "SpaceToBatch": "SpaceToBatch, a block larger than the padded axis",
}
# The same of operations that have no reference kernel.
UNREFERENCED = {
    "CTCGreedyDecoder": "CTCGreedyDecoder, a subnormal number in the mask",
    "RegionYolo": "RegionYolo without `do_softmax`",
}


def parts_of(finding):
    """The operations, the types that they read, and what is unusual."""
    matched = re.match(r"([\w+]+)\(([\w,]*)\)→([\w,]*)", finding.get("what", ""))
    if not matched:
        return [], set(), set()
    kinds, read, made = matched.groups()
    return kinds.split("+"), set(f"{read},{made}".split(",")) - {""}, set(finding.get("traits", []))


def rule_of(finding):
    """The name of the rule that a finding falls under, or None."""
    kinds, types, traits = parts_of(finding)
    if finding["kind"] in ("refused", "unread"):
        return "OpenVINO refuses it"
    if finding["kind"] == "irrun":
        return "f16 in f32 from end to end" if finding.get("f16") else None
    if finding["kind"] in ("crash", "hang", "crash of the graph", "hang of the graph"):
        return "the plugin crashes"
    if finding["kind"] == "diffuse":
        return "no part alone differs: errors that grow"
    if finding["kind"] != "differs" or not kinds:
        return None
    return rule_of_difference(kinds[-1], kinds, types, traits, finding)


def rule_of_difference(last, kinds, types, traits, finding):
    """The same where values differ; `last` is the operation whose outputs were compared."""
    where, verdict = finding.get("where"), finding.get("verdict")
    if last in ALWAYS:
        return ALWAYS[last]
    if {"BatchNormInference", "bf16"} <= set(kinds) | types and "special" in traits:
        return "BatchNormInference of NaN in bf16"
    if "special" in traits or where in ("nan", "infinite"):
        found = rule_of_special(last, where)
        if found:
            return found
    if "Range" in kinds and last in ("Abs", "If") and where == "numbers":
        return "Abs of what a Range of constants gives"
    if len(kinds) > 1 and MAGNIFY & set(kinds):
        return "small differences that another layer makes large"
    if last in ("AvgPool", "MaxPool") and len(kinds) == 1:
        return "AvgPool, MaxPool: a window without taps"
    if last == "MatMul" and not types & REAL:
        return "MatMul of integers"
    if last in ("Convert", "ConvertLike") and traits & {"special", "limits"}:
        return "Convert, real to integer"
    if "ConvertLike" in kinds and types & OTHER_WIDTH and "limits" in traits:
        return "integer arithmetic"
    if last in ("Mod", "FloorMod") and types & REAL and "special" in traits:
        return "Mod, FloorMod of infinities"
    if last == "Softmax" and finding.get("numpy") is None and verdict == "reference as plugin":
        return "Softmax-1 without axis"
    if last == "NonMaxSuppression" and finding.get("told", "").startswith("output 0 is [0, 3]"):
        return "NonMaxSuppression, fewer than 0 boxes for each class"
    if last == "MVN" and verdict == "reference as plugin":
        return "MVN-6 without `normalize_variance`"
    if last == "StridedSlice" and "PriorBoxClustered" in kinds and where == "shape":
        return "StridedSlice, `new_axis_mask` and `ellipsis_mask` at once, constant input"
    if verdict == "reference as plugin":
        return None
    return rule_of_plugin(last, types, traits, finding)


def rule_of_special(last, where):
    """Where NaN or infinities are read."""
    if where == "nan":
        for row, operations in NAN_BY_ELEMENT.items():
            if last in operations:
                return row
    for row, operations in NAN_BY_ORDER.items():
        if last in operations:
            return row
    if where not in ("nan", "infinite"):
        return None
    if where == "infinite" and last == "Gelu":
        return "Gelu of ∞ and -∞"
    if last in SUMS_OF_INFINITIES:
        return "sums and products of infinities"
    if where == "infinite" and last == "Exp":
        return "Exp from 88.38 on"
    if last == "Inverse":
        return "Inverse, what overflows on the way"
    return "NaN and infinities in bodies" if last in BODIES else None


def rule_of_plugin(last, types, traits, finding):
    """What the plugin alone does."""
    if "f64" in types:
        return "f64"
    if "empty" in traits and last in EMPTY:
        return "outputs of layers whose inputs have no elements"
    if "empty" in traits and last in EMPTY_REDUCTIONS:
        return "ReduceMax, ReduceMin of no elements; integer arithmetic"
    if last == "Interpolate":
        return "Interpolate, nearest, antialias and pads"
    if last == "Divide" and not types & REAL:
        return "Divide of integers"
    if last == "StridedSlice":
        return "StridedSlice, shrink_axis_mask and new_axis_mask"
    if types & OTHER_WIDTH and not types & REAL and finding.get("numpy") != "numpy as plugin":
        return "integer arithmetic"
    if last in I64_OPERANDS and "i64" in types and "limits" in traits:
        return "integer arithmetic"
    if last in I32_IN_F32 and not types & REAL and "limits" in traits:
        return "Less, FloorMod, ReorgYolo and their like of i32"
    if last == "Power" and "special" in traits:
        return "Power by a subnormal number"
    if last in BODIES and is_close(finding.get("told", "")):
        return "errors that grow in bodies"
    return {"reference as irrun": ALONE, "no reference": UNREFERENCED}.get(finding.get("verdict"), {}).get(last)


def is_close(told):
    """Whether the two numbers that were told agree in three digits."""
    numbers = re.search(r"\] (\S+), irrun (\S+)$", told)
    try:
        a, b = (float(x) for x in numbers.groups())
    except (AttributeError, ValueError):
        return False
    return abs(a - b) <= 1e-3 * max(abs(a), abs(b))
