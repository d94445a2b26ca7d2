"""Time for each unit of work, as inputs and models become larger."""
import time

import numpy as np
import openvino as ov
from openvino import opset13 as op

import decoder
from common import WORK, bench, guarded, least, p10, repeat, turns
from generating import as_case, openvino_steps, steps_of
from latency import compiled

# Which sizes are measured, and from which on the work of a unit is the same.
BATCHES = {'mobilenetv3_small': [1, 2, 4, 8, 16, 32], 'resnet50': [1, 2, 4, 8, 16, 32]}
IMAGES = {'mobilenetv3_small': [64, 128, 224, 384, 512, 768, 1024], 'resnet50': [64, 128, 224, 384, 512, 1024]}
LENGTHS = [16, 64, 128, 256, 512, 1024, 2048, 4096]
LAYERS = [10, 100, 1000, 10000]
# OpenVINO takes seconds to compile 1,000 layers.
COMPILED = 1000
FROM = {'batch': 1, 'image': 224, 'sequence': 128, 'layers': 100}
# Wide and of few layers: most of the work is in products of matrices, of which a token costs the same at any length.
WIDE = decoder.Sizes(layers=2, hidden=1024, heads=16, kv_heads=16, inner=2816, vocab=1000, last_only=True)


def smaller(setup, sizes):
    return sizes[:3] if setup.is_quick else sizes


def growing(setup, axis, sizes, point):
    """The points of a curve; `point` gives sides and the units of work of a size. All sizes take turns, since a machine
    is not as fast in one minute as in the next."""
    points = {size: point(size) for size in smaller(setup, sizes)}
    sides = {(size, who): side for size, (of, _) in points.items() for who, side in of.items()}
    taken = turns(setup.rounds_by(3), sides)
    return {'axis': axis, 'from': FROM[axis], 'points': [
        {'size': size, 'units': units, 'ms': {who: min(taken[size, who]) for who in of}}
        for size, (of, units) in points.items()]}


def picture(setup, name, size, batch):
    case = setup.case(name)
    array = np.random.default_rng(0).random((batch, 3, size, size), np.float32)
    file = WORK / 'inputs' / f'growth_{batch}_{size}.npy'
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, array)
    request = compiled(case.xml, [[array]], 2).create_infer_request()
    step = {0: array}
    shape = f'x[{batch},3,{size},{size}]'
    run = lambda: request.infer(step, share_inputs=True)
    return {'irrun': lambda: bench(setup, case.xml, '--input', file, '--shape', shape, '--warmup', 1)['p10_ms'],
            'openvino': lambda: repeat(run, setup.seconds, warmup=1, of=p10)}


def prompt(setup, tokens):
    """A prompt of so many tokens; the units are multiplications of its matrices and of its attention."""
    saved, folder = decoder.save(WIDE, WORK / 'decoders/wide/model.xml'), WORK / f'inputs/prompt_{tokens}'
    folder.mkdir(parents=True, exist_ok=True)
    for file in saved, saved.with_suffix('.bin'):
        (folder / file.name).unlink(missing_ok=True)
        (folder / file.name).symlink_to(file)
    xml = folder / saved.name
    # `irrun bench` resets the state where there are several steps.
    steps = list(steps_of([tokens, 1], WIDE.vocab))
    case = as_case(xml, steps)
    theirs = openvino_steps(xml, steps)
    layer = 2 * WIDE.hidden * (WIDE.hidden + WIDE.kv_heads * WIDE.head) + 3 * WIDE.hidden * WIDE.inner
    # A token sees itself and those before it.
    units = WIDE.layers * (layer * tokens + 2 * WIDE.hidden * tokens * (tokens + 1) // 2)
    return {'irrun': lambda: bench(setup, case, '--warmup', 1)['steps_ms'][0],
            'openvino': lambda: least(lambda: theirs()[0], setup.seconds)}, units


def chain(count):
    """So many layers that nothing fuses into one: products with a square matrix of their own, and functions."""
    path = WORK / 'chains' / f'{count}.xml'
    if not path.with_suffix('.bin').exists():
        rng = np.random.default_rng(0)
        x = node = op.parameter([4, 16], np.float32, name='x')
        for i in range(count):
            if i % 2:
                node = op.tanh(node)
            else:
                node = op.matmul(node, op.constant(rng.normal(size=(16, 16)).astype(np.float32)), False, False)
        path.parent.mkdir(parents=True, exist_ok=True)
        ov.save_model(ov.Model([op.result(node)], [x], 'chain'), path, compress_to_fp16=False)
    return path


def planned(setup, count):
    """Reading, checking and planning; OpenVINO's reading and compiling."""
    xml = chain(count)

    def ours():
        told = bench(setup, xml, '--warmup', 0, seconds=0.001)
        return told['load_ms'] + told['check_ms'] + told['plan_ms']

    def theirs():
        start = time.perf_counter()
        core = ov.Core()
        core.compile_model(core.read_model(xml), 'CPU', {'INFERENCE_NUM_THREADS': 2, 'INFERENCE_PRECISION_HINT': 'f32'})
        return (time.perf_counter() - start) * 1e3
    sides = {'irrun': lambda: least(ours, setup.seconds)}
    if count <= COMPILED:
        sides['openvino'] = theirs
    return sides, count


def executed(setup, count):
    xml = chain(count)
    sides = {'irrun': lambda: bench(setup, xml)['p10_ms']}
    if count <= COMPILED:
        array = np.zeros((4, 16), np.float32)
        request = compiled(xml, [[array]], 2).create_infer_request()
        sides['openvino'] = lambda: repeat(lambda: request.infer({0: array}, share_inputs=True), setup.seconds, of=p10)
    return sides, count


def growth(setup):
    """Two threads; the figures are times, `units` says how much was done."""
    curves = {}
    for name, sizes in BATCHES.items():
        curves[f'batch of {name}'] = 'batch', sizes, lambda n, name=name: (picture(setup, name, 224, n), n)
    for name, sizes in IMAGES.items():
        curves[f'image of {name}'] = 'image', sizes, lambda n, name=name: (picture(setup, name, n, 1), n * n)
    curves['prompt'] = 'sequence', LENGTHS, lambda n: prompt(setup, n)
    curves['planning a chain'] = 'layers', LAYERS, lambda n: planned(setup, n)
    curves['running a chain'] = 'layers', LAYERS, lambda n: executed(setup, n)
    return [guarded(name, lambda: growing(setup, axis, sizes, point)) for name, (axis, sizes, point) in curves.items()]
