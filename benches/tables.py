"""Tables of a page, as Markdown."""
from figures import SHOWN, geometric, good, ratio


def table(head, rows, cell='--:'):
    lines = [head, ['---'] + [cell] * (len(head) - 1), *rows]
    return '\n'.join('| ' + ' | '.join(map(str, cells)) + ' |' for cells in lines) + '\n'


def number(value):
    return '–' if value is None else f'{value:.3g}' if value < 1000 else f'{value:.0f}'


def with_ratio(row, peer, of='ms', unit=1):
    share = ratio(row, peer, of)
    return '–' if share is None else f'{number(row[of][peer] / unit)} ({share:.2f})'


def failures(rows):
    failed = [(row['name'], row['error'].splitlines()[0]) for row in rows if 'error' in row]
    return ''.join(f'\n`{name}` was not measured: {error}\n' for name, error in failed)


def peers_table(rows, peers, of='ms', unit=1):
    head = ['', 'irrun', *[SHOWN.get(p, p) for p in peers]]
    body = [[r['name'], number(r[of]['irrun'] / unit), *[with_ratio(r, p, of, unit) for p in peers]]
            for r in good(rows)]
    means = [geometric(ratio(r, p, of) for r in good(rows)) for p in peers]
    body.append(['geometric mean', '', *['–' if m is None else f'({m:.2f})' for m in means]])
    return table(head, body) + failures(rows)
