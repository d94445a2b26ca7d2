"""Whole processes, from spawn to outputs on disk, and their memory."""
import shutil

import onnx_models
from common import NAMED, WORK, alternate, environment, guarded, median, output

OUT = WORK / 'outputs'


def process(setup):
    """irrun, a C program with OpenVINO's library (the model as it is, and reshaped first), and rten."""
    def model(name):
        case = setup.case(name)
        inputs = case.files[0]
        memory = {}

        def side(who, *command):
            def run():
                shutil.rmtree(OUT, ignore_errors=True)
                OUT.mkdir(parents=True)
                text = output(setup.measure, *command, env=environment(RTEN_NUM_THREADS='2'))
                ms, kib = text.split()
                memory.setdefault(who, []).append(int(kib) << 10)
                return float(ms)
            run()
            return run
        flags = [flag for file in inputs for flag in ('--input', file)]
        sides = {
            'irrun': side('irrun', setup.irrun, case.xml, *flags, '--threads', 2, '--output', f'{OUT}/'),
            'openvino': side('openvino', setup.ov_run, 'run', case.xml, OUT, *inputs),
        }
        if not case.stateful:
            sides['openvino_static'] = side('openvino_static', setup.ov_run, 'static', case.xml, OUT, *inputs)
        onnx = onnx_models.export(name)
        if onnx and setup.peers:
            sides['rten'] = side('rten', setup.peers, 'rten', onnx, inputs[0], '--output', OUT / 'y.raw')
        ms = alternate(setup.rounds_by(2) + 1, sides)
        return {'ms': ms, 'bytes': {who: median(list) for who, list in memory.items()}}
    return [guarded(name, lambda: model(name)) for name in NAMED]


def check(setup):
    """The whole process of `irrun check` against `read_model` alone, inside its process."""
    def model(name):
        xml = setup.case(name).xml
        sides = {
            'irrun': lambda: float(output(setup.measure, setup.irrun, 'check', xml).split()[0]),
            'openvino': lambda: float(output(setup.ov_run, 'read', xml)),
        }
        return {'ms': alternate(setup.rounds, sides)}
    return [guarded(name, lambda: model(name)) for name in NAMED]


def size(setup):
    """The stripped binary."""
    stripped = WORK / 'irrun.stripped'
    output('strip', '-o', stripped, setup.irrun)
    return [guarded('irrun', lambda: {'bytes': stripped.stat().st_size})]
