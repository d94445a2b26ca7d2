"""The page of a machine and its plots, from the raw figures beside them, and the table over machines."""
import json
import sys
from pathlib import Path

import bars
import plots
import sections
from common import ROOT
from figures import SHOWN, good, ratio
from tables import failures, number, peers_table, table, with_ratio

PEERS = ['openvino', 'onnxruntime', 'rten', 'tract']
ROLL_PEERS = ['numpy', 'torch', 'openvino']
PARTS = ['latency', 'process', 'check', 'roll', 'scaling', 'crowded', 'shapes', 'bf16', 'executor', 'size', 'field',
         'architectures', 'nncf', 'operations', 'streams', 'startup', 'tokens', 'activations', 'generation',
         'decoder1b', 'growth']
MACHINES = ROOT / 'docs/performance/machines'
BEGIN, END = '<!-- machines -->', '<!-- end -->'


def steady(data):
    rows = data['latency']
    return ['Milliseconds of one run (of all steps, for a model with state), two threads, f32, shapes fixed. '
            'In brackets: ours divided by theirs. The peers but OpenVINO run the same architecture from ONNX, '
            'tract on one thread, as it does by default.\n\n',
            peers_table(rows, PEERS), '\n![latency](latency.svg)\n']


def processes(data):
    rows = data['process']
    peers = ['openvino', 'openvino_static', 'rten']
    return ['Milliseconds from spawn to outputs on disk; OpenVINO from a C program, once with the model as it is and '
            'once reshaped to the inputs first.\n\n', peers_table(rows, peers),
            '\n![whole process](process.svg)\n\nPeak memory of that process in MiB.\n\n',
            peers_table(rows, peers, 'bytes', 2**20), '\n![memory](memory.svg)\n',
            '\n`irrun check`, whole process, against the call of `read_model` alone, in milliseconds.\n\n',
            peers_table(data['check'], ['openvino'])]


def rolls(data):
    who = ['memcpy', *ROLL_PEERS]
    head = ['', 'MB', 'irrun', *[SHOWN.get(w, w) for w in who], 'irrun, a model of it']
    body = [[r['name'], number(r['bytes'] / 1e6), number(r['ms']['irrun']), *[with_ratio(r, w) for w in who],
             number(r['ms']['irrun_model'])] for r in good(data['roll'])]
    return ['Milliseconds, two threads, warm buffers; memcpy is the same bytes copied by the same threads. '
            'numpy and torch allocate their result. The last column is the whole run of a model of one Roll.\n\n',
            table(head, body), failures(data['roll']), '\n![Roll](roll.svg)\n']


def scaling(data):
    def gain(row, who):
        return row['ms'][f'{who}_1'] / row['ms'][f'{who}_2']
    rows = [[r['name'], *[number(r['ms'][f'irrun_{t}']) for t in (1, 2)],
             *[f'{gain(r, who):.2f}' for who in ('irrun', 'openvino')]] for r in good(data['scaling'])]
    head = ['', '1 thread', '2 threads', 'gain', "OpenVINO's gain"]
    return [table(head, rows), failures(data['scaling']), '\n![scaling](scaling.svg)\n']


def shapes(data):
    parts = []
    for row in good(data['shapes']):
        body = [[p['size'], number(p['ms']['irrun']), with_ratio(p, 'openvino')] for p in row['points']]
        parts += [f"{row['name']}, {row.get('of', 'a run')}, against the {row['axis']}.\n\n", table([row['axis'], 'irrun', 'OpenVINO'], body),
                  f"\n![{row['name']}](shapes_{row['name']}.svg)\n\n"]
    return ['Milliseconds of one run of a dynamic model, or of one step of a model with state.\n\n', *parts, failures(data['shapes'])]


def draw(data, folder):
    def ratios(part, peers, of='ms'):
        return [(r['name'], {f'irrun / {SHOWN.get(p, p)}': v for p in peers if (v := ratio(r, p, of))})
                for r in good(data[part])]
    latency, process = ratios('latency', PEERS), ratios('process', ['openvino', 'rten'])
    memory = ratios('process', ['openvino', 'rten'], 'bytes')
    share = 'irrun divided by the peer'
    plots.bars(folder / 'latency.svg', 'Steady state: time of a run', latency, share, 0.95, 1.5)
    plots.bars(folder / 'process.svg', 'Whole process: time from spawn to outputs', process, share, 0.4, 1.5)
    plots.bars(folder / 'memory.svg', 'Peak memory of the process', memory, share, 0.5, 1.5)
    speed = []
    for r in good(data['roll']):
        ms = {**{w: r['ms'][w] for w in ('irrun', 'memcpy')}, 'best peer': min(r['ms'][w] for w in ROLL_PEERS)}
        speed.append((r['name'], {who: r['bytes'] / time / 1e6 for who, time in ms.items()}))
    plots.bars(folder / 'roll.svg', 'Roll: bytes moved', speed, 'GB/s', lower=False)
    gains = [(r['name'], {SHOWN.get(w, w): r['ms'][f'{w}_1'] / r['ms'][f'{w}_2'] for w in ('irrun', 'openvino')})
             for r in good(data['scaling'])]
    plots.bars(folder / 'scaling.svg', 'From one thread to two', gains, 'times as fast', 1.7, lower=False)
    for row in good(data['shapes']):
        series = {SHOWN.get(who, who): [(p['size'], p['ms'][who]) for p in row['points']]
                  for who in ('irrun', 'openvino')}
        plots.lines(folder / f"shapes_{row['name']}.svg", f"{row['name']}: {row.get('of', 'a run')}", row['axis'], series)


def distance(apart):
    if not apart:
        return ''
    low, high = min(apart.values()), max(apart.values())
    before = f"; {apart['scaling']:.0f} before that from one thread to two" if 'scaling' in apart else ''
    return (f'A cache line went from one processor to the other and back in {low:.0f} to {high:.0f} ns, '
            f'measured before each part{before}. ')


def later(parts):
    """The parts that were measured anew, by when."""
    times = {}
    for part, when in parts.items():
        times.setdefault(f"{when['commit']}, {when['date']}", []).append(part)
    return ''.join(f"{', '.join(parts)}: irrun at {when}. " for when, parts in times.items())


def machine(data):
    m = data['machine']
    versions = ', '.join(f'{name} {v}' for name, v in m['versions'].items() if v)
    return (f"{m['cpu']}, {m['cpus']} processors ({m['flags']}), {m['memory_gib']} GiB, {m['system']}; {versions}; "
            f"irrun at {m['commit']}, {m['date']}. Up to {m['rounds']} rounds of each comparison, in each of which the "
            f"sides take turns of {m['seconds']} s; medians of the turns' medians. {distance(data['distance'])}{later(data['later'])}"
            "The raw figures are the `.json` files beside this page.\n")


def read(folder):
    """The raw figures of a machine, by part."""
    data = {file.stem: json.loads(file.read_text()) for file in folder.glob('*.json')}
    for part in PARTS:
        data.setdefault(part, [])
    for notes in 'distance', 'later':
        data.setdefault(notes, {})
    return data


def write(folder):
    """Writes the page of a machine and its plots beside its raw figures, and the table over machines."""
    data = read(folder)
    draw(data, folder)
    reach = ['Ratios are ours divided by theirs.\n\n', table(['what', 'bar', 'figure', ''], bars.judge(data), '---')]
    pages = {'What it must reach': reach, 'Steady state': steady(data), 'Whole process': processes(data),
             'Roll': rolls(data), 'From one thread to two': scaling(data), 'Batch and sequence length': shapes(data),
             **sections.added(data)}
    text = [f'# Performance: {folder.name}\n\n<!-- Written by `make bench` (benches/report.py). -->\n\n', machine(data)]
    for title, parts in pages.items():
        text += [f'\n## {title}\n\n', *parts]
    (folder / 'README.md').write_text(''.join(text))
    if folder.parent == MACHINES:
        overview()


def measured(data):
    """When a machine was measured, and when parts of it once more."""
    times = [data['machine'], *data['later'].values()]
    return '; '.join(dict.fromkeys(f"{when['commit']}, {when['date']}" for when in times))


def overview():
    """Renews the table over machines in docs/performance/README.md."""
    folders = sorted(f for f in MACHINES.iterdir() if (f / 'machine.json').exists())
    judged = {f: {row[0]: row for row in bars.judge(read(f))} for f in folders}
    whats = {what: row[1] for rows in judged.values() for what, row in rows.items()}

    def cell(rows, what):
        if what not in rows:
            return '–'
        figure, verdict = bars.brief(rows[what])
        return f'**{figure}**' if 'missed' in verdict else figure
    head = ['what', 'bar', *[f'[{f.name}](machines/{f.name}/README.md)' for f in folders]]
    body = [[what, bar, *[cell(judged[f], what) for f in folders]] for what, bar in whats.items()]
    commits = ['measured at', '', *[measured(read(f)) for f in folders]]
    page = MACHINES.parent / 'README.md'
    text = page.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(text[:begin] + '\n' + table(head, [*body, commits], '---') + text[end:])


if __name__ == '__main__':
    for machine_folder in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(MACHINES.iterdir()):
        write(machine_folder.resolve())
