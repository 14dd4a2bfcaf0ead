"""The page's example runs and prints what the page says."""

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "memory.md"


def blocks(page=PAGE):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_other_example_prints_what_it_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in [*blocks()[1:], *blocks(DOCS / "memory-embedders.md")]:
        exec(compile(block, str(PAGE), "exec"), {})
        expected = re.findall(r"# prints (.*)", block)
        assert expected and capsys.readouterr().out.splitlines() == expected


def test_the_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block, *_ = blocks()
    exec(compile(block, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["attempt 1: 0 memories, reward 0", "attempt 2: 1 memories, reward 1"]
    assert all(f"`{line}`" in PAGE.read_text(encoding="utf-8") for line in printed[:2])
    assert printed[2].startswith("m1 (case, neutral, from reviewer, active)") and printed[-1] == "1.0"
    assert (tmp_path / "agent.db").exists()


def test_every_table_is_on_the_page_of_the_data_model():
    from evolvent.memory.store import schema

    text = (DOCS / "memory-model.md").read_text(encoding="utf-8")
    described = [name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)]
    assert {table.name for table in schema.layout()} <= set(described)


def raises():
    """What the memory raises: ``(file and line, the codes that stand there)``; a rule's settings are its own."""
    source = DOCS.parent / "src" / "evolvent"
    for path in [path for path in (source / "memory").rglob("*.py") if path.parent.name != "rules"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("BadInput", "StoreError", "ModelError"):
                found = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                yield f"{path.name}:{node.lineno}", [ast.unparse(code) for code in found]


def test_every_error_has_a_code():
    without = [at for at, codes in raises() if not codes]
    assert without == []


def test_every_code_of_an_error_is_in_the_table():
    from evolvent.core.errors import missing_extra
    from evolvent.memory.store.postgres_errors import _STATES

    words = {word for _, codes in raises() for code in codes for word in re.findall(r"'(\w+)'", code)}
    raised = words | {code for code, _, _ in _STATES.values()} | {missing_extra("x", "memory", "x").code}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.read_text(encoding="utf-8").partition("error.code")[2], re.M)
    assert raised == {code for row in rows for code in re.findall(r"`(\w+)`", row)}


def test_every_promise_names_a_test_that_exists():
    text = PAGE.read_text(encoding="utf-8")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert files and all((DOCS.parent / file).is_file() for file in files)
