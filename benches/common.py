"""What every part shares: where things are, how commands are built and run, medians."""
import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / 'target' / 'bench'

# The models that the table names; the others of the collection are measured for information.
NAMED = ['swin_tiny', 'vit_tiny', 'convnext_tiny', 'resnet50', 'mobilenetv3_small', 'efficientnet_b0', 'bert_base',
         'gpt2_6l', 'bilstm_tagger', 'deeplabv3_mobilenet', 'unet', 'ssdlite320', 'llama_tiny_stateful']
MODELS = NAMED + ['swin_tiny_fp16', 'resnet18_int8', 'llama_tiny_stateful_int4']

median = statistics.median


@dataclass
class Setup:
    """How a run measures: rounds of a comparison, seconds of each slice of a round, and the programs. Many short
    rounds, since a machine that others share has seconds in which everything takes half as long again."""
    rounds: int
    seconds: float
    models: Path
    cargo: str
    corpus: Path = None
    irrun: Path = None
    roll: Path = None
    executor: Path = None
    measure: Path = None
    distance: Path = None
    ov_run: Path = None
    read: Path = None
    peers: Path = None

    def rounds_by(self, divisor):
        """Fewer rounds, where a slice takes long or differs little."""
        return max(1, self.rounds // divisor)

    @property
    def is_quick(self):
        """One round that only tries whether everything runs."""
        return self.rounds == 1

    def case(self, name):
        return Case(self.models / name)


class Case:
    """An expanded model with the steps of its first run."""

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        self.xml = folder / 'model.xml'
        case = json.loads((folder / 'case.json').read_text())
        self.stateful = case['stateful']
        self.files = [[folder / i['file'] for i in step['inputs']] for step in case['runs'][0]['steps']]

    def steps(self):
        import numpy as np
        return [[np.load(file) for file in step] for step in self.files]


def output(*command, **more):
    """What a command prints; its errors are shown when it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-400:]}")
    return done.stdout


def bench(setup, *what, threads=2, seconds=None, before=()):
    """The median of the steady state in ms, as `irrun bench` tells it, and all else that it tells."""
    seconds = seconds or setup.seconds
    return json.loads(output(*before, setup.irrun, 'bench', *what, '--json', '--threads', threads, '--runs', 1000,
                             '--seconds', seconds))


def p10(times):
    """The time that a tenth of the calls stay below: what it takes when nothing else runs."""
    return sorted(times)[len(times) // 10]


def repeat(run, seconds, warmup=2, of=median):
    """The median time of a call in ms, or what `of` takes; the first calls do not count."""
    for _ in range(warmup):
        run()
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return of(times) * 1e3


def least(run, seconds):
    """What a tenth of the calls stay below, of a measurement that gives a time itself."""
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        times.append(run())
    return p10(times)


def turns(rounds, sides):
    """Calls every side once per round and returns what each gave, in a list. Every other round begins with the last
    side. A pause lets threads go to sleep."""
    taken = {name: [] for name in sides}
    for i in range(rounds):
        for name in list(sides)[::-1 if i % 2 else 1]:
            time.sleep(0.02)
            taken[name].append(sides[name]())
    return taken


def alternate(rounds, sides):
    """The median of what each side gave in its turns."""
    return {name: median(times) for name, times in turns(rounds, sides).items()}


def guarded(name, run):
    """The result of a measurement, or a row that says why there is none."""
    try:
        row = {'name': name, **run()}
    except Exception as error:  # one model that fails must not cost the others
        row = {'name': name, 'error': str(error)[-300:]}
    times = ' '.join(f'{who} {ms:.3f}' for who, ms in row.get('ms', {}).items())
    print('  ', name, row.get('error') or times, flush=True)
    return row


def guarded_each(name, run):
    """A row for each figure of one measurement, `{name: row}`, or the one row that says why there is none."""
    try:
        rows = run()
    except Exception as error:
        text = str(error)

        def failed():
            raise RuntimeError(text)
        return [guarded(name, failed)]
    return [guarded(each, lambda: row) for each, row in rows.items()]


def environment(**more):
    return {**os.environ, **more}
