#!/usr/bin/env python3
"""Measures irrun and its peers, interleaved, and writes a page of docs/performance/machines/. `make bench` prepares all it needs."""
import argparse
import json
import os
import time
from pathlib import Path

import activations
import architectures
import build
import crowded
import field
import generating
import growth
import latency
import machine
import movement
import operations
import process
import quantized
import report
import startup
import streams
from common import MODELS, ROOT, WORK, Setup, output

PARTS = {'machine': machine.machine, 'executor': movement.executor, 'size': process.size, 'check': process.check,
         'process': process.process, 'latency': latency.latency, 'scaling': latency.scaling, 'crowded': crowded.crowded,
         'shapes': latency.shapes, 'bf16': latency.bf16, 'roll': movement.roll, 'field': field.field,
         'architectures': architectures.architectures, 'nncf': quantized.nncf,
         'operations': operations.operations, 'streams': streams.streams, 'startup': startup.startup,
         'tokens': activations.tokens, 'activations': activations.activations, 'generation': generating.generation,
         'decoder1b': generating.decoder1b, 'growth': growth.growth}
# What takes minutes to compile, and the parts that use it.
ROLLS, PEERS = {'executor', 'roll'}, {'process', 'latency'}


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--quick', action='store_true', help='one short round of each, into target/bench/quick')
    p.add_argument('--machine', default='this', help='the folder below docs/performance/machines, as in: zen5')
    p.add_argument('--only', default=','.join(PARTS), help='parts to measure anew: ' + ', '.join(PARTS))
    p.add_argument('--corpus', type=Path, default=ROOT / '../shared', help='where models/expand.py is')
    p.add_argument('--models', type=Path, default=WORK / 'models', help='where the models are expanded')
    p.add_argument('--irrun', type=Path, help='a binary to measure in place of a fresh one')
    return p.parse_args()


def main():
    args = arguments()
    quick = args.quick
    setup = Setup(rounds=1 if quick else 9, seconds=0.1 if quick else 0.35, models=args.models.resolve(),
                  cargo=os.environ.get('CARGO', 'cargo'), corpus=args.corpus.resolve(),
                  irrun=args.irrun and args.irrun.resolve())
    parts = dict.fromkeys(args.only.split(','))
    folder = (WORK / 'quick' if quick else report.MACHINES) / args.machine
    # Parts that are measured anew keep what the page says of the others.
    is_whole = PARTS.keys() <= parts.keys() | {'machine'} or not (folder / 'machine.json').exists()
    if is_whole:
        parts = {'machine': None} | parts
    for needed in folder, WORK:
        needed.mkdir(parents=True, exist_ok=True)
    print('building', flush=True)
    build.irrun(setup, ROLLS & parts.keys())
    build.programs(setup)
    if PEERS & parts.keys():
        build.peers(setup)
    build.models(setup, args.corpus, MODELS)
    begin, distances, later = time.time(), folder / 'distance.json', folder / 'later.json'
    apart = json.loads(distances.read_text()) if distances.exists() else {}
    anew = {} if is_whole or not later.exists() else json.loads(later.read_text())
    for name in parts:
        print(name, flush=True)
        start = time.time()
        if os.cpu_count() > 1:
            apart[name] = float(output(setup.distance))
        figures = PARTS[name](setup)
        (folder / f'{name}.json').write_text(json.dumps(figures, indent=1) + '\n')
        if not is_whole:
            anew[name] = machine.revision()
        print(f'   {time.time() - start:.0f} s', flush=True)
    distances.write_text(json.dumps(apart, indent=1) + '\n')
    later.write_text(json.dumps(anew, indent=1) + '\n')
    report.write(folder)
    print(f'measured in {time.time() - begin:.0f} s; see {folder}/README.md')


if __name__ == '__main__':
    main()
