"""Sections of a machine's page from files of the field on; report.py has those before them."""
from figures import good, growths
from tables import failures, number, peers_table, table, with_ratio


def added(data):
    """Title and text of each section that has figures."""
    parts = {'Files of the field': field, 'Other architectures': others, 'INT8 of NNCF': nncf,
             'Single operations': operations, 'Two sessions at the same time': streams,
             'Start': start, 'Compressed weights': compressed, 'Text': text, 'A billion parameters': billion,
             'Growth': growth}
    needs = dict(zip(parts, ['field', 'architectures', 'nncf', 'operations', 'streams', 'startup', 'activations',
                             'generation', 'decoder1b', 'growth']))
    return {title: of(data) for title, of in parts.items() if data[needs[title]]}


def field(data):
    return ['Milliseconds of one run that a tenth of the runs stay below, two threads, random inputs.\n\n',
            peers_table(data['field'], ['openvino'])]


def others(data):
    return ['Milliseconds of one run that a tenth of the runs stay below, two threads, f32, random weights and inputs; '
            'torchvision and timm, converted by OpenVINO.\n\n', peers_table(data['architectures'], ['openvino'])]


def nncf(data):
    return ['Milliseconds of one run that a tenth of the runs stay below, two threads, random weights and inputs; '
            'timm, torchvision, Ultralytics and transformers, converted by OpenVINO and quantized by NNCF.\n\n',
            peers_table(data['nncf'], ['openvino'])]


def operations(data):
    return ['Milliseconds of one run that a tenth of the runs stay below, two threads, f32, models of one operation or a '
            'small block.\n\n', peers_table(data['operations'], ['openvino'])]


def streams(data):
    return ['Milliseconds of all runs divided by their number: two sessions of one thread, beside two streams.\n\n',
            peers_table(data['streams'], ['openvino'])]


def start(data):
    head = ['', 'MB of weights', 'process', 'steady run', 'beyond it', 'allowed', 'ratio', 'process of OpenVINO']
    body = [[r['name'], number(r['megabytes']), *[number(ms[k]) for k in ('irrun', 'steady', 'beyond', 'allowed')],
             f"{ms['beyond'] / ms['allowed']:.2f}", with_ratio(r, 'openvino')]
            for r in good(data['startup']) for ms in [r['ms']]]
    return ['Milliseconds. Allowed beyond a steady run are 3 ms and 0.25 ms for each MB of weights.\n\n',
            table(head, body), failures(data['startup'])]


def compressed(data):
    head = ['', 'MB', 'irrun', 'plain read', 'share of its speed', 'OpenVINO']
    body = [[r['name'], number(r['bytes']['weights'] / 1e6), number(r['ms']['irrun']), number(r['ms']['read']),
             f"{r['ms']['read'] / r['ms']['irrun']:.2f}", with_ratio(r, 'openvino')] for r in good(data['tokens'])]
    rows = [{**r, 'ms': {'irrun': r['ms']['irrun_int8'], 'openvino': r['ms']['openvino_default']}}
            for r in good(data['activations'])]
    return ['One row through weights in groups of 128, milliseconds. The plain read adds up as many bytes in two '
            'threads.\n\n', table(head, body), failures(data['tokens']),
            '\nRows through 8 layers of 2048 by 2048, beside OpenVINO without dynamic quantization.\n\n',
            peers_table(data['activations'], ['openvino']),
            "\nThe same with `--activations int8`, beside OpenVINO's default.\n\n", peers_table(rows, ['openvino'])]


def text(data):
    memory = [r for r in good(data['generation']) if 'bytes' in r]
    peers = ['genai', 'genai_sdpa']
    return ['Milliseconds in a process that has answered before. The last row is a whole process, with what Python '
            'takes to import the package.\n\n', peers_table(data['generation'], peers),
            '\nPeak memory of that process in MiB.\n\n', peers_table(memory, peers, 'bytes', 2**20)]


def billion(data):
    rows = data['decoder1b']
    memory = ''.join(f"\nPeak memory is {r['bytes']['irrun'] / 1e6:.0f} MB, file and caches together are "
                     f"{r['bytes']['file_and_caches'] / 1e6:.0f} MB.\n" for r in good(rows) if 'bytes' in r)
    times = [r for r in rows if 'bytes' not in r]
    return ['Milliseconds of a step, weights of 4 bits in groups of 128.\n\n', peers_table(times, ['openvino']), memory]


def growth(data):
    parts = ['Milliseconds, and in brackets how much longer a unit of work takes than at the first size in bold.\n']
    for row in good(data['growth']):
        who = {name: growths(row, name) for name in ('irrun', 'openvino')}
        cell = lambda p, name: number(p['ms'].get(name)) + (
            f" ({who[name][p['size']]:.2f})" if p['size'] in who[name] else '')
        body = [[f"**{p['size']}**" if p['size'] >= row['from'] else p['size'], cell(p, 'irrun'), cell(p, 'openvino')]
                for p in row['points']]
        parts += [f"\n{row['name']}\n\n", table([row['axis'], 'irrun', 'OpenVINO'], body)]
    return [*parts, failures(data['growth'])]
