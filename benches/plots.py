"""Plots as SVG, by matplotlib: groups of horizontal bars, and lines. Readable on light and dark pages."""
import matplotlib

matplotlib.use('svg')
import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)

INK, GRID = '#7a7a7a', '#9a9a9a55'
COLORS = ['#d1495b', '#4f8fc0', '#d99a1e', '#2a9d8f', '#8d96a3', '#8a76c2']
plt.rcParams.update({
    'svg.fonttype': 'none', 'svg.hashsalt': 'irrun', 'font.size': 9, 'text.color': INK,
    'axes.edgecolor': GRID, 'axes.labelcolor': INK, 'xtick.color': INK, 'ytick.color': INK,
    'axes.spines.top': False, 'axes.spines.right': False, 'figure.constrained_layout.use': True,
    'axes.prop_cycle': plt.cycler(color=COLORS), 'grid.color': GRID})


def save(figure, path):
    figure.savefig(path, transparent=True, metadata={'Date': None})
    plt.close(figure)


def bars(path, title, rows, unit, bar=None, cut=None, lower=True):
    """`rows` are (label, {series: value}). `bar` is marked, as is 1 where values are ratios; longer
    values end at `cut`."""
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    if not names:
        return
    height = 0.8 / len(names)
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.16 * len(names) * len(rows) + 0.06 * len(rows)))
    most = max(v for _, values in rows for v in values.values())
    limit = min(most, cut or most) * 1.12
    marks = [mark for mark in (1, bar) if mark and (bar or lower)]

    def beside(value):
        """Where the number of a bar begins: behind it, and behind a mark that would cross it."""
        x = min(value, limit * 0.9) + limit * 0.008
        for mark in sorted(marks):
            if x - limit * 0.004 < mark < x + limit * 0.034:
                x = mark + limit * 0.008
        return x

    for i, name in enumerate(names):
        at = [(y + (i - (len(names) - 1) / 2) * height, values[name])
              for y, (_, values) in enumerate(rows) if name in values]
        axes.barh([y for y, _ in at], [min(v, limit) for _, v in at], height * 0.92, label=name)
        for y, v in at:
            axes.text(beside(v), y, f'{v:.2f}', va='center', fontsize=7)
    for mark in marks:
        axes.axvline(mark, color=INK, linestyle='--' if mark == bar else '-', linewidth=0.9, zorder=0)
    axes.set(xlim=(0, limit), yticks=range(len(rows)), yticklabels=[label for label, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis='x')
    better = 'lower is better' if lower else 'higher is better'
    axes.set_xlabel(f'{unit} ({better})' + (f'; dashed: the bar, {bar:g}' if bar else ''))
    axes.set_title(title, loc='left', fontweight='bold')
    axes.legend(loc='upper center', bbox_to_anchor=(0.5, -0.9 / figure.get_figheight()),
                ncols=len(names), frameon=False)
    save(figure, path)


def lines(path, title, across, series):
    """`series` are {name: [(x, y)]}; both axes are logarithmic."""
    figure, axes = plt.subplots(figsize=(6.4, 4))
    for name, points in series.items():
        axes.plot(*zip(*points), marker='o', label=name)
    ticks = sorted({x for points in series.values() for x, _ in points})
    axes.set(xscale='log', yscale='log', xlabel=f'{across} (log)',
             ylabel='milliseconds (log, lower is better)')
    axes.set_xticks(ticks, [f'{x:g}' for x in ticks])
    low, high = axes.get_ylim()
    ticks = [step * 10.0 ** power for power in range(-4, 7) for step in (1, 2, 5)]
    ticks = [y for y in ticks if low <= y <= high]
    axes.set_yticks(ticks, [f'{y:g}' for y in ticks])
    axes.minorticks_off()
    axes.grid()
    axes.set_title(title, loc='left', fontweight='bold')
    axes.legend(frameon=False)
    save(figure, path)
