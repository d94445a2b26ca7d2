"""What OpenVINO and NumPy compute for graphs that irrun has run, and where they disagree.

The plugin may crash, so graphs are tried in processes of their own: each step is written down before it begins, and
a step that ended a process before is passed over."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import traceback

import numpy as np
import openvino as ov

import compare
import single

CPU = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
       "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
# Types that NumPy holds as they are; the others are packed.
HELD = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "boolean"}
# Graphs of one process, and crashes of one graph after which it is given up.
TOGETHER, CRASHES = 25, 4
# Seconds for one step.
PATIENCE = 30
# Layers that have no values of their own, or hold a state.
PASSED_OVER = {"Parameter", "Constant", "Result", "Assign", "ReadValue"}
# Small differences before these become large ones.
JUMPS = {"Floor", "Ceiling", "Round", "Sign", "Convert", "ConvertLike", "TopK", "NonZero", "FakeQuantize", "Mod",
         "FloorMod", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Unique", "FakeConvert",
         "Bucketize", "SearchSorted", "IsFinite", "IsInf", "IsNaN", "ROIPooling", "PSROIPooling", "ROIAlign",
         "ROIAlignRotated", "GridSample", "NonMaxSuppression", "MatrixNms", "MulticlassNms", "NMSRotated", "Asin", "Acos",
         "Acosh", "Atanh"}


class Steps:
    """A log of what was begun, so that a crash is known by its step, and of what was found."""

    def __init__(self, path):
        self.path, self.crashes = path, {}

    def write(self, record):
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")

    def begin(self, graph, step):
        """How a step has ended the process before, or None."""
        signal.alarm(PATIENCE)
        begun = f"{graph} {step}"
        self.write({"begun": begun})
        return self.crashes.get(begun)

    def run(self, work):
        """Runs something in a process of its own, and tells how that ended; None if it did well."""
        self.write({"begun": None})
        child = os.fork()
        if child == 0:
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status > 0:
            raise SystemExit(1)
        return {0: None, -signal.SIGALRM: "hang"}.get(status, "crash")

    def records(self):
        with open(self.path) as file:
            return [json.loads(line) for line in file]


def array(value):
    """NumPy has no bf16: it is widened."""
    if value.element_type == ov.Type.bf16:
        return compare.widened(np.array(value.data).view("V2").reshape(list(value.shape)))
    return np.array(value.data)


def tensor(values, element_type):
    values = np.array(values, order="C")
    if element_type == ov.Type.bf16:
        return ov.Tensor(values.view(np.uint16), list(values.shape), ov.Type.bf16)
    return ov.Tensor(values.astype(element_type.to_dtype(), copy=False))


def plugin(core, model, inputs):
    request = core.compile_model(model, "CPU", CPU).create_infer_request()
    request.infer([tensor(x, p.element_type) for x, p in zip(inputs, model.inputs)])
    return [array(request.get_output_tensor(i)) for i in range(len(model.outputs))]


def reference(model, inputs):
    """What OpenVINO's slow kernels compute, or None."""
    results = [ov.Tensor(port.element_type, ov.Shape([0])) for port in model.outputs]
    try:
        given = [tensor(x, p.element_type) for x, p in zip(inputs, model.inputs)]
        return [array(y) for y in results] if model.evaluate(results, given) else None
    except Exception:
        return None


def head(error):
    """The part of a message that says what is wrong, without names, numbers and places."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    said = [line for line in lines if not re.match(r"Exception from|Check '.*' failed at|\[ GENERAL", line)]
    return re.sub(r"[\d.,x]*\d+[\d.,]*", "#", (said or lines or ["?"])[0])[:110]


class Graph:
    """One graph with the arrays that belong to it."""

    def __init__(self, core, folder, number, irrun):
        self.core, self.folder, self.number, self.irrun = core, folder, number, irrun
        self.path = folder / f"{number}.xml"
        with np.load(folder / f"{number}.inputs.npz") as file:
            self.inputs = [file[f"x{i}"] for i in range(len(file.files))]
        with np.load(folder / f"{number}.outputs.npz") as file:
            count = len(file.files) // 2
            self.planned = [compare.widened(file[f"planned{i}"]) for i in range(count)]
            self.written = [compare.widened(file[f"written{i}"]) for i in range(count)]
        text = self.path.read_text()
        self.is_half = '"f16"' in text
        # bf16 has 8 bits.
        self.part = 2e-2 if '"bf16"' in text else 1e-3

    def values(self):
        """What irrun computes for each layer, as written; the arrays of inputs have their names."""
        path = self.folder / f"{self.number}.steps.npz"
        command = [self.irrun, "run", self.path, "--no-optimize", "--dump-all", path, "--input",
                   self.folder / f"{self.number}.inputs.npz"]
        if not self.inputs:
            command = command[:-2]
        done = subprocess.run(command, capture_output=True, text=True)
        if not path.exists():
            raise RuntimeError(done.stderr)
        with np.load(path) as file:
            known = {name: file[name] for name in file.files}
        path.unlink()
        known.update({f"x{i}:0": x for i, x in enumerate(self.inputs)})
        return known


def hunt(graph, steps):
    """The findings of one graph."""
    findings = []
    if not compare.all_near(graph.planned, graph.written):
        findings.append({"kind": "irrun", "what": "planned differs from as written", "f16": graph.is_half})
    number, whole = graph.number, None
    ended = steps.begin(number, "whole")
    if ended:
        findings.append({"kind": f"{ended} of the graph", "what": "whole"})
    else:
        try:
            model = graph.core.read_model(graph.path)
            whole = plugin(graph.core, model, graph.inputs)
            held = [i for i, p in enumerate(model.outputs) if p.element_type.to_string() in HELD]
            pick = lambda list: [list[i] for i in held]
            if not findings and compare.all_near(pick(graph.planned), pick(whole), graph.part):
                return findings
        except Exception as error:
            whole = None
            findings.append({"kind": "refused", "what": head(error), "told": str(error)[:600]})
    layers = checked_layers(graph, steps)
    findings += layers
    if whole is not None and not findings:
        findings += cones(graph, steps) or [{"kind": "diffuse", "what": "no part alone differs"}]
    return findings


def checked_layers(graph, steps):
    """Each layer alone, on the values that irrun has computed before it."""
    try:
        known, model = graph.values(), graph.core.read_model(graph.path)
    except Exception as error:
        return [{"kind": "unread", "what": head(error)}]
    return [f for layer in model.get_ordered_ops() if layer.get_type_name() not in PASSED_OVER
            for f in checked(graph, steps, known, [layer.get_friendly_name()], False, model)]


def cones(graph, steps):
    """Each layer with those before it, two or three deep: what the plugin fuses."""
    known, model = graph.values(), graph.core.read_model(graph.path)
    layers = [x for x in model.get_ordered_ops() if x.get_type_name() not in PASSED_OVER | JUMPS]
    for dynamic, depth in [(True, 1), (False, 2), (True, 2), (False, 3), (True, 3)]:
        for layer in layers:
            names = single.cone(layer, depth, PASSED_OVER)
            if dynamic or len(names) > 1:
                found = checked(graph, steps, known, names, dynamic)
                if found:
                    return found
    return []


def checked(graph, steps, known, names, dynamic, model=None):
    """What is to be said of some layers as a model of their own; the first name is the one that is compared."""
    part = single.cut(model or graph.core.read_model(graph.path), names, known, dynamic, HELD)
    if part is None:
        return []
    finding = {"layers": names, "what": part.kinds, "dynamic": dynamic, "traits": part.traits}
    ended = steps.begin(graph.number, f"{' '.join(names)} {dynamic}")
    if ended:
        return [{**finding, "kind": ended}]
    try:
        got = plugin(graph.core, part.model, part.inputs)
    except Exception as error:
        return [{**finding, "kind": "refused", "what": f"{part.kinds}: {head(error)}", "told": str(error)[:600]}]
    wrong = part.differences(got)
    if not wrong:
        return []
    finding["where"] = part.where
    slow = reference(part.model, part.inputs)
    if slow is None:
        verdict = "no reference"
    elif not part.differences(slow):
        verdict = "reference as irrun"
    elif not compare.all_near(slow, got):
        verdict = "three values"
    else:
        verdict = "reference as plugin"
    return [{**finding, "kind": "differs", "verdict": verdict, "numpy": part.numpy(got), "told": wrong[0]}]


def some(core, folder, irrun, numbers, steps):
    """The findings of some graphs, in a process of their own; those of each that crashes in one for each."""
    def work():
        for number in numbers:
            signal.alarm(4 * PATIENCE)
            steps.write({"graph": number, "findings": hunt(Graph(core, folder, number, irrun), steps)})

    ended = steps.run(work)
    records = steps.records() if ended else []
    done = {r["graph"] for r in records if "findings" in r}
    for number in numbers if ended and len(numbers) > 1 else []:
        if number not in done:
            some(core, folder, irrun, [number], steps)
    if ended and len(numbers) == 1:
        # What has written where it must not may crash later: the step before is as likely.
        begun = [r["begun"] for r in records if r.get("begun")]
        last = begun[-1] if begun and begun[-1].startswith(f"{numbers[0]} ") else f"{numbers[0]} whole"
        if len(steps.crashes) > CRASHES or last in steps.crashes:
            steps.write({"graph": numbers[0], "findings": [{"kind": ended, "what": "again and again"}]})
        else:
            steps.crashes[last] = ended
            some(core, folder, irrun, numbers, steps)
    if len(numbers) == 1:
        steps.crashes.clear()


def main():
    folder, irrun = pathlib.Path(sys.argv[1]), sys.argv[2]
    core, steps = ov.Core(), Steps(folder / "steps.jsonl")
    os.environ["IRRUN_THREADS"] = "1"
    lines = [line.split() for line in open(folder / "graphs.txt")]
    numbers = [line[0] for line in lines if line[1] == "ok"]
    for at in range(0, len(numbers), TOGETHER):
        some(core, folder, irrun, numbers[at:at + TOGETHER], steps)


if __name__ == "__main__":
    main()
