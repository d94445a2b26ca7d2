"""What a process takes beyond one steady run: reading, planning, packing weights."""
import math
import shutil

import openvino as ov

import field
from common import ROOT, WORK, alternate, bench, guarded, least, output

OUT = WORK / 'outputs'
SMALL = ['mobilenetv3_small', 'efficientnet_b0', 'ssdlite320']
# What is allowed, in milliseconds and in milliseconds for each MB of weights.
FIXED, FOR_MB = 3, 0.25
LARGEST = 4e6


def carried(model):
    """Bytes of inputs and outputs, where they are known."""
    ports = [port for port in [*model.inputs, *model.outputs] if port.partial_shape.is_static]
    return sum(port.element_type.size * math.prod(port.shape) for port in ports)


def models(setup):
    """Small models that read all of their weights."""
    swin = ROOT / 'models/swin_block'
    yield 'swin_block', swin / 'model.xml', [swin / 'input_0.npy']
    for name in SMALL:
        case = setup.case(name)
        yield name, case.xml, case.files[0]
    for name, xml in field.files(setup).items():
        model = ov.Core().read_model(xml)
        # Larger arrays are a matter of the disk.
        if field.is_static(model) and carried(model) < LARGEST:
            yield name, xml, field.random_inputs(name, model)[1]


def startup(setup):
    """Two threads. The weights are counted as the file holds them."""
    def model(xml, files):
        flags = [flag for file in files for flag in ('--input', file)]

        def once(*command):
            shutil.rmtree(OUT, ignore_errors=True)
            OUT.mkdir(parents=True)
            return float(output(setup.measure, *command).split()[0])

        def process(*command):
            return least(lambda: once(*command), setup.seconds)
        ms = alternate(setup.rounds_by(2), {
            'irrun': lambda: process(setup.irrun, xml, *flags, '--threads', 2, '--output', f'{OUT}/'),
            'steady': lambda: bench(setup, xml, *flags)['p10_ms'],
            'openvino': lambda: process(setup.ov_run, 'run', xml, OUT, *files),
        })
        megabytes = xml.with_suffix('.bin').stat().st_size / 1e6
        ms['allowed'] = FIXED + FOR_MB * megabytes
        ms['beyond'] = ms['irrun'] - ms['steady']
        return {'megabytes': megabytes, 'ms': ms}
    return [guarded(name, lambda: model(xml, files)) for name, xml, files in models(setup)]
