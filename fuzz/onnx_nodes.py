#!/usr/bin/env python3
"""Test cases of ONNX's operators, converted by OpenVINO, run by irrun and OpenVINO's CPU plugin.

    fuzz/onnx_nodes.py --irrun target/release/irrun --count 100

The package `onnx` makes cases of all its operators, some 1,900 models of a node with inputs and expected outputs. What
irrun and OpenVINO compute is compared with what ONNX expects. A process converts some cases at a time, since converters
can crash. Needs `pip install openvino numpy onnx`; `make onnx-nodes` runs it."""
import pathlib
import tempfile
import warnings

import numpy as np

import converted

# Kinds of the types that numpy, .npy files and OpenVINO's Python interface share.
KINDS = "fiub"


def arrays(values):
    """Values as arrays, or nothing if one is no array of numbers."""
    from onnx import TensorProto, numpy_helper
    values = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values]
    values = [np.asarray(v) if isinstance(v, np.generic) else v for v in values]
    simple = all(isinstance(v, np.ndarray) and v.dtype.kind in KINDS and v.dtype.isbuiltin == 1 for v in values)
    return values if simple else None


def judge(case, irrun):
    """What became of a case, and the message if irrun refuses it."""
    import onnx
    import openvino as ov
    given, expected = case.data_sets[0]
    inputs, expected = arrays(given), arrays(expected)
    if inputs is None or expected is None:
        return "not converted", ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            onnx.save(case.model, path)
            model = ov.convert_model(path)
    except Exception:
        return "not converted", ""
    return converted.verdict("ONNX", model, inputs, expected, irrun)


def run(first, irrun):
    """Reports the cases from `first` on."""
    from onnx.backend.test.case.node import collect_testcases
    warnings.filterwarnings("ignore")
    cases = list(enumerate(collect_testcases(None)))[first:]
    converted.report(((number, [(case.name, case)]) for number, case in cases), lambda case: judge(case, irrun))


if __name__ == "__main__":
    converted.main(__doc__.splitlines()[0], run)
