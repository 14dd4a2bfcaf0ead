"""For the site, which is read without the repository: what lies outside docs/ is named there, not linked."""

import re

_OUTSIDE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)+(?:src|benchmarks|examples|tests|(?:LOG|CHANGELOG|CONTRIBUTING)\.md)[^)]*\)"
)
_NAMED = re.compile(r"^```(\w+) ([\w./-]+)$", re.MULTILINE)
_FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)*results/?\)")


def on_page_markdown(markdown, **_):
    """Links out of docs/, and to the folder of results, as plain text; files of code under their name."""
    named = _NAMED.sub(r'```\1 title="\2"', markdown)
    return _FOLDER.sub(r"\1", _OUTSIDE.sub(r"\1", named))


def on_post_page(output, page, **_):
    """The script by which search works in a page that was opened as a file: ours, not one from the net."""
    return output.replace(
        "https://unpkg.com/iframe-worker/shim", "../" * page.url.count("/") + "assets/iframe-worker.js"
    )
