#!/usr/bin/env python3
"""Random graphs, run by irrun and by OpenVINO's CPU plugin: what they disagree about, by cause.

    fuzz/hunt.py --seed 1 --count 1000

The test `hunt` of the workspace makes the graphs, with the generator of the fuzz targets. Where outputs differ, or
OpenVINO refuses or crashes, each layer is run alone on the values that irrun computed before it, then each with
those before it: the smallest part that differs is the cause. `known.py` says which causes are known, and why.
Needs `pip install openvino numpy`; `make hunt` runs it."""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

import known

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Graphs of one process that writes them.
BATCH = 500


def executables():
    """The test that writes graphs, and irrun."""
    made = subprocess.run(["cargo", "test", "--workspace", "--test", "fuzz_corpus", "--no-run", "--message-format=json"],
                          cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    found = {}
    for line in made.splitlines():
        record = json.loads(line)
        if record.get("executable"):
            found[record["target"]["name"]] = record["executable"]
    return found["fuzz_corpus"], found.get("irrun", ROOT / "target/debug/irrun")


def write_graphs(executable, folder, first, count):
    """What became of each graph in irrun."""
    folder.mkdir(parents=True)
    settings = {"HUNT_DIR": str(folder), "HUNT_SEED": str(first), "HUNT_COUNT": str(count)}
    subprocess.run([executable, "hunt"], env={**os.environ, **settings}, cwd=ROOT / "crates/irrun",
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return [line.split(" ", 2) for line in open(folder / "graphs.txt").read().splitlines()]


def run_oracle(folder, irrun):
    """The findings of each graph of a folder."""
    done = subprocess.run([sys.executable, HERE / "oracle.py", folder, irrun], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder}: {done.stderr}")
    records = [json.loads(line) for line in open(folder / "steps.jsonl")]
    return [(r["graph"], r["findings"]) for r in records if "findings" in r]


def signature(finding):
    """What findings of one cause have in common."""
    parts = [finding["kind"], finding["what"]]
    if finding.get("dynamic"):
        parts.append("dynamic")
    parts += finding.get("traits", [])
    parts += [finding[name] for name in ("verdict", "numpy") if finding.get(name)]
    return "; ".join(parts)


class Tally:
    """Findings by cause."""

    def __init__(self, takes_all=False):
        self.takes_all = takes_all
        self.counts, self.examples, self.graphs = collections.Counter(), {}, collections.Counter()
        self.rules = collections.Counter()

    def add(self, number, findings):
        kinds = set()
        for finding in findings:
            rule = None if self.takes_all else known.rule_of(finding)
            kinds.add("known" if rule else finding["kind"])
            if rule:
                self.rules[f"{finding['kind']}: {rule}"] += 1
                continue
            text = signature(finding)
            self.counts[text] += 1
            small = self.examples.get(text)
            if small is None or len(finding.get("layers", "x" * 9)) < len(small[1].get("layers", "x" * 9)):
                self.examples[text] = (number, finding)
        self.graphs.update(kinds)

    def print(self, least):
        for text, count in sorted(self.rules.items(), key=lambda x: -x[1]):
            print(f"{count:7}  known  {text}")
        for text, count in self.counts.most_common():
            if count >= least:
                number, finding = self.examples[text]
                told = finding.get("told", "").replace("\n", " ")[:150]
                print(f"{count:7}  {text}\n         graph {number}, {' '.join(finding.get('layers', []))}: {told}")


def hunt(args, tally, states):
    """Makes graphs and counts what they show, some hundreds at a time."""
    writer, irrun = executables()
    args.dir.mkdir(parents=True, exist_ok=True)
    with open(args.dir / f"{args.seed}.jsonl", "w") as log:
        for first in range(args.seed, args.seed + args.count, BATCH):
            folder = args.dir / f"graphs-{first}"
            shutil.rmtree(folder, ignore_errors=True)
            for number, state, *told in write_graphs(writer, folder, first, min(BATCH, args.seed + args.count - first)):
                states[state] += 1
                if state == "panic":
                    tally.add(number, [{"kind": "panic", "what": "irrun"}])
            for number, findings in run_oracle(folder, irrun):
                tally.add(number, findings)
                log.writelines(json.dumps({"graph": number, **f}) + "\n" for f in findings)
            log.flush()
            if not args.keep:
                shutil.rmtree(folder)
            print(f"{sum(states.values())} graphs, {dict(states)}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="number of the first graph")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--least", type=int, default=1, help="print causes that are found so often")
    parser.add_argument("--all", action="store_true", help="report known causes as any others")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "target/hunt")
    parser.add_argument("--keep", action="store_true", help="keep the files of all graphs")
    args = parser.parse_args()
    tally, states = Tally(args.all), collections.Counter()
    try:
        hunt(args, tally, states)
    except KeyboardInterrupt:
        print("interrupted; found so far:", file=sys.stderr)
    tally.print(args.least)
    print(f"graphs: {dict(states)}; with findings of a kind: {dict(tally.graphs)}")


if __name__ == "__main__":
    main()
