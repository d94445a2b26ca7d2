"""Whether arrays are the same, as far as their types and sums allow."""
import numpy as np

# Half a digit of each type, twice. The plugin computes f64 in f32.
EPSILON = {"f64": 2.0 ** -23, "f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}
# Operations that add terms up, with the power of the inputs that a term has.
SUMS = {"MatMul": 2, "Einsum": 2, "Convolution": 2, "GroupConvolution": 2, "ConvolutionBackpropData": 2,
        "GroupConvolutionBackpropData": 2, "DeformableConvolution": 2, "LSTMCell": 2, "GRUCell": 2, "RNNCell": 2,
        "LSTMSequence": 2, "GRUSequence": 2, "RNNSequence": 2, "BinaryConvolution": 1, "ReduceSum": 1,
        "ReduceMean": 1, "ReduceL1": 1, "ReduceL2": 1, "ReduceLogSum": 1, "ReduceLogSumExp": 1, "ReduceSumSquare": 2,
        "ReduceProd": 1, "CumSum": 1, "AvgPool": 1, "AdaptiveAvgPool": 1, "Interpolate": 1, "GridSample": 1,
        "ROIAlign": 1, "ROIAlignRotated": 1, "ROIPooling": 1, "PSROIPooling": 1, "BatchNormInference": 2,
        "GroupNormalization": 2, "MVN": 2, "NormalizeL2": 2, "LRN": 1, "GRN": 1, "Softmax": 1, "LogSoftmax": 1,
        "CTCLoss": 1, "DFT": 1, "IDFT": 1, "RDFT": 1, "IRDFT": 1, "STFT": 2, "ISTFT": 2, "Col2Im": 1,
        "EmbeddingBagPackedSum": 1, "EmbeddingBagOffsetsSum": 1, "EmbeddingSegmentsSum": 1, "RegionYolo": 1,
        "ScaledDotProductAttention": 2, "ScatterElementsUpdate": 2, "ScatterNDUpdate": 2, "Loop": 2, "If": 2,
        "TensorIterator": 2, "NV12toRGB": 1, "I420toBGR": 1, "MatrixNms": 1}


def widened(values):
    """bf16, of which an archive holds the bytes, as f32."""
    if values.dtype != np.dtype("V2"):
        return values
    return (np.ascontiguousarray(values).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def largest(arrays):
    """The largest finite number."""
    some = [np.abs(a.astype(np.float64)).ravel() for a in arrays if a.size and a.dtype.kind in "fiu"]
    some = [a[np.isfinite(a)] for a in some]
    return max((float(a.max()) for a in some if a.size), default=0.0)


def tolerance(kinds, types, inputs, count):
    """How far apart results may be: absolutely, and as a part of the value."""
    epsilon = max((EPSILON.get(t, 0.0) for t in types), default=0.0) or 2.0 ** -23
    # Squares of f64 beyond this limit are no numbers of Python.
    top = min(max(largest(inputs), 1.0), 1e150)
    sizes = [a.size for a in inputs if a.dtype.kind == "f"] or [1]
    absolute = 32 * epsilon * min(top, 1e4)
    for kind in kinds:
        if kind in SUMS:
            terms = max(64, max(sizes) // max(1, count))
            absolute = max(absolute, 4 * epsilon * terms * top ** SUMS[kind])
    return absolute * 4 ** (len(kinds) - 1), 128 * epsilon * 4 ** (len(kinds) - 1)


def apart(a, b, absolute, relative):
    """Where two arrays differ, or None if their shapes do."""
    if a.shape != b.shape:
        return None
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        return a != b
    with np.errstate(all="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        near = np.abs(a - b) <= absolute + relative * np.abs(b)
        return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


def near(a, b, absolute, relative):
    """Whether two arrays are the same."""
    wrong = apart(a, b, absolute, relative)
    return wrong is not None and not wrong.any()


def all_near(some, others, part=1e-3):
    """Whether the outputs of whole graphs are: errors have grown on the way."""
    return len(some) == len(others) and all(
        near(a, b, part * min(max(largest([b]), 1e-6), 1e6), part) for a, b in zip(some, others))
