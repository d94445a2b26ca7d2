"""Steady state: `irrun bench` and its peers, one after the other, several rounds."""
import json
import time

import numpy as np
import openvino as ov

import onnx_models
from common import MODELS, NAMED, WORK, Case, alternate, bench, environment, guarded, median, output, repeat

BATCHES = {'resnet50': [1, 2, 4, 8], 'vit_tiny': [1, 2, 4, 8]}
LENGTHS = {'bert_base': [16, 32, 64, 128, 256]}
# Tokens that a language model has seen before the ones that are measured, and how many these are.
PROMPTS, TOKENS = {'llama_tiny_stateful': [16, 128, 512, 1024, 2048]}, 32


def compiled(xml, steps, threads, stateful=False, precision='f32'):
    """OpenVINO's model, reshaped to the inputs. Stateful models keep an f32 cache and no dynamic quantisation."""
    core = ov.Core()
    model = core.read_model(xml)
    if not stateful:
        model.reshape({i: ov.PartialShape(list(array.shape)) for i, array in enumerate(steps[0])})
    cache = {'KV_CACHE_PRECISION': 'f32', 'DYNAMIC_QUANTIZATION_GROUP_SIZE': 0} if stateful else {}
    hint = {'INFERENCE_PRECISION_HINT': precision} if precision else {}
    return core.compile_model(model, 'CPU', {**cache, **hint, 'INFERENCE_NUM_THREADS': threads, 'NUM_STREAMS': 1,
                                             'PERFORMANCE_HINT': 'LATENCY'})


def openvino(xml, steps, threads, seconds, stateful=False, precision='f32'):
    """A side that runs all steps from the reset state."""
    request = compiled(xml, steps, threads, stateful, precision).create_infer_request()

    def run():
        if stateful:
            request.reset_state()
        for step in steps:
            request.infer(dict(enumerate(step)), share_inputs=True)
    return lambda: repeat(run, seconds)


def onnx_sides(setup, case, steps):
    path = onnx_models.export(case.name)
    if path is None:
        return {}
    session = onnx_models.session(path, 2)
    sides = {'onnxruntime': lambda: repeat(lambda: session.run(None, {'x': steps[0][0]}), setup.seconds)}
    for engine in ['rten', 'tract'] if setup.peers else []:
        def side(engine=engine):
            text = output(setup.peers, engine, path, case.files[0][0], '--seconds', setup.seconds,
                          env=environment(RTEN_NUM_THREADS='2'))
            return json.loads(text)['median_ms']
        try:
            side()
        except RuntimeError as error:
            print('  ', engine, 'does not run', case.name, error)
        else:
            sides[engine] = side
    return sides


def latency(setup):
    """Two threads, against every peer."""
    def model(name):
        case = setup.case(name)
        steps = case.steps()
        sides = {
            'irrun': lambda: bench(setup, case.folder)['median_ms'],
            'openvino': openvino(case.xml, steps, 2, setup.seconds, case.stateful),
            **onnx_sides(setup, case, steps),
        }
        return {'ms': alternate(setup.rounds, sides), 'named': name in NAMED}
    return [guarded(name, lambda: model(name)) for name in MODELS]


def scaling(setup):
    """One thread and two, both of irrun and of OpenVINO."""
    def model(name):
        case = setup.case(name)
        steps = case.steps()
        sides = {f'irrun_{t}': lambda t=t: bench(setup, case.folder, threads=t)['median_ms'] for t in (1, 2)}
        for t in 1, 2:
            sides[f'openvino_{t}'] = openvino(case.xml, steps, t, setup.seconds, case.stateful)
        return {'ms': alternate(setup.rounds, sides)}
    return [guarded(name, lambda: model(name)) for name in NAMED]


def reshaped(setup, name, sizes, of):
    """Latency of one dynamic model for inputs of several shapes."""
    case = setup.case(name)
    points = []
    for size in sizes:
        step = [of(array, size) for array in case.steps()[0]]
        files = [WORK / 'inputs' / f'{name}_{size}_{i}.npy' for i in range(len(step))]
        for file, array in zip(files, step):
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, array)
        flags = [flag for file in files for flag in ('--input', file)]
        sides = {'irrun': lambda: bench(setup, case.xml, *flags)['median_ms'],
                 'openvino': openvino(case.xml, [step], 2, setup.seconds)}
        points.append({'size': size, 'ms': alternate(setup.rounds_by(3), sides)})
    return {'points': points}


def shapes(setup):
    """Latency against the size of the batch, the length of the sequence, and the tokens before."""
    def batch(array, size):
        return np.ascontiguousarray(np.repeat(array[:1], size, axis=0))

    def length(array, size):
        return np.ascontiguousarray(np.resize(array[:1], (1, size)))
    runs = [(n, 'batch', s, batch) for n, s in BATCHES.items()] + [(n, 'length', s, length) for n, s in LENGTHS.items()]
    rows = [guarded(name, lambda: {'axis': axis, **reshaped(setup, name, sizes, of)}) for name, axis, sizes, of in runs]
    return rows + [guarded(name, lambda: generation(setup, name, prompts)) for name, prompts in PROMPTS.items()]


def written(case, prompt):
    """A case folder with a prompt and some tokens one by one, for a language model as optimum-intel exports it."""
    rng, seen, steps = np.random.default_rng(0), 0, []
    folder = WORK / 'inputs' / f'{case.name}_{prompt}'
    folder.mkdir(parents=True, exist_ok=True)
    for i, count in enumerate([prompt] + [1] * TOKENS):
        seen += count
        arrays = {'input_ids': rng.integers(0, 1000, (1, count)), 'attention_mask': np.ones((1, seen), np.int64),
                  'position_ids': np.arange(seen - count, seen)[None], 'beam_idx': np.zeros(1, np.int32)}
        for name, array in arrays.items():
            np.save(folder / f'{i}_{name}.npy', array)
        steps.append({'inputs': [{'file': f'{i}_{name}.npy', 'name': name} for name in arrays], 'expected': []})
    for file in 'model.xml', 'model.bin':
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(case.folder / file)
    known = json.loads((case.folder / 'case.json').read_text())
    (folder / 'case.json').write_text(json.dumps({**known, 'runs': [{'steps': steps}]}))
    return Case(folder)


def generation(setup, name, prompts):
    """The median of a token of a language model, against the tokens before it."""
    points = []
    for prompt in prompts:
        case = written(setup.case(name), prompt)
        steps = [dict(enumerate(step)) for step in case.steps()]
        request = compiled(case.xml, [], 2, stateful=True).create_infer_request()

        def openvino():
            times = []
            request.reset_state()
            for step in steps:
                start = time.perf_counter()
                request.infer(step, share_inputs=True)
                times.append(time.perf_counter() - start)
            return median(times[1:]) * 1e3
        sides = {'irrun': lambda: median(bench(setup, case.folder)['steps_ms'][1:]), 'openvino': openvino}
        points.append({'size': prompt, 'ms': alternate(setup.rounds_by(3), sides)})
    return {'axis': 'tokens before', 'of': 'a token', 'points': points}


def bf16(setup):
    """The opt-in precision against OpenVINO's default here, where irrun has it."""
    if '--precision' not in output(setup.irrun, 'bench', '--help'):
        return []

    def model(name):
        case = setup.case(name)
        sides = {'irrun': lambda: bench(setup, case.folder, '--precision', 'bf16')['median_ms'],
                 'openvino': openvino(case.xml, case.steps(), 2, setup.seconds, precision=None)}
        return {'ms': alternate(setup.rounds, sides)}
    return [guarded(name, lambda: model(name)) for name in ('swin_tiny', 'vit_tiny', 'resnet50')]
