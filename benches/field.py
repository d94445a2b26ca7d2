"""Files of the field: the static models below `wild` in the collection, on random inputs."""
import numpy as np
import openvino as ov

from common import WORK, alternate, bench, guarded, p10, repeat
from latency import compiled


def files(setup):
    """Every model with its name, which tells whether it is quantized."""
    wild = setup.corpus / 'wild'
    return {str(xml.parent.relative_to(wild)).removeprefix('speed/'): xml for xml in sorted(wild.rglob('model.xml'))}


def random_inputs(name, model):
    """Arrays for the inputs of a static model, and the files that hold them."""
    rng, arrays, paths = np.random.default_rng(0), [], []
    for i, port in enumerate(model.inputs):
        dtype, shape = port.element_type.to_dtype(), list(port.shape)
        array = rng.random(shape) if dtype.kind == 'f' else rng.integers(0, 10, shape)
        path = WORK / 'inputs' / f'{name}_{i}.npy'
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays.append(np.ascontiguousarray(array, dtype))
        np.save(path, arrays[-1])
        paths.append(path)
    return arrays, paths


def is_static(model):
    return all(port.partial_shape.is_static for port in model.inputs)


def beside_openvino(setup, name, xml, model, divisor=1):
    """Times of a static model on random inputs with two threads, in turns with OpenVINO in f32."""
    arrays, paths = random_inputs(name, model)
    flags = [flag for path in paths for flag in ('--input', path)]
    request = compiled(xml, [arrays], 2).create_infer_request()
    tensors = [ov.Tensor(array, shared_memory=True) for array in arrays]
    for i, tensor in enumerate(tensors):
        request.set_input_tensor(i, tensor)

    def theirs():
        # Less Python than `infer` has, which counts where a run takes a third of a millisecond.
        request.start_async()
        request.wait()
    sides = {'irrun': lambda: bench(setup, xml, *flags)['p10_ms'],
             'openvino': lambda: repeat(theirs, setup.seconds, of=p10)}
    return alternate(setup.rounds_by(divisor), sides)


def field(setup):
    """Two threads, beside OpenVINO in f32."""
    models = {name: (xml, ov.Core().read_model(xml)) for name, xml in files(setup).items()}

    def compare(name, xml, model):
        return {'kind': 'int8' if 'int8' in name else 'float', 'ms': beside_openvino(setup, name, xml, model)}
    return [guarded(name, lambda: compare(name, xml, model))
            for name, (xml, model) in models.items() if is_static(model)]
