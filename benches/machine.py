"""What the figures were measured on and with."""
import datetime
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from common import ROOT, output


def lock(package):
    found = re.search(f'name = "{package}"\nversion = "([^"]+)"', (ROOT / 'benches/peers/Cargo.lock').read_text())
    return found[1] if found else None


def package(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def revision():
    """The commit and the day."""
    commit = output('git', 'rev-parse', '--short', 'HEAD', cwd=ROOT).strip()
    return {'date': datetime.date.today().isoformat(), 'commit': commit}


def machine(setup):
    cpu = Path('/proc/cpuinfo').read_text()
    field = lambda name: re.search(rf'^{name}\s*: (.*)$', cpu, re.M)[1]
    flags = [f for f in field('flags').split() if f in ('avx2', 'fma', 'avx512f', 'avx512_bf16', 'amx_bf16')]
    memory = re.search(r'MemTotal:\s+(\d+)', Path('/proc/meminfo').read_text())[1]
    return {
        **revision(),
        'cpu': field('model name'), 'cpus': os.cpu_count(), 'flags': ' '.join(flags),
        'memory_gib': round(int(memory) / 2**20), 'system': f'{platform.system()} {platform.release()}',
        'load_before': os.getloadavg()[0],
        'versions': {
            'rustc': output('rustc', '--version').split()[1],
            **{name: package(name) for name in ('openvino', 'openvino-genai', 'onnxruntime', 'numpy', 'torch')},
            'rten': lock('rten'), 'tract': lock('tract-onnx'),
        },
        'rounds': setup.rounds, 'seconds': setup.seconds,
    }
