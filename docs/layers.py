#!/usr/bin/env python3
"""Writes docs/layers.svg: the crates and their layers, as crates/irrun/tests/layers.rs holds them.

layers.py      from the root of the repository; `make picture` does it."""
import html
import pathlib
import re

TEST = "crates/irrun/tests/layers.rs"
WIDTH, ROW, GAP, HEAD = 270, 26, 5, 50
INK, PALE, PAPER, BOX, LAYER, LINE = "#1f2933", "#61707f", "#ffffff", "#f3f5f7", "#dde7f0", "#8899a8"
# Crate, what it does, and where it stands: column, and row of its first line.
CRATES = [
    ("cli", "flags, files, reports", 1, 0),
    ("text", "prompt to tokens to text", 2, 0),
    ("runtime", "tensors, passes, plans, sessions", 1, 1),
    ("infer", "types, shapes and small values", 0, 1),
    ("ir", "the file format", 0, 2),
    ("kernels", "arithmetic over slices", 2, 1),
    ("tokenize", "text to tokens and back", 1, 2),
]
USES = [("cli", "runtime"), ("cli", "text"), ("text", "runtime"), ("runtime", "infer"), ("infer", "ir"), ("runtime", "kernels"),
        ("runtime", "tokenize")]


def layers():
    """For each crate its layers, the highest first."""
    text = pathlib.Path(TEST).read_text()
    found = {}
    for const in re.findall(r"const \w+: Layers = Layers \{(.*?)\n\};", text, re.S):
        name = re.search(r'name: "(\w+)"', const).group(1)
        body = re.search(r"layers: &\[(.*?)\],\n\s*unsettled", const, re.S).group(1)
        rows = [re.findall(r'"(\w+)"', row) for row in re.findall(r"&\[([^\]]*)\]", body)]
        found[name] = rows[::-1]
    return found


def text(x, y, words, size, color, weight="normal", anchor="start"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" font-weight="{weight}" '
            f'text-anchor="{anchor}">{html.escape(words)}</text>')


def crate(name, about, rows, x, y, height):
    out = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{height}" rx="8" fill="{BOX}" '
           f'stroke="{LINE}"/>',
           text(x + 12, y + 21, name, 15, INK, "bold"), text(x + 12, y + 39, about, 12, PALE)]
    for i, row in enumerate(rows):
        top = y + HEAD + i * (ROW + GAP)
        out.append(f'<rect x="{x + 12}" y="{top}" width="{WIDTH - 24}" height="{ROW}" rx="4" '
                   f'fill="{LAYER}"/>')
        names = '<tspan fill="' + PALE + '">&#160; · &#160;</tspan>'
        names = names.join(f"<tspan>{name}</tspan>" for name in row)
        out.append(f'<text x="{x + WIDTH // 2}" y="{top + 17}" font-size="13" fill="{INK}" '
                   f'text-anchor="middle">{names}</text>')
    return out


def arrow(a, b):
    """From one box to another: down in a column or to a box below, else sideways at the height of
    the target."""
    (ax, ay, ah), (bx, by, bh) = a, b
    if ax == bx:
        ends = (ax + WIDTH // 2, ay + ah, bx + WIDTH // 2, by - 3)
    elif by > ay + ah:
        ends = (ax + WIDTH // 4, ay + ah, bx + 3 * WIDTH // 4, by - 3)
    else:
        y = min(max(by + 24, ay + 24), ay + ah - 16)
        ends = (ax + (WIDTH if bx > ax else 0), y, bx - 3 if bx > ax else bx + WIDTH + 3, y)
    x1, y1, x2, y2 = ends
    return (f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.5" '
            f'marker-end="url(#tip)"/>')


def main():
    known, margin, apart = layers(), 16, 44
    height = {name: HEAD + max(len(known.get(name, [])), 0) * (ROW + GAP) + 6
              for name, *_ in CRATES}
    boxes, below = {}, {}
    top = margin + max(height[name] for name, *_, row in CRATES if row == 0) + apart
    for name, _, column, row in CRATES:
        x = margin + column * (WIDTH + 60)
        y = margin if row == 0 else top if row == 1 else below[column]
        boxes[name] = (x, y, height[name])
        below[column] = y + height[name] + apart
    width = 2 * margin + 3 * WIDTH + 120
    whole = max(y + h for _, y, h in boxes.values()) + margin
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}" '
        f'height="{whole}" font-family="system-ui, Helvetica, Arial, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>',
        f'<rect width="{width}" height="{whole}" fill="{PAPER}"/>',
    ]
    for name, about, *_ in CRATES:
        x, y, h = boxes[name]
        out += crate(name, about, known.get(name, []), x, y, h)
    out += [arrow(boxes[a], boxes[b]) for a, b in USES]
    out.append(text(margin, margin + 20, "Arrows: uses.", 12, PALE))
    out.append(text(margin, margin + 37, "A layer uses those below it.", 12, PALE))
    pathlib.Path("docs/layers.svg").write_text("\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
