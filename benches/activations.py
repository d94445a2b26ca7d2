"""Rows through weights of 8 and 4 bits, with and without rows rounded to integers of 8 bits."""
import numpy as np
import openvino as ov
from openvino import opset13 as op

import decoder
from common import WORK, alternate, bench, guarded, output, p10, repeat

GROUP, ROWS = 128, [1, 8, 64, 512]
F32 = {'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': 2, 'NUM_STREAMS': 1}


def layers(count, size, bits):
    """A file of so many layers of weights in groups of 128."""
    xml = WORK / 'compressed' / f'{count}_{size}_{bits}.xml'
    if not xml.with_suffix('.bin').exists():
        rng = np.random.default_rng(bits)
        x = node = op.parameter(ov.PartialShape([-1, size]), ov.Type.f32, name='x')
        for _ in range(count):
            node = op.matmul(node, decoder.compressed(rng, size, size, bits, GROUP), False, True)
        xml.parent.mkdir(parents=True, exist_ok=True)
        ov.save_model(ov.Model([op.result(node)], [x], f'rows_{bits}'), xml, compress_to_fp16=False)
        decoder.KEPT.clear()
    return xml


def rows_of(count, size):
    data = np.random.default_rng(count).normal(size=(count, size)).astype(np.float32)
    file = WORK / 'inputs' / f'rows_{count}_{size}.npy'
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, data)
    return file, data


def openvino(setup, xml, data, **more):
    core = ov.Core()
    network = core.read_model(xml)
    network.reshape(list(data.shape))
    request = core.compile_model(network, 'CPU', {**F32, **more}).create_infer_request()
    return lambda: repeat(lambda: request.infer({0: data}, share_inputs=True), setup.seconds, of=p10)


def activations(setup):
    """irrun in f32 and with `--activations int8`, OpenVINO without and with dynamic quantization."""
    def model(bits, rows):
        xml = layers(8, 2048, bits)
        file, data = rows_of(rows, 2048)

        def ours(kind):
            return lambda: bench(setup, xml, '--input', file, '--activations', kind)['p10_ms']
        return {'bits': bits, 'rows': rows, 'ms': alternate(setup.rounds_by(2), {
            'irrun': ours('f32'), 'openvino': openvino(setup, xml, data, DYNAMIC_QUANTIZATION_GROUP_SIZE=0),
            'irrun_int8': ours('int8'), 'openvino_default': openvino(setup, xml, data)})}
    return [guarded(f'{bits} bits, {rows} ' + ('row' if rows == 1 else 'rows'), lambda: model(bits, rows))
            for bits in (8, 4) for rows in ROWS]


def tokens(setup):
    """One row through weights that no cache holds, beside a plain read of as many bytes by two threads."""
    def model(bits):
        xml = layers(4, 2048, bits) if setup.is_quick else layers(16, 4096, bits)
        size = 2048 if setup.is_quick else 4096
        file, data = rows_of(1, size)
        count = xml.with_suffix('.bin').stat().st_size
        return {'bytes': {'weights': count}, 'ms': alternate(setup.rounds, {
            'irrun': lambda: bench(setup, xml, '--input', file)['p10_ms'],
            'read': lambda: float(output(setup.read, count, setup.seconds).split()[0]),
            'openvino': openvino(setup, xml, data, DYNAMIC_QUANTIZATION_GROUP_SIZE=0)})}
    return [guarded(f'{bits} bits', lambda: model(bits)) for bits in (8, 4)]
