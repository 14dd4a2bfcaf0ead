"""The page's example runs and prints what its comments say; its tables name what there is."""

import re
from pathlib import Path

from evolvent.runs.search.config import SEARCHES

PAGE = Path(__file__).parents[3] / "docs" / "search.md"


def test_the_example_finds_what_its_comments_say(capsys):
    *_, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.split() == re.findall(r"# (\w+)$", block, flags=re.MULTILINE) == ["ab", "bb"]


def test_the_page_names_every_search():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in SEARCHES.keys() - {"greedy"})
