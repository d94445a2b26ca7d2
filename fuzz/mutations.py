#!/usr/bin/env python3
"""How OpenVINO ends on the broken models that the test `mutations` has kept, and how irrun has ended on them.

    MUTATIONS=20 MUTATIONS_KEPT=$PWD/target/mutations cargo test --workspace --test mutations
    fuzz/mutations.py target/mutations

Each model is read, compiled and run once on zeros in a process of its own. Needs `pip install openvino numpy`;
`make mutations-openvino` does both."""
import collections
import os
import pathlib
import resource
import signal
import sys

import numpy as np
import openvino as ov

CPU = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
# Seconds, and bytes of addresses, as irrun is given.
PATIENCE, MEMORY = 10, 8 << 30
# Sizes of dims that are left open.
OPEN = 2


def run(core, path):
    """The exit code of irrun's list for what OpenVINO says: 0, 1 for a file that is refused, 3 for a run that fails."""
    try:
        compiled = core.compile_model(core.read_model(path), "CPU", CPU)
    except Exception:
        return 1
    try:
        request = compiled.create_infer_request()
        for port in compiled.inputs:
            shape = port.get_partial_shape()
            sizes = [dim.get_length() if dim.is_static else max(OPEN, dim.min_length)
                     for dim in shape] if shape.rank.is_static else [OPEN]
            request.set_tensor(port, ov.Tensor(port.element_type, ov.Shape(sizes)))
        request.infer()
    except Exception:
        return 3
    return 0


def end_of(core, path):
    """How a process ends that runs a model."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(run(core, path))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return {0: "runs", 1: "refused", 3: "fails as it runs"}[code]
    return "takes too long" if code == -signal.SIGALRM else f"dies of {signal.Signals(-code).name}"


def end_of_irrun(text):
    """The same of the exit codes of `check` and `bench`."""
    codes = text.split(",")
    if "fault" in codes:
        return "fault"
    check, bench = codes
    if bench == "2" and check == "0":
        return "asks for sizes"
    return {"0": "runs", "5": "fails as it runs"}.get(bench, "refused")


def main():
    kept = pathlib.Path(sys.argv[1])
    core, pairs = ov.Core(), collections.Counter()
    for line in sorted(kept.glob("*.txt")):
        text, _ = line.read_text().split(" ", 1)
        pairs[end_of_irrun(text), end_of(core, line.with_suffix(".xml"))] += 1
    print(f"{sum(pairs.values())} broken models")
    for (ours, theirs), count in sorted(pairs.items(), key=lambda pair: -pair[1]):
        print(f"{count:7}  irrun: {ours}; OpenVINO: {theirs}")


if __name__ == "__main__":
    main()
