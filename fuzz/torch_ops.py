#!/usr/bin/env python3
"""Operations of PyTorch, converted by OpenVINO, run by irrun, OpenVINO's CPU plugin and PyTorch itself.

    fuzz/torch_ops.py --irrun target/release/irrun --count 100

PyTorch tests its operations with sample inputs (`op_db`, some 700 operations). Up to six samples of each are converted;
what irrun and OpenVINO compute is compared with what PyTorch computed before. A process converts some operations at a
time, since converters can crash. Needs `pip install openvino numpy torch expecttest`; `make torch-ops` runs it."""
import argparse
import collections
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings

import numpy as np

SAMPLES = 6
# Seconds of one sample; a converter may not end.
LIMIT = 30
# Larger inputs say no more.
MOST_ELEMENTS = 200_000
# Differences of an output, as parts of its largest value.
TOLERANCE = 1e-4


def samples(op):
    """Functions of tensors, and their tensors, for each type: names, functions, inputs."""
    import torch
    from torch.utils import _pytree as tree
    for dtype in (t for t in (torch.float32, torch.int64) if t in op.dtypes):
        torch.manual_seed(7)
        made = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        for index in range(0, len(made), max(1, len(made) // SAMPLES))[:SAMPLES]:
            leaves, form = tree.tree_flatten(((made[index].input, *made[index].args), made[index].kwargs))
            places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            tensors = [leaves[i].detach().clone() for i in places]
            if not any(t.is_complex() or t.numel() > MOST_ELEMENTS for t in tensors):
                name = f"{op.name.replace('.', '_')}{op.variant_test_name}_{str(dtype)[6:]}_{index}"
                yield name, module(op.op, leaves, form, places), tensors


def module(function, leaves, form, places):
    """A module that calls the function with tensors at some places of its arguments."""
    import torch
    from torch.utils import _pytree as tree

    class Call(torch.nn.Module):
        def forward(self, *tensors):
            given = list(leaves)
            for place, tensor in zip(places, tensors):
                given[place] = tensor
            arguments, named = tree.tree_unflatten(given, form)
            results = tree.tree_leaves(function(*arguments, **named))
            return tuple(r for r in results if isinstance(r, torch.Tensor))

    return Call().eval()


def distance(found, expected):
    """The largest difference, as a part of the largest value; a text if shapes or kinds differ."""
    if found.shape != expected.shape or found.dtype.kind != expected.dtype.kind:
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    found, expected = (x.astype(np.float64) for x in (found, expected))
    if found.size == 0 or np.array_equal(found, expected, equal_nan=True):
        return 0.0
    finite = expected[np.isfinite(expected)]
    scale = max(1.0, np.abs(finite).max()) if finite.size else 1.0
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    gaps = np.where(same, 0.0, np.abs(found - expected) / scale)
    return float(np.where(np.isfinite(gaps), gaps, 1e9).max())


def agrees(found, expected):
    far = [distance(a, b) for a, b in zip(found, expected)]
    return len(found) == len(expected) and all(not isinstance(d, str) and d <= TOLERANCE for d in far)


def by_openvino(model, inputs):
    import openvino as ov
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(inputs, share_outputs=False)
    return [np.array(results[i]) for i in range(len(compiled.outputs))]


def by_irrun(irrun, folder, inputs):
    """What irrun computes, or its message."""
    flags = []
    for i, x in enumerate(inputs):
        np.save(folder / f"input_{i}.npy", x)
        flags += ["--input", folder / f"input_{i}.npy"]
    outputs = folder / "outputs"
    outputs.mkdir()
    done = subprocess.run([irrun, "run", folder / "model.xml", *flags, "--output", f"{outputs}/", "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().replace("\n", " | ")
    return [np.load(o["files"][0]) for o in json.loads(done.stdout)["outputs"]]


def verdict(name, call, tensors, irrun):
    """What became of a sample, and the message if irrun refuses it."""
    import openvino as ov
    import torch
    try:
        with torch.no_grad():
            expected = [r.contiguous().numpy() for r in call(*[t.clone() for t in tensors])]
            model = ov.convert_model(call, example_input=tuple(tensors))
    except Exception:
        return "not converted", ""
    inputs = [t.contiguous().numpy() for t in tensors]
    if len(model.inputs) != len(inputs) or not expected:
        return "not converted", ""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
        ours = by_irrun(irrun, folder, inputs)
        try:
            theirs = by_openvino(ov.Core().read_model(folder / "model.xml"), inputs)
        except Exception:
            theirs = None
    if isinstance(ours, str):
        return ("both refuse" if theirs is None else "irrun refuses"), ours
    if theirs is None:
        return "OpenVINO refuses", ""
    if agrees(ours, theirs):
        return "the same", ""
    if agrees(ours, expected):
        return "irrun as PyTorch", ""
    return ("OpenVINO as PyTorch" if agrees(theirs, expected) else "all differ"), ""


def run(first, irrun):
    """Prints a line for each sample of the operations from `first` on, and the number of each operation."""
    from torch.testing._internal.common_methods_invocations import op_db

    def late(*_):
        raise TimeoutError(f"more than {LIMIT} seconds")

    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, late)
    for number, op in list(enumerate(op_db))[first:]:
        print(json.dumps({"operation": number}), flush=True)
        for name, call, tensors in samples(op):
            signal.alarm(LIMIT)
            try:
                what, message = verdict(name, call, tensors, irrun)
            except TimeoutError as error:
                what, message = "not done", str(error)
            signal.alarm(0)
            print(json.dumps({"name": name, "what": what, "message": message}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--irrun", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    irrun = shutil.which(args.irrun) or args.irrun.resolve()
    if args.child:
        return run(args.first, irrun)
    counts, first, last = collections.Counter(), args.first, args.first + args.count
    while first is not None:
        command = [sys.executable, __file__, "--child", "--irrun", irrun, "--first", str(first)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in child.stdout:
            if not line.startswith("{"):
                continue
            record = json.loads(line)
            first = record.get("operation", first)
            if first >= last:
                child.kill()
                break
            if "what" in record:
                counts[record["what"]] += 1
                if record["what"] not in ("the same", "not converted", "OpenVINO refuses"):
                    print(record["name"], record["what"], record["message"][:300], sep=": ", flush=True)
        # A crash of the converter skips the operation.
        first = first + 1 if child.wait() not in (0, -signal.SIGKILL) else None
    print(*(f"{what} {count}" for what, count in counts.most_common()), sep=", ")


if __name__ == "__main__":
    main()
