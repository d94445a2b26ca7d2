"""Text from a small language model, beside OpenVINO GenAI, and the steps of one of a billion parameters."""
import json
import pydoc_data.topics
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov

import decoder
from common import WORK, alternate, bench, guarded, guarded_each, median, output, p10, turns

SMALL = decoder.Sizes(layers=8, hidden=512, heads=8, kv_heads=4, inner=1408, vocab=2048)
BILLION = decoder.Sizes(layers=22, hidden=2048, heads=32, kv_heads=4, inner=5632, vocab=32000, bits=4, last_only=True)
HINTS = {'INFERENCE_PRECISION_HINT': 'f32', 'KV_CACHE_PRECISION': 'f32', 'DYNAMIC_QUANTIZATION_GROUP_SIZE': '0',
         'INFERENCE_NUM_THREADS': '2'}
# Both of LLMPipeline's ways of attention. It takes the first where nothing is said.
BACKENDS = {'genai': 'PA', 'genai_sdpa': 'SDPA'}
PROMPTS, NEW = [32, 512], 32
# Prompts of a turn that do not count, and those that do.
WARM, COUNTED = 3, 3
# Of a billion: a prompt, further pieces up to 2,000 tokens, and tokens one by one.
CONTEXT, SINGLE = [512, 512, 512, 464], 16


class Prompts:
    """New text each time, since both sides keep what they know of the text before."""

    def __init__(self, tokenizer):
        self.tokenizer, self.random = tokenizer, random.Random(0)
        self.words = sorted({w for text in pydoc_data.topics.topics.values() for w in text.split() if w.isalpha()})
        # Letters are mostly single tokens, so that every length is reached.
        self.letters = 'abcdefghijklmnopqrstuvwxyz'

    def count(self, words):
        return self.tokenizer.encode(' '.join(words)).input_ids.shape[1]

    def of(self, tokens):
        """A line of exactly so many tokens."""
        words = self.random.choices(self.words, k=tokens)
        while self.count(words) >= tokens:
            words.pop()
        for _ in range(1000):
            more = [*words, self.random.choice(self.letters)]
            count = self.count(more)
            words = more if count <= tokens else words
            if count == tokens:
                return ' '.join(words)
        raise RuntimeError(f'no text of {tokens} tokens was found')


def irrun_turn(setup, folder, lines):
    """Times to the first token and of a token, of each line but the first ones."""
    command = [setup.irrun, 'generate', folder, '--interactive', '--greedy', '--max-new-tokens', NEW, '--threads', 2,
               '--json']
    told = [json.loads(line) for line in output(*command, input='\n'.join(lines) + '\n').splitlines()][WARM:]
    return [(t['times_ms']['tokenize'] + t['times_ms']['first_token'], 1e3 / t['tokens_per_second'], t['tokens'])
            for t in told if t['tokens_per_second']]


def genai_turn(pipeline, lines):
    config = pipeline.get_generation_config()
    config.max_new_tokens, config.do_sample = NEW, False
    times = []
    for line in lines:
        result = pipeline.generate([line], config)
        metrics = result.perf_metrics
        if metrics.get_num_generated_tokens() > 1:
            times.append((metrics.get_ttft().mean, metrics.get_tpot().mean, None))
    return times[WARM:]


def generation(setup):
    """Time to the first token and of the others, within a process that has answered before; and of a new process."""
    try:
        import openvino_genai as genai
        folder = decoder.save_pipeline(SMALL, WORK / 'decoders/small', setup.corpus / 'text/bpe_gpt2')
        prompts = Prompts(genai.Tokenizer(str(folder)))
    except Exception as error:  # without the peer there is nothing to compare
        return [{'name': 'text', 'error': str(error)[-300:]}]
    pipelines = {}

    def within(tokens):
        """Both figures of a length of prompt, from the same turns."""
        if not pipelines:
            pipelines.update({name: genai.LLMPipeline(folder, 'CPU', ATTENTION_BACKEND=backend, **HINTS)
                              for name, backend in BACKENDS.items()})
        texts = lambda: [prompts.of(tokens) for _ in range(WARM + COUNTED)]
        sides = {'irrun': lambda: irrun_turn(setup, folder, texts())}
        for name, pipeline in pipelines.items():
            sides[name] = lambda pipeline=pipeline: genai_turn(pipeline, texts())
        taken = turns(setup.rounds_by(2), sides)
        figure = lambda i: {'ms': {who: median([min(t[i] for t in turn) for turn in of]) for who, of in taken.items()}}
        return {f'first token, prompt of {tokens}': figure(0), f'a further token, prompt of {tokens}': figure(1)}
    rows = [row for tokens in PROMPTS for row in guarded_each(f'prompt of {tokens}', lambda: within(tokens))]
    rows.append(guarded('a process to its first token, prompt of 32', lambda: processes(setup, folder, prompts)))
    return rows


def processes(setup, folder, prompts):
    """Wall time and peak memory; what Python takes to import the package is told apart."""
    prompt, memory = prompts.of(32), {}

    def side(who, *command):
        def run():
            ms, kib = output(setup.measure, *command).split()
            memory.setdefault(who, []).append(int(kib) << 10)
            return float(ms)
        return run
    peer = Path(__file__).with_name('genai_first.py')
    sides = {'irrun': side('irrun', setup.irrun, 'generate', folder, '--prompt', prompt, '--greedy', '--threads', 2,
                           '--max-new-tokens', 1), 'import': side('import', sys.executable, peer)}
    for name, backend in BACKENDS.items():
        sides[name] = side(name, sys.executable, peer, folder, backend, prompt)
    ms = alternate(setup.rounds_by(2) + 1, sides)
    return {'ms': ms, 'bytes': {who: median(of) for who, of in memory.items()}}


def steps_of(counts, vocab):
    """The inputs of steps of so many tokens."""
    rng, seen = np.random.default_rng(0), 0
    for count in counts:
        yield {'input_ids': rng.integers(0, vocab, (1, count)), 'attention_mask': np.ones((1, seen + count), np.int64),
               'position_ids': np.arange(seen, seen + count)[None], 'beam_idx': np.zeros(1, np.int32)}
        seen += count


def as_case(xml, steps):
    """A case folder of a model and steps, which `irrun bench` repeats."""
    listed = []
    for i, step in enumerate(steps):
        for name, array in step.items():
            np.save(xml.parent / f'{i}_{name}.npy', array)
        listed.append({'inputs': [{'name': name, 'file': f'{i}_{name}.npy'} for name in step], 'expected': []})
    (xml.parent / 'case.json').write_text(json.dumps({'name': xml.parent.name, 'stateful': True,
                                                      'runs': [{'steps': listed}]}))
    return xml.parent


def openvino_steps(xml, steps, **more):
    """A side that gives the time of each step in ms."""
    hints = {'INFERENCE_PRECISION_HINT': 'f32', 'KV_CACHE_PRECISION': 'f32', 'INFERENCE_NUM_THREADS': 2,
             'NUM_STREAMS': 1, 'PERFORMANCE_HINT': 'LATENCY'}
    request = ov.Core().compile_model(xml, 'CPU', {**hints, **more}).create_infer_request()

    def run(steps=steps):
        request.reset_state()
        times = []
        for step in steps:
            start = time.perf_counter()
            request.infer(step, share_inputs=True)
            times.append((time.perf_counter() - start) * 1e3)
        return times
    run(steps[:1])
    return run


def decoder1b(setup):
    """A prompt of 512, and a token after 2,000. Quick, two of its layers and a tenth of the tokens."""
    sizes = replace(BILLION, layers=2) if setup.is_quick else BILLION
    counts = [count // 10 for count in CONTEXT] if setup.is_quick else CONTEXT
    try:
        xml = decoder.save(sizes, WORK / f'decoders/1b_{sizes.layers}/model.xml')
        steps = list(steps_of([*counts, *[1] * SINGLE], sizes.vocab))
        case = as_case(xml, steps)
    except Exception as error:
        return [{'name': 'the model', 'error': str(error)[-300:]}]
    peak = []

    def ours(kind):
        def run():
            told = json.loads(output(setup.irrun, 'bench', case, '--json', '--threads', 2, '--runs', 1, '--warmup', 0,
                                     '--activations', kind))
            if kind == 'f32':
                peak.append(told['peak_rss_bytes'])
            return told['steps_ms']
        return run

    def compare(mode, kind, **more):
        sides = {'irrun': ours(kind), 'openvino': openvino_steps(xml, steps, **more)}
        taken = turns(setup.rounds_by(4), sides)
        figures = {'prompt of 512': lambda t: t[0], 'a token after 2,000': lambda t: p10(t[len(counts):])}
        return {f'{what}, {mode}': {'ms': {who: median(map(of, runs)) for who, runs in taken.items()}}
                for what, of in figures.items()}
    rows = guarded_each('f32', lambda: compare('f32', 'f32', DYNAMIC_QUANTIZATION_GROUP_SIZE=0))
    rows += guarded_each('int8 activations', lambda: compare('int8 activations', 'int8'))

    def memory():
        whole = xml.with_suffix('.bin').stat().st_size + sizes.cache_bytes(sum(counts) + SINGLE)
        return {'bytes': {'irrun': median(peak), 'file_and_caches': whole}}
    return [*rows, guarded('peak memory', memory)]
