#!/usr/bin/env python3
"""Writes what OpenVINO computes for every layer of a model, as `irrun --compare-steps` reads it.

    docs/tools/dump_openvino.py MODEL.xml -i x.npy -i mask=m.npy -o ref.npz
    irrun run MODEL.xml -i x.npy -i mask=m.npy --compare-steps ref.npz

The CPU plugin runs with f32 forced; --reference takes OpenVINO's own reference kernels. An array is called
LAYER:PORT. Needs `pip install openvino numpy`."""
import argparse
import fnmatch
import pathlib

import numpy as np
import openvino as ov

# By default, matrix products are rounded to bf16 where the machine has it, caches of keys and values to u8.
CPU = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
# Layers without an output that could be read, or with one that the file tells.
PASSED_OVER = {"Result", "Assign", "Constant"}


def named(text):
    """`NAME=FILE`, `INDEX=FILE`, or a file for the next input."""
    key, separator, file = text.rpartition("=")
    return (int(key) if key.isdigit() else key) if separator else None, file


def inputs(model, texts):
    """The tensors of the inputs, by position."""
    files, free = {}, list(range(len(model.inputs)))
    for text in texts:
        key, file = named(text)
        ports = [p.any_name if p.names else p.node.friendly_name for p in model.inputs]
        friendly = [p.node.friendly_name for p in model.inputs]
        if isinstance(key, str):
            names = [i for i, p in enumerate(model.inputs) if key in p.names or key == friendly[i]]
            if not names:
                raise SystemExit(f"there is no input {key}; there are {', '.join(ports)}")
            key = names[0]
        elif key is None:
            key = free[0]
        free.remove(key)
        files[key] = file
    if free:
        raise SystemExit(f"not given: {', '.join(model.inputs[i].node.friendly_name for i in free)}")
    return [tensor(np.load(files[i]), model.inputs[i].element_type) for i in sorted(files)]


def tensor(array, element_type):
    array = np.ascontiguousarray(array)
    if element_type == ov.Type.bf16:
        return ov.Tensor(array.view(np.uint16), list(array.shape), ov.Type.bf16)
    return ov.Tensor(array)


def array(value):
    """numpy has no bf16: raw bytes stand for it."""
    data = np.array(value.data)
    return data.view("V2") if value.element_type == ov.Type.bf16 else data


def wanted(model, pattern):
    """The outputs of layers whose name matches, with the name of their array."""
    for layer in model.get_ordered_ops():
        name = layer.get_friendly_name()
        if layer.get_type_name() not in PASSED_OVER and fnmatch.fnmatchcase(name, pattern):
            for port in layer.outputs():
                if port.element_type != ov.Type.string:
                    yield f"{name}:{port.index}", port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-i", "--input", action="append", default=[], metavar="[NAME|INDEX=]FILE.npy")
    parser.add_argument("-o", "--output", required=True, metavar="REF.npz")
    parser.add_argument("--only", default="*", metavar="GLOB", help="layers by name, with * and ?")
    parser.add_argument("--reference", action="store_true", help="OpenVINO's reference kernels; slow")
    args = parser.parse_args()
    path = args.model / "model.xml" if args.model.is_dir() else args.model
    core = ov.Core()
    model = core.read_model(path)
    given = inputs(model, args.input)
    names, ports = zip(*wanted(model, args.only))
    own = len(model.outputs)
    model.add_outputs(list(ports))
    if args.reference:
        results = [ov.Tensor(port.element_type, ov.Shape([0])) for port in model.outputs]
        if not model.evaluate(results, given):
            raise SystemExit("OpenVINO has no reference kernel for one of the layers")
    else:
        request = core.compile_model(model, "CPU", CPU).create_infer_request()
        request.infer(given)
        results = [request.get_output_tensor(i) for i in range(len(model.outputs))]
    np.savez(args.output, **{name: array(value) for name, value in zip(names, results[own:])})
    print(f"{args.output}: {len(names)} outputs of layers, OpenVINO {ov.__version__}")


if __name__ == "__main__":
    main()
