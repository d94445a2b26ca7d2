"""Text through tokenizers: irrun beside OpenVINO with OpenVINO Tokenizers' extension, one thread each, in turns.
`python benches/tokenizing.py IRRUN DIR…`, a DIR being one with openvino_tokenizer.xml, prints the ratios."""
import json
import pydoc_data.topics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import openvino as ov
import openvino_tokenizers  # noqa: F401, the extension

ROUNDS, MILLION = 5, 1_000_000
ENGLISH = ('\n'.join(pydoc_data.topics.topics.values()) * 2)[:MILLION]
TEXTS = {
    '1 MB of English': [ENGLISH],
    'the same by lines': [line for line in ENGLISH.split('\n') if line],
    'a million letters': ['a' * MILLION],
    'a million spaces': [' ' * MILLION],
    'a million emoji': [''.join(chr(0x1F300 + i * 7919 % 0x250) for i in range(MILLION))],
}


def side(request, texts):
    def run():
        start = time.perf_counter()
        request.infer({0: texts})
        return 1e3 * (time.perf_counter() - start)
    return run


def main(irrun, folders):
    core, scratch = ov.Core(), Path(tempfile.mkdtemp())
    for folder in map(Path, folders):
        xml = folder / 'openvino_tokenizer.xml'
        request = core.compile_model(xml, 'CPU', {'INFERENCE_NUM_THREADS': 1}).create_infer_request()
        for name, texts in TEXTS.items():
            array = np.array(texts)
            np.save(scratch / 'x.npy', array)
            command = [irrun, 'bench', xml, '--input', scratch / 'x.npy', '--threads', '1', '--json', '--runs', '3',
                       '--warmup', '1', '--seconds', '20']
            theirs, ours = side(request, array), []
            theirs()
            peer = []
            for _ in range(ROUNDS):
                peer.append(theirs())
                ours.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)['median_ms'])
            print(f'{folder.name}, {name}: {median(ours) / median(peer):.2f} ({median(ours):.1f} ms, theirs '
                  f'{median(peer):.1f} ms)', flush=True)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2:])
