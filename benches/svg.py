"""Plots as SVG: groups of horizontal bars, and lines. Numbers in, one file out."""
from html import escape
from math import log10

COLORS = ['#d1495b', '#30638e', '#edae49', '#00798c', '#8d96a3', '#5f4b8b']
STYLE = 'font-family="sans-serif" font-size="12" fill="#222"'


def text(x, y, words, anchor='start', more=''):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(str(words))}</text>'


def rect(x, y, width, height, color, more=''):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}" {more}/>'


def line(x0, y0, x1, y1, color, more=''):
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{color}" {more}/>'


def write(path, title, width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" {STYLE}>'
    back = rect(0, 0, width, height, '#fff')
    path.write_text('\n'.join([head, back, text(10, 20, title, more='font-weight="bold"'), *parts, '</svg>\n']))


def legend(names, y):
    parts, x = [], 10
    for name, color in zip(names, COLORS):
        parts += [rect(x, y - 10, 10, 10, color), text(x + 14, y, name)]
        x += 14 + 7.2 * len(name) + 18
    return parts


def step(most):
    """A round distance of ticks, of which about five fit."""
    unit = 10 ** int(log10(most / 5) // 1)
    return next(unit * by for by in (1, 2, 5, 10) if unit * by * 6 >= most)


def bars(path, title, rows, bar=None, cut=None):
    """`rows` are (label, {series: value}). `bar` draws a line to reach; longer values end at `cut`."""
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    if not names:
        return
    most = max([v for _, values in rows for v in values.values()] + [bar or 0]) * 1.02
    most = min(most, cut or most)
    left = 24 + 6.6 * max(len(label) for label, _ in rows)
    width, thick, top = 860, 11, 62
    scale = (width - left - 60) / most
    parts, y = legend(names, 42), top
    for label, values in rows:
        parts.append(text(left - 8, y + len(values) * thick / 2 + 4, label, 'end'))
        for name in names:
            if name in values:
                long = min(values[name], most) * scale
                parts += [rect(left, y, long, thick - 1, COLORS[names.index(name)]),
                          text(left + long + 4, y + thick - 2, f'{values[name]:.2f}', more='font-size="10"')]
                y += thick
        y += 8
    ticks = []
    for i in range(int(most / step(most)) + 1):
        x = left + i * step(most) * scale
        ticks += [line(x, top - 6, x, y, '#ddd'), text(x, y + 14, f'{i * step(most):g}', 'middle')]
    if bar:
        x = left + bar * scale
        parts += [line(x, top - 6, x, y, '#222', 'stroke-dasharray="4 3"'), text(x + 3, y + 26, f'to reach: {bar:g}')]
    write(path, title, width, y + 36, ticks + parts)


def lines(path, title, across, series):
    """`series` are {name: [(x, y)]}; both axes are logarithmic."""
    points = [p for line in series.values() for p in line]
    left, top, width, height = 60, 62, 640, 420
    spans = [(min(v), max(v) * 1.0001) for v in zip(*points)]
    low, high = spans[1][0] / 1.3, spans[1][1] * 1.3

    def place(x, y):
        across = log10(x / spans[0][0]) / log10(spans[0][1] / spans[0][0])
        up = log10(y / low) / log10(high / low)
        return left + 20 + across * (width - left - 60), height - 50 - up * (height - 50 - top)
    parts = legend(series, 42)
    for x in sorted({x for x, _ in points}):
        at = place(x, low)[0]
        parts += [line(at, top, at, height - 50, '#eee'), text(at, height - 34, f'{x:g}', 'middle')]
    ticks = [m * 10 ** e for e in range(-3, 6) for m in (1, 2, 5)]
    for y in [t for t in ticks if low <= t <= high]:
        at = place(spans[0][0], y)[1]
        parts += [line(left, at, width - 20, at, '#eee'), text(left - 6, at + 4, f'{y:g}', 'end')]
    for (name, values), color in zip(series.items(), COLORS):
        path_points = ' '.join('{:.1f},{:.1f}'.format(*place(*p)) for p in values)
        parts.append(f'<polyline points="{path_points}" fill="none" stroke="{color}" stroke-width="2"/>')
    parts.append(text((left + width) / 2, height - 14, across, 'middle'))
    write(path, title, width, height, parts)
