"""A preprocessor of mdBook: mends links that work on a code host but not in the site.

The pages are read on a code host as well, where links to sources are relative; the site has no
such files.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def in_site(link, page, repository):
    """Where a link leads from the site: to the repository if the file lies outside docs/.

    mdBook writes each README.md as index.html, yet not all links to it.
    """
    if ":" in link:
        return link
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if not path.startswith("docs/"):
        return f"{repository}/blob/main/{path}"
    return re.sub(r"(^|/)README\.md$", r"\1index.md", link)


def rewrite(items, repository):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if not chapter or not chapter["path"]:
            continue
        page = chapter["source_path"] or chapter["path"]
        chapter["content"] = LINK.sub(
            lambda m: f"]({in_site(m[1], page, repository)}{m[2] or ''})", chapter["content"]
        )
        rewrite(chapter["sub_items"], repository)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    rewrite(book.get("items", book.get("sections", [])), repository)
    json.dump(book, sys.stdout)


main()
