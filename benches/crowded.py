"""Processors that others want too: fewer than threads, or with a busy process beside."""
import subprocess
from contextlib import contextmanager

from common import alternate, bench, guarded
from latency import openvino

CROWDED = ['mobilenetv3_small', 'efficientnet_b0', 'resnet50']


@contextmanager
def neighbour():
    """A process that never waits, in a session of its own, as another login has."""
    busy = subprocess.Popen(['sh', '-c', 'while :; do :; done'], start_new_session=True)
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def crowded(setup):
    """One processor with 1, 2 and 4 threads, two with 2 and 4, and two beside a busy process."""
    def model(name):
        case = setup.case(name)

        def side(threads, *before):
            return lambda: bench(setup, case.folder, threads=threads, before=before)['median_ms']
        alone = {f'one_{t}': side(t, 'taskset', '-c', '0') for t in (1, 2, 4)}
        alone |= {f'two_{t}': side(t) for t in (2, 4)}
        ms = alternate(setup.rounds_by(2), alone)
        with neighbour():
            sides = {'busy': side(2), 'busy_openvino': openvino(case.xml, case.steps(), 2, setup.seconds)}
            ms |= alternate(setup.rounds_by(2), sides)
        return {'ms': ms}
    return [guarded(name, lambda: model(name)) for name in CROWDED]
