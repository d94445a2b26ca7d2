"""Builds irrun, the benchmarks and the peers that are programs."""
import json
import os
import sys
from pathlib import Path

from common import ROOT, WORK, environment, output


def artifact(setup, *target):
    """The executable that cargo makes of a target."""
    lines = output(setup.cargo, *target, '--message-format=json', cwd=ROOT).splitlines()
    found = [m['executable'] for m in map(json.loads, lines) if m.get('executable')]
    return Path(found[-1])


def irrun(setup, benches):
    setup.irrun = setup.irrun or artifact(setup, 'build', '--release', '--bin', 'irrun')
    if benches:
        setup.roll = artifact(setup, 'bench', '--no-run', '-p', 'irrun-kernels', '--bench', 'roll')
        setup.executor = artifact(setup, 'bench', '--no-run', '-p', 'irrun-runtime', '--bench', 'executor')


def programs(setup):
    """The C programs; the last uses the library of OpenVINO's Python package."""
    import openvino
    package = Path(openvino.__file__).parent
    libs = package / 'libs'
    library = next(libs.glob('libopenvino_c.so*'))
    here, cc = ROOT / 'benches', [os.environ.get('CC', 'cc'), '-O2']
    setup.measure, setup.distance, setup.ov_run = WORK / 'measure', WORK / 'distance', WORK / 'ov_run'
    setup.read = WORK / 'read'
    output(*cc, '-O3', '-march=native', '-o', setup.read, here / 'read.c', '-lpthread')
    output(*cc, '-o', setup.measure, here / 'measure.c')
    output(*cc, '-o', setup.distance, here / 'distance.c', '-lpthread')
    output(*cc, '-o', setup.ov_run, here / 'ov_run.c', '-I', package / 'include', library,
           f'-Wl,-rpath,{libs}', f'-Wl,-rpath-link,{libs}')


def peers(setup):
    """rten and tract. Without them, their columns stay empty."""
    try:
        output(setup.cargo, 'build', '--release', '--manifest-path', ROOT / 'benches/peers/Cargo.toml',
               env=environment(CARGO_TARGET_DIR=str(WORK / 'peers')))
        setup.peers = WORK / 'peers/release/peers'
    except RuntimeError as error:
        print('rten and tract are left out:', error, file=sys.stderr)


def models(setup, corpus, names):
    """Expands the recipes, once."""
    for name in names:
        if not (setup.models / name / 'model.bin').exists():
            print('   expanding', name, flush=True)
            output(sys.executable, corpus / 'models/expand.py', corpus / 'models' / name, setup.models / name)
