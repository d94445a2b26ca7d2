"""Two sessions of one thread each at the same time."""
import time

import openvino as ov

from common import alternate, bench, guarded

STREAMS = ['resnet50', 'mobilenetv3_small', 'efficientnet_b0', 'vit_tiny']


def throughput(xml, step, seconds):
    """A side that gives OpenVINO's time for a run with two streams, ms."""
    core = ov.Core()
    model = core.read_model(xml)
    model.reshape({i: ov.PartialShape(list(array.shape)) for i, array in enumerate(step)})
    hints = {'PERFORMANCE_HINT': 'THROUGHPUT', 'NUM_STREAMS': 2, 'INFERENCE_NUM_THREADS': 2,
             'INFERENCE_PRECISION_HINT': 'f32'}
    queue = ov.AsyncInferQueue(core.compile_model(model, 'CPU', hints), 2)
    inputs = dict(enumerate(step))

    def some(count):
        for _ in range(count):
            queue.start_async(inputs, share_inputs=True)
        queue.wait_all()

    def run():
        some(4)
        runs, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            # Enough that the wait at the end does not count.
            some(40)
            runs += 40
        return (time.perf_counter() - begin) / runs * 1e3
    return run


def streams(setup):
    """The time of a run is that of all runs divided by their number."""
    seconds = setup.seconds * 3

    def model(name):
        case = setup.case(name)

        def ours():
            return 1e3 / bench(setup, case.folder, '--streams', 2, seconds=seconds)['runs_per_second']
        return {'ms': alternate(setup.rounds_by(2), {'irrun': ours,
                                                     'openvino': throughput(case.xml, case.steps()[0], seconds)})}
    return [guarded(name, lambda: model(name)) for name in STREAMS]
