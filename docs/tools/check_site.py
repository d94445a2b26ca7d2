"""Checks the links of the built site: each leads to a page, a file or a heading that is there."""

import os
import posixpath
import re
import sys
import urllib.parse

LINK = re.compile(r'<(?:a|img|link|script|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"')
# Pages that repeat others, or whose links start at the address of the site.
SKIPPED = {"print.html", "toc.html", "404.html"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def broken(page):
    for link in LINK.findall(read(page)):
        if re.match(r"[a-z]+:|//", link):
            continue
        path, _, heading = urllib.parse.unquote(link).partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        is_there = os.path.exists(path)
        if is_there and heading and path.endswith(".html"):
            is_there = f'id="{heading}"' in read(path)
        if not is_there:
            yield f"{page}: {link}"


def main():
    root = sys.argv[1]
    pages = [
        posixpath.join(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".html") and name not in SKIPPED
    ]
    found = [line for page in sorted(pages) for line in broken(page)]
    print("\n".join(found + [f"{len(pages)} pages, {len(found)} broken links"]))
    sys.exit(1 if found or not pages else 0)


main()
