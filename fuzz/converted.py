"""What the comparisons with samples of other frameworks share: models that OpenVINO converted, run by irrun and by
OpenVINO's CPU plugin, beside what the framework expects."""
import argparse
import collections
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

# Seconds of one sample; a converter may not end.
LIMIT = 30
# Differences of an output, as parts of its largest value; those of f16 come from its 11 bits.
TOLERANCE = 1e-4
TOLERANCE_OF_F16 = 4e-3


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
    if len(found) != len(expected):
        return False
    for a, b in zip(found, expected):
        far = distance(a, b)
        if isinstance(far, str) or far > (TOLERANCE_OF_F16 if b.dtype == np.float16 else TOLERANCE):
            return False
    return True


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


def verdict(framework, model, inputs, expected, irrun):
    """What became of a sample of a framework, and the message if irrun refuses it."""
    import openvino as ov
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
        return ("irrun alone" if agrees(ours, expected) else "irrun alone, otherwise"), ""
    if agrees(ours, theirs):
        return "the same", ""
    if agrees(ours, expected):
        return f"irrun as {framework}", ""
    return (f"OpenVINO as {framework}" if agrees(theirs, expected) else "all differ"), ""


def report(operations, judge):
    """Prints the number of each operation and a line for each of its samples, with what `judge` says of it.

    `operations` gives pairs of a number and samples; a sample is its name and what `judge` takes."""
    def late(*_):
        raise TimeoutError(f"more than {LIMIT} seconds")

    signal.signal(signal.SIGALRM, late)
    for number, samples in operations:
        print(json.dumps({"operation": number}), flush=True)
        for name, *sample in samples:
            signal.alarm(LIMIT)
            try:
                what, message = judge(*sample)
            except TimeoutError as error:
                what, message = "not done", str(error)
            signal.alarm(0)
            print(json.dumps({"name": name, "what": what, "message": message}), flush=True)


def main(description, run):
    """The command line: a process of its own runs some operations at a time, since converters can crash."""
    parser = argparse.ArgumentParser(description=description)
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
        command = [sys.executable, sys.argv[0], "--child", "--irrun", irrun, "--first", str(first)]
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
                if record["what"] not in ("the same", "not converted", "irrun alone"):
                    print(record["name"], record["what"], record["message"][:300], sep=": ", flush=True)
        # A crash of the converter skips the operation.
        first = first + 1 if child.wait() not in (0, -signal.SIGKILL) else None
    print(*(f"{what} {count}" for what, count in counts.most_common()), sep=", ")
