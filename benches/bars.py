"""The table of what irrun must reach, with the figures measured."""
import re

from common import NAMED
from figures import SHOWN, geometric, good, growths, ratio


def judge(data):
    """Rows of (what, bar, figure, reached or missed)."""
    return [*steady(data), *processes(data), *movement(data), *crowded(data), *rest(data),
            *field(data), *processes_more(data), *compressed(data), *text(data), *growth(data)]


def row(what, bar, figure, reached):
    return [what, bar, figure, '–' if reached is None else 'reached' if reached else '**missed**']


def most(what, bar, values, fewest=1, above=False):
    """A row of several figures, `{name: value}`, that must all be at most `bar` (or at least, with `above`)."""
    sign = '≥' if above else '≤'
    values = {name: v for name, v in values.items() if v is not None}
    if not values:
        return row(what, f'{sign} {bar:g}', 'not measured', None)
    if len(values) < fewest:
        return row(what, f'{sign} {bar:g}', f'measured on {len(values)} of {fewest}', False)
    missed = {n: v for n, v in values.items() if (v < bar if above else v > bar)}
    end = (min if above else max)(values, key=values.get)
    figure = f'{values[end]:.2f}' if len(values) == 1 else (
        f'geometric mean {geometric(values.values()):.2f}, worst {values[end]:.2f} ({end})')
    if len(values) > 1 and missed:
        figure += f'; missed by {len(missed)} of {len(values)}: {listed(missed, above)}'
    return row(what, f'{sign} {bar:g}', figure, not missed)


def mean_and_each(what, mean, each, values):
    """A row of figures with one bar for their geometric mean and one for each."""
    judged = most(what, each, values)
    judged[1] = f'mean ≤ {mean:g}, each ≤ {each:g}'
    if values:
        reached = geometric(values.values()) <= mean and max(values.values()) <= each
        judged = row(*judged[:3], reached)
    return judged


def brief(judged):
    """The figure of a row for a narrow column, and the verdict."""
    figure, verdict = judged[2], judged[3]
    worst = re.search(r'worst ([\d.]+)', figure)
    missed = re.search(r'missed by (\d+ of \d+)', figure)
    short = worst.group(1) if worst else re.split('[;,] ', figure)[0]
    if 'mean' in judged[1] and worst:
        short = f"{re.search(r'mean ([0-9.]+)', figure).group(1)}, worst {short}"
    return short + (f', {missed.group(1)} missed' if missed else ''), verdict


def listed(values, above):
    """The worst first, and not more of them than fit a cell."""
    worst = sorted(values.items(), key=lambda item: item[1], reverse=not above)
    return ', '.join(f'{name} {v:.2f}' for name, v in worst[:5]) + (', …' if len(worst) > 5 else '')


def ratios(rows, peer, of='ms', names=NAMED):
    return {r['name']: ratio(r, peer, of) for r in good(rows) if r['name'] in names}


def steady(data):
    rows = data['latency']
    yield most('steady state, OpenVINO f32 with static shapes, 13 models', 0.95, ratios(rows, 'openvino'), len(NAMED))
    for peer in 'onnxruntime', 'rten', 'tract':
        name = SHOWN.get(peer, peer)
        yield most(f'steady state, {name}, where it runs the model', 1, ratios(rows, peer))


def processes(data):
    rows, swin = data['process'], ['swin_tiny']
    others = [name for name in NAMED if name not in swin]
    what = 'whole process, OpenVINO from C, swin_tiny with dynamic shapes'
    yield most(what, 0.12, ratios(rows, 'openvino', names=swin))
    yield most('the same, every other model', 0.4, ratios(rows, 'openvino', names=others), len(others))
    yield most('whole process, rten, swin_tiny', 0.6, ratios(rows, 'rten', names=swin))
    yield most('the same, each other model', 0.8, ratios(rows, 'rten', names=others))
    yield most("peak memory of that process, OpenVINO's", 0.5, ratios(rows, 'openvino', 'bytes'), len(NAMED))
    check = ratios(data['check'], 'openvino', names=swin)
    yield most('`irrun check` of swin_tiny, `read_model` alone', 0.35, check)


def movement(data):
    rows = good(data['roll'])
    best = {r['name']: r['ms']['irrun'] / min(r['ms'][p] for p in ('numpy', 'torch', 'openvino')) for r in rows}
    copy = {r['name']: r['ms']['irrun'] / r['ms']['memcpy'] for r in rows if r['row_bytes'] > 64}
    yield most('Roll, 24 shapes, the best of numpy, PyTorch, OpenVINO', 0.6, best, 24)
    yield most('Roll, memcpy of the same bytes, rows longer than a cache line', 1.15, copy, 23)
    for r in good(data['executor']):
        node = r['chain_node_ns']
        where = 'the output lies where the input does' if r['in_place'] else 'bytes moved'
        figure = f"{node:.0f} ns a node, {r['chain_plain_node_ns']:.0f} ns with `--no-optimize`; {where}"
        bar = 'no byte moved; < 100 ns a node'
        yield row('a chain of 200 Reshapes of 64 MB', bar, figure, r['in_place'] and node < 100)


def crowded(data):
    def ratios_of(sides, base):
        return {f"{r['name']}, {s[-1]} threads": r['ms'][s] / r['ms'][base] for r in good(data['crowded']) for s in sides}
    yield most('one processor, 2 and 4 threads, 1 thread', 1.2, ratios_of(['one_2', 'one_4'], 'one_1'))
    yield most('two processors, 4 threads, 2 threads', 1.25, ratios_of(['two_4'], 'two_2'))
    busy = {r['name']: r['ms']['busy'] / r['ms']['busy_openvino'] for r in good(data['crowded'])}
    yield most('beside a busy process, OpenVINO', 1, busy)


def rest(data):
    gains = {r['name']: r['ms']['irrun_1'] / r['ms']['irrun_2'] for r in good(data['scaling'])}
    yield most('from 1 to 2 threads, times as fast', 1.7, gains, len(NAMED), above=True)
    for r in good(data['executor']):
        micros = r['tiny_ns'] / 1e3
        yield row('a run of a tiny graph (1 KB in, one Reshape, out)', '≤ 3 µs', f'{micros:.2f} µs', micros <= 3)
    for r in good(data['size']):
        size = r['bytes'] / 1e6
        yield row('binary, stripped', '≤ 16 MB', f'{size:.1f} MB', size <= 16)
    names = ['swin_tiny', 'vit_tiny', 'resnet50']
    what = "`--precision bf16`, OpenVINO's default"
    if not data['bf16']:
        yield row(what, '≤ 1', 'there is no such mode yet', False)
        return
    yield most(what, 1, ratios(data['bf16'], 'openvino', names=names), len(names))


def ratios_of(rows, ours, theirs):
    """The first side divided by the second, by row."""
    return {r['name']: r['ms'][ours] / r['ms'][theirs] for r in good(rows) if {ours, theirs} <= r.get('ms', {}).keys()}


def field(data):
    for kind, shown, mean, each in ('float', 'f16 and f32', 0.85, 0.95), ('int8', 'INT8', 0.9, 1):
        # A run of a few microseconds is not the model's.
        rows = [r for r in good(data['field']) if r['kind'] == kind and r['ms']['openvino'] > 0.15]
        what = f'files of the field, {shown}, OpenVINO f32'
        yield mean_and_each(what, mean, each, ratios_of(rows, 'irrun', 'openvino'))
    others = ratios_of(data['architectures'], 'irrun', 'openvino')
    yield most('60 other architectures, OpenVINO f32', 0.95, others, fewest=60)
    quantized = ratios_of(data['nncf'], 'irrun', 'openvino')
    yield most('INT8 of NNCF, 9 models, OpenVINO f32', 0.95, quantized, fewest=9)
    yield most('single operations, OpenVINO f32', 1, ratios_of(data['operations'], 'irrun', 'openvino'))
    streams = ratios_of(data['streams'], 'irrun', 'openvino')
    yield most('two sessions of one thread, OpenVINO with two streams', 0.95, streams)


def processes_more(data):
    what = 'process beyond a steady run, 3 ms and 0.25 ms for a MB of weights'
    yield most(what, 1, ratios_of(data['startup'], 'beyond', 'allowed'))


def compressed(data):
    what = 'one row through 8- and 4-bit weights, speed of a plain read'
    yield most(what, 0.85, ratios_of(data['tokens'], 'read', 'irrun'), above=True)
    yield most('the same, OpenVINO f32', 0.95, ratios_of(data['tokens'], 'irrun', 'openvino'))
    rows = data['activations']
    what = '1, 8, 64, 512 rows through 8- and 4-bit weights, OpenVINO f32'
    yield most(what, 0.95, ratios_of(rows, 'irrun', 'openvino'))
    what = "the same with `--activations int8`, OpenVINO's default"
    yield most(what, 0.95, ratios_of(rows, 'irrun_int8', 'openvino_default'))


def genai(rows, begin, of='ms'):
    """Ours divided by the better of LLMPipeline's two ways, without what Python takes for the import."""
    values = {}
    for r in good(rows):
        if r['name'].startswith(begin) and of in r:
            spent = r[of].get('import', 0) if of == 'ms' else 0
            values[r['name']] = r[of]['irrun'] / (min(r[of]['genai'], r[of]['genai_sdpa']) - spent)
    return values


def text(data):
    rows = data['generation']
    yield most('text, time to the first token, OpenVINO GenAI, prompts of 32 and 512', 0.95, genai(rows, 'first token'))
    yield most('text, time of a further token, OpenVINO GenAI', 0.95, genai(rows, 'a further token'))
    yield most('text, process start to the first token, OpenVINO GenAI', 0.3, genai(rows, 'a process'))
    yield most("peak memory of that process, OpenVINO GenAI's", 0.6, genai(rows, 'a process', 'bytes'))
    for mode, peer in ('f32', 'OpenVINO f32'), ('int8 activations', "OpenVINO's default"):
        values = ratios_of([r for r in data['decoder1b'] if r['name'].endswith(mode)], 'irrun', 'openvino')
        yield most(f'decoder of 1 billion in 4 bits, {mode}, {peer}', 0.95, values)
    memory = {r['name']: ratio(r, 'file_and_caches', 'bytes') for r in good(data['decoder1b']) if 'bytes' in r}
    yield most('peak memory of that decoder, its file and caches', 1.1, memory)


def growth(data):
    """The axes begin where the work of a unit is the same: batch 1, image 224, prompt 128, layers 100."""
    longest = {r['name']: max(growths(r, 'irrun').values(), default=None) for r in good(data['growth'])}
    what = 'growth: a unit of work at batch 1 to 32, image 224 to 1024, prompt 128 to 4096, layers 100 to 10000'
    yield most(what, 1.1, longest)
