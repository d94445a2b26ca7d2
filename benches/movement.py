"""Roll and Reshape."""
import json

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from common import WORK, alternate, bench, guarded, output, repeat

TYPES = {'f32': np.float32, 'f16': np.float16, 'u8': np.uint8, 'i64': np.int64}
SMALL, SWIN, LARGE, LONG = (3, 10, 100, 200), (1, 56, 56, 96), (8, 224, 224, 64), (64, 1024, 1024)
ROLLS = [
    ('f32', SMALL, (1, 0, 0, 0)), ('f32', SMALL, (0, 0, 0, 7)),
    ('f32', SMALL, (0, 0, -3, -3)), ('f32', SMALL, (1, 3, 5, 7)),
    ('f32', SWIN, (0, -3, -3, 0)), ('f32', SWIN, (0, 0, 0, 5)), ('f32', SWIN, (0, 3, 3, 5)),
    ('f32', LARGE, (0, -3, -3, 0)), ('f32', LARGE, (3, 0, 0, 0)),
    ('f32', LARGE, (0, 0, 0, 5)), ('f32', LARGE, (1, 3, 5, 7)),
    ('f32', LONG, (0, -3, -3)), ('f32', LONG, (3, 0, 0)), ('f32', LONG, (0, 0, 5)), ('f32', LONG, (1, 3, 5)),
    ('u8', SWIN, (0, -3, -3, 0)), ('u8', SWIN, (0, 0, 0, 5)), ('u8', LARGE, (0, -3, -3, 0)),
    ('f16', SWIN, (0, -3, -3, 0)), ('f16', SWIN, (0, 0, 0, 5)), ('f16', LARGE, (0, -3, -3, 0)),
    ('i64', SWIN, (0, -3, -3, 0)), ('i64', SWIN, (0, 0, 0, 5)), ('i64', LARGE, (0, -3, -3, 0)),
]


def model(dtype, sizes, shifts, axes):
    x = ops.parameter(sizes, TYPES[dtype], name='x')
    return ov.Model([ops.roll(x, np.array(shifts), np.array(axes))], [x])


def roll(setup):
    """Between warm buffers; numpy and torch allocate their result, as they do in use."""
    import torch
    torch.set_num_threads(2)
    # Rolls are short: a slice of a third of a model's holds hundreds of the small ones.
    seconds = setup.seconds / 3

    def case(dtype, sizes, shifts):
        axes = [i for i, shift in enumerate(shifts) if shift]
        by = [shifts[i] for i in axes]
        array = (np.arange(np.prod(sizes)) % 251).astype(TYPES[dtype]).reshape(sizes)
        tensor, graph = torch.from_numpy(array), model(dtype, sizes, by, axes)
        xml, data = WORK / 'roll.xml', WORK / 'roll.npy'
        ov.save_model(graph, xml, compress_to_fp16=False)
        np.save(data, array)
        request = ov.Core().compile_model(graph, 'CPU', {'INFERENCE_NUM_THREADS': 2, 'INFERENCE_PRECISION_HINT': 'f32',
                                                         'NUM_STREAMS': 1}).create_infer_request()
        request.set_input_tensor(ov.Tensor(array, shared_memory=True))
        result = np.empty_like(array)
        request.set_output_tensor(ov.Tensor(result, shared_memory=True))
        memcpy = []

        def ours():
            text = output(setup.roll, ','.join(map(str, sizes)), array.itemsize, ','.join(map(str, shifts)), 2, seconds)
            memcpy.append(json.loads(text)['memcpy_ms'])
            return json.loads(text)['roll_ms']
        ms = alternate(setup.rounds_by(2), {
            'irrun': ours,
            'irrun_model': lambda: bench(setup, xml, '--input', data, seconds=seconds)['median_ms'],
            'numpy': lambda: repeat(lambda: np.roll(array, by, axes), seconds),
            'torch': lambda: repeat(lambda: torch.roll(tensor, by, axes), seconds),
            'openvino': lambda: repeat(request.infer, seconds),
        })
        ms['memcpy'] = float(np.median(memcpy))
        return {'type': dtype, 'sizes': sizes, 'axes': axes, 'shifts': by, 'bytes': array.nbytes,
                'row_bytes': sizes[-1] * array.itemsize, 'ms': ms}
    return [guarded(f'{d} {list(s)} by {list(by)}', lambda: case(d, s, by)) for d, s, by in ROLLS]


def executor(setup):
    """A run of one Reshape, and a node of a chain of them."""
    runs = [json.loads(output(setup.executor)) for _ in range(setup.rounds_by(3))]
    return [guarded('Reshape', lambda: {key: type(runs[0][key])(np.median([r[key] for r in runs])) for key in runs[0]})]
