"""The page's example runs and does what its comments say."""

import re
from pathlib import Path

import numpy as np
import pytest

from evolvent.core.ledger import LEVELS

PAGE = Path(__file__).parents[3] / "docs" / "three-nouns.md"


def test_the_example_runs_and_prints_what_its_comments_say(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    scope: dict = {}
    exec(compile(block, str(PAGE), "exec"), scope)
    ledger = scope["ledger"]
    np.testing.assert_array_equal(ledger.values("step"), [1.0, 1.0, -0.5, -0.5, -0.5, -0.5])
    for level in LEVELS[:4]:
        np.testing.assert_allclose(ledger.per_episode(level), [2.0, -1.0, -1.0])
    assert ledger.total("memory") == pytest.approx(0.0)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "[ 1.   1.  -0.5 -0.5 -0.5 -0.5]",
        "None",
        "0 m1 1.0",
        "0 m2 1.0",
        "1 m2 -1.0",
        "[ 2. -1. -1.]",
        "[ 0.  0. -1.]",
    ]
    for line in printed[:2] + printed[5:]:
        assert f"# {line}" in block


def test_the_page_names_every_level():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{level}` |" in text for level in LEVELS)
