"""The page's example runs and prints what the page says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"


def test_the_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["attempt 1: 0 memories, reward 0", "attempt 2: 1 memories, reward 1"]
    assert all(f"`{line}`" in PAGE.read_text(encoding="utf-8") for line in printed[:2])
    assert printed[2].startswith("m1 (case, neutral, from reviewer, active)") and printed[-1] == "1.0"
    assert (tmp_path / "agent.db").exists()


def test_every_table_is_on_the_page():
    from evolvent.memory import schema

    text = PAGE.read_text(encoding="utf-8")
    tables = re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", schema.TABLES)
    assert len(tables) >= 14 and all(f"`{t}`" in text or f" {t} " in text for t in tables)
