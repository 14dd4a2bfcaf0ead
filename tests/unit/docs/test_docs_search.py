"""The page's example runs and prints what its comments say."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "search.md"


def test_the_example_finds_what_its_comments_say(capsys):
    *_, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.split() == re.findall(r"# (\w+)$", block, flags=re.MULTILINE) == ["ab", "bb"]
