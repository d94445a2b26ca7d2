#!/usr/bin/env python3
"""Writes docs/run.svg: what some commands really print, as a picture of a terminal.

picture.py IRRUN      from the root of the repository; `make picture` does it."""
import html
import pathlib
import subprocess
import sys

MODEL = "models/swin_block/model.xml"
INPUT = "models/swin_block/input_0.npy"
COMMANDS = [
    f"irrun {MODEL} --input {INPUT}",
    f"irrun check {MODEL} --only '*roll*'",
    "irrun test models fixtures",
]
SIZE, LINE, MARGIN = 13, 19, 20
INK, PROMPT, PAPER = "#d8dee9", "#8fbc8b", "#20242c"


def lines(binary):
    for command in COMMANDS:
        yield PROMPT, f"$ {command}"
        run = subprocess.run(command.replace("irrun", binary, 1), shell=True, capture_output=True, text=True)
        for line in run.stdout.rstrip().splitlines():
            yield INK, line
        yield INK, ""


def main():
    text = list(lines(sys.argv[1]))[:-1]
    width = round(max(len(line) for _, line in text) * SIZE * 0.602) + 2 * MARGIN
    height = len(text) * LINE + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * i + SIZE}" fill="{color}" xml:space="preserve">{html.escape(line)}</text>'
        for i, (color, line) in enumerate(text)
    ]
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{SIZE}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )
    pathlib.Path("docs/run.svg").write_text(picture)


if __name__ == "__main__":
    main()
