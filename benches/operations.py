"""Single operations, and blocks of a few, on inputs of the sizes that networks have."""
import numpy as np
import openvino as ov
from openvino import opset11, opset13 as op

from common import WORK, guarded
from field import beside_openvino

RNG = np.random.default_rng(0)
# A feature map, tokens of a transformer, heads of attention, and the classes of a segmentation.
MAP, TOKENS, HEADS, CLASSES = [1, 64, 112, 112], [1, 197, 768], [1, 12, 197, 197], [1, 21, 256, 256]

# Indices in random order: tuples that name elements of a square, no two the same, and rows for each column.
SIDE = 1024
PLACES = np.random.default_rng(1).permutation(SIDE * SIDE)
SHUFFLED = np.stack(np.divmod(PLACES[:100_000], SIDE), axis=1).astype(np.int32)
COLUMNS = (PLACES % SIDE).reshape(SIDE, SIDE)


# What integers are divided by, none of them 0.
DIVISORS = np.random.default_rng(2).integers(1, 1000, MAP)


def i64(*values):
    return np.array(values, np.int64)


def weights(*shape):
    return (RNG.standard_normal(shape) * 0.1).astype(np.float32)


def mvn(*axes):
    return lambda x: op.mvn(x, i64(*axes), True, 1e-6, 'inside_sqrt')


def resized(mode, scale, axes=(2, 3)):
    scales = np.full(len(axes), scale, np.float32)
    return lambda x: opset11.interpolate(x, scales, mode, 'scales', [0] * 4, [0] * 4, 'half_pixel',
                                         'round_prefer_floor', False, -0.75, i64(*axes))


def top(k, axis):
    return lambda x: op.topk(x, np.int64(k), axis, 'max', 'value').outputs()


def power(exponent):
    return lambda x: op.power(op.abs(x), np.float32(exponent))


def convolved(filters, stride=1, groups=1):
    """A convolution with padding that keeps the size, its bias and ReLU."""
    pad, outputs = filters[-1] // 2, filters[0]
    if groups > 1:
        filters = [groups, filters[0] // groups, *filters[1:]]
    kind = op.group_convolution if groups > 1 else op.convolution
    sides = [stride] * 2, [pad] * 2, [pad] * 2, [1] * 2
    return lambda x: op.relu(op.add(kind(x, weights(*filters), *sides), weights(1, outputs, 1, 1)))


def enlarged(x):
    sides = [2] * 2, None, [1] * 2, [1] * 2, [1] * 2
    return op.convolution_backprop_data(x, weights(64, 32, 4, 4), *sides)


def sampled(x, grid):
    return op.grid_sample(x, grid, {'align_corners': False, 'mode': 'bilinear', 'padding_mode': 'zeros'})


def gated(*branches):
    """The sum of branches, each multiplied by its gates, with channels last."""
    products = [op.multiply(branch, weights(1, 1, 1, 64)) for branch in branches]
    return op.relu(op.add(op.add(products[0], products[1]), products[2]))


def attention(q, k, v):
    scores = op.multiply(op.matmul(q, k, False, True), np.float32(0.125))
    return op.matmul(op.softmax(scores, -1), v, False, False)


def lstm(x):
    state = np.zeros((1, 1, 256), np.float32)
    matrices = weights(1, 1024, 128), weights(1, 1024, 256), weights(1, 1024)
    return op.lstm_sequence(x, state, state, i64(100), *matrices, 256, 'forward').output(0)


def read_together(*maps):
    """What a decoder of segmentation does: a convolution of several maps, one behind another."""
    return convolved([256, 1024, 1, 1])(op.concat(list(maps), 1))


def deformed(x, offsets):
    return op.deformable_convolution(x, offsets, weights(64, 64, 3, 3), [1] * 2, [1] * 2, [1] * 2, [1] * 2)


def suppressed_by_class(boxes, scores):
    return op.multiclass_nms(boxes, scores, None, 'score', False, 'i64', 0.5, 0.3, 400, 200).outputs()


def suppressed(boxes, scores):
    limits = np.int64(200), np.float32(0.5), np.float32(0.3)
    return op.non_max_suppression(boxes, scores, *limits).outputs()


# Name, function, shapes of the inputs, and their type.
OPERATIONS = [
    ('LayerNormalization', mvn(2), [TOKENS]), ('MVN of planes', mvn(2, 3), [MAP]),
    ('MVN of all', mvn(1, 2, 3), [MAP]),
    ('NormalizeL2, channels', lambda x: op.normalize_l2(x, i64(1), 1e-9, 'add'), [MAP]),
    ('GroupNormalization', lambda x: ov.opset12.group_normalization(x, weights(64), weights(64), 8, 1e-5), [MAP]),
    ('LRN', lambda x: op.lrn(x, i64(1), 1e-4, 0.75, 1.0, 5), [MAP]),
    ('BatchNormInference', lambda x: op.batch_norm_inference(x, *[np.abs(weights(64)) for _ in range(4)], 1e-5), [MAP]),
    ('Softmax, 1,000', lambda x: op.softmax(x, -1), [[64, 1000]]), ('Softmax, 197', lambda x: op.softmax(x, -1), [HEADS]),
    ('Softmax, channels', lambda x: op.softmax(x, 1), [CLASSES]),
    ('LogSoftmax', lambda x: op.log_softmax(x, -1), [[1, 200, 1000]]),
    ('TopK of 1, channels', top(1, 1), [CLASSES]), ('TopK of 1, rows', top(1, 3), [MAP]),
    ('TopK of 300', top(300, 1), [[1, 25200]]), ('NonMaxSuppression', suppressed, [[1, 2000, 4], [1, 20, 2000]]),
    ('MulticlassNms', suppressed_by_class, [[1, 2000, 4], [1, 20, 2000]]),
    ('Interpolate, linear', resized('linear_onnx', 2), [[1, 32, 128, 128]]),
    ('Interpolate, linear, shrinking', resized('linear_onnx', 0.5), [[1, 16, 256, 256]]),
    ('Interpolate, cubic', resized('cubic', 2), [[1, 16, 128, 128]]),
    ('Interpolate, nearest', resized('nearest', 2), [[1, 64, 80, 80]]),
    ('Power, -0.5', power(-0.5), [MAP]), ('Power, 1.7', power(1.7), [MAP]), ('Exp', op.exp, [MAP]), ('Erf', op.erf, [MAP]),
    ('Sin', op.sin, [MAP]), ('Mod', op.mod, [MAP, MAP]), ('Add', op.add, [MAP, MAP]),
    ('Divide, i32', lambda x: op.divide(x, DIVISORS.astype(np.int32)), [MAP], np.int32),
    ('FloorMod, i64', lambda x: op.floor_mod(x, DIVISORS), [MAP], np.int64),
    ('Multiply, gates', op.multiply, [MAP, [1, 64, 1, 1]]), ('Gated branches', gated, [[1, 56, 56, 64]] * 3),
    ('Select', lambda a, b: op.select(op.greater(a, b), a, b), [MAP, MAP]),
    ('CumSum', lambda x: op.cum_sum(x, np.int64(3)), [MAP]),
    ('Convert to i32', lambda x: op.convert(x, 'i32'), [MAP]), ('Convert to u8', lambda x: op.convert(x, 'u8'), [MAP]),
    ('Convert from u8', lambda x: op.convert(x, 'f32'), [MAP], np.uint8),
    ('ReduceMean, planes', lambda x: op.reduce_mean(x, i64(2, 3), True), [MAP]),
    ('ReduceMax, channels', lambda x: op.reduce_max(x, i64(1), True), [MAP]),
    ('Transpose to NHWC', lambda x: op.transpose(x, i64(0, 2, 3, 1)), [MAP]),
    ('Concat', lambda a, b: op.concat([a, b], 1), [MAP, MAP]),
    ('Gather, rows', lambda x: op.gather(x, np.arange(0, 112, 2), np.int64(3)), [MAP]),
    ('Gather, BGR', lambda x: op.gather(x, i64(2, 1, 0), np.int64(3)), [[1, 640, 640, 3]]),
    ('GatherND', lambda x: op.gather_nd(x, SHUFFLED), [[SIDE, SIDE]]),
    ('ScatterNDUpdate', lambda x, y: op.scatter_nd_update(x, SHUFFLED, y), [[SIDE, SIDE], [100_000]]),
    ('ScatterElementsUpdate', lambda x, y: op.scatter_elements_update(x, COLUMNS, y, np.int32(0)), [[SIDE, SIDE]] * 2),
    ('OneHot', lambda x: op.one_hot(op.convert(x, 'i32'), np.int64(10), np.float32(1), np.float32(0), -1), [MAP]),
    ('IsNaN', op.is_nan, [MAP]),
    ('NV12toRGB', op.nv12_to_rgb, [[1, 480, 640, 1], [1, 240, 320, 2]], np.uint8),
    ('Bucketize', lambda x: op.bucketize(x, np.arange(0, 1, 0.05, dtype=np.float32)), [[1, 65536]]),
    ('GridSample', sampled, [[1, 32, 64, 64], [1, 64, 64, 2]]),
    ('RegionYolo', lambda x: op.region_yolo(x, 4, 80, 3, False, [0, 1, 2], 1, 3, [10, 14, 23, 27, 37, 58]), [[1, 255, 26, 26]]),
    ('MaxPool', lambda x: op.max_pool(x, [2] * 2, [1] * 2, [1] * 2, [1] * 2, [3] * 2).output(0), [MAP]),
    ('Convolution, 3×3', convolved([64, 64, 3, 3]), [[1, 64, 56, 56]]),
    ('Convolution, 1×1', convolved([64, 256, 1, 1]), [[1, 256, 56, 56]]),
    ('Convolution, first', convolved([64, 3, 7, 7], 2), [[1, 3, 224, 224]]),
    ('GroupConvolution, depthwise', convolved([64, 1, 3, 3], groups=64), [MAP]),
    ('Concat and Convolution', read_together, [[1, 256, 128, 128]] * 4),
    ('DeformableConvolution', deformed, [[1, 64, 40, 40], [1, 18, 40, 40]]),
    ('ConvolutionBackpropData', enlarged, [[1, 64, 56, 56]]),
    ('MatMul', lambda x: op.matmul(x, weights(768, 768), False, True), [TOKENS]),
    ('Attention', attention, [[1, 12, 197, 64]] * 3), ('LSTMSequence', lstm, [[1, 100, 128]]),
]


def written(name, function, shapes, element_type=np.float32):
    """The file of a model of one operation."""
    path = WORK / 'operations' / f"{name.replace(' ', '_')}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs = [op.parameter(shape, element_type) for shape in shapes]
    made = function(*inputs)
    results = [op.result(output) for output in (made if isinstance(made, list) else [made])]
    ov.save_model(ov.Model(results, inputs, name), path, compress_to_fp16=False)
    return path


def operations(setup):
    """Two threads, beside OpenVINO in f32. Quick, three of them."""
    def compare(name, *what):
        xml = written(name, *what)
        return {'ms': beside_openvino(setup, name.replace(' ', '_'), xml, ov.Core().read_model(xml), divisor=3)}
    some = OPERATIONS[:3] if setup.is_quick else OPERATIONS
    return [guarded(name, lambda: compare(name, *what)) for name, *what in some]
