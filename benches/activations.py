"""Rows through weights of 8 and 4 bits: irrun in f32 and with `--activations int8`, beside OpenVINO without and with
dynamic quantization. Two threads, sides in turns. `python benches/activations.py IRRUN` prints the ratios."""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import openvino as ov
from openvino import opset13 as op

LAYERS, SIZE, GROUP, ROUNDS = 8, 2048, 128, 5
ROWS = [1, 8, 64, 512]
# OpenVINO reads constants of 4 bits where NumPy has them.
KEPT = []


def weights(rng, bits):
    """A matrix of integers with a scale and a zero point for each group, as NNCF writes it."""
    groups = SIZE // GROUP
    kind = ov.Type.u8 if bits == 8 else ov.Type.u4
    integers = rng.integers(0, 2 ** bits, (SIZE, groups, GROUP), dtype=np.uint8)
    zeros = np.full((SIZE, groups, 1), 2 ** (bits - 1), np.uint8)
    scales = rng.uniform(0.5, 1.5, (SIZE, groups, 1)).astype(np.float16) / np.float16(2 ** (bits - 1) * SIZE ** 0.5)

    def constant(array):
        if bits == 8:
            return op.constant(array)
        pairs = array.reshape(-1, 2)
        packed = (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
        KEPT.append(packed)
        return op.constant(ov.Tensor(packed, ov.Shape(array.shape), kind))
    real = op.subtract(op.convert(constant(integers), 'f16'), op.convert(constant(zeros), 'f16'))
    real = op.multiply(real, op.constant(scales))
    return op.convert(op.reshape(real, op.constant([SIZE, SIZE]), False), 'f32')


def model(bits):
    rng = np.random.default_rng(bits)
    x = node = op.parameter(ov.PartialShape([-1, SIZE]), ov.Type.f32, name='x')
    for _ in range(LAYERS):
        node = op.matmul(node, weights(rng, bits), False, True)
    return ov.Model([op.result(node)], [x], f'rows_{bits}')


def main(irrun):
    folder = Path(tempfile.mkdtemp())
    for bits in 8, 4:
        xml = folder / f'{bits}.xml'
        ov.save_model(model(bits), xml, compress_to_fp16=False)
        for rows in ROWS:
            data = np.random.default_rng(rows).normal(size=(rows, SIZE)).astype(np.float32)
            np.save(folder / 'x.npy', data)
            print(bits, 'bits', rows, 'rows:', compare(irrun, xml, folder / 'x.npy', data), flush=True)


def compare(irrun, xml, file, data):
    core = ov.Core()

    def openvino(group):
        hints = {'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': 2, 'NUM_STREAMS': 1}
        group = {} if group is None else {'DYNAMIC_QUANTIZATION_GROUP_SIZE': group}
        network = core.read_model(xml)
        network.reshape(list(data.shape))
        request = core.compile_model(network, 'CPU', {**hints, **group}).create_infer_request()

        def run():
            times, end = [], time.perf_counter() + 0.5
            while time.perf_counter() < end or len(times) < 5:
                start = time.perf_counter()
                request.infer({0: data}, share_inputs=True)
                times.append(time.perf_counter() - start)
            return 1e3 * median(times)
        return run

    def ours(activations):
        command = [irrun, 'bench', xml, '--input', file, '--threads', '2', '--activations', activations, '--json',
                   '--seconds', '0.5', '--runs', '100000']
        return lambda: json.loads(subprocess.run(command, capture_output=True, check=True).stdout)['median_ms']
    sides = {'f32': ours('f32'), 'int8': ours('int8'), 'exact': openvino(0), 'default': openvino(None)}
    times = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            times[name].append(side())
    ms = {name: median(of) for name, of in times.items()}
    return (f"int8 / OpenVINO's default {ms['int8'] / ms['default']:.2f}, f32 / OpenVINO's f32 "
            f"{ms['f32'] / ms['exact']:.2f}, ms {json.dumps({k: round(v, 3) for k, v in ms.items()})}")


if __name__ == '__main__':
    main(sys.argv[1])
