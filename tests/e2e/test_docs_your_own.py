"""The files of docs/your_own.md run as the page says, and keep their promises."""

import re
from pathlib import Path

import pytest
from command import evolvent

from evolvent.core.folder import RunFolder

PAGE = Path(__file__).parents[2] / "docs" / "your_own.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    files = re.findall(r"```python (my_\w+\.py)\n(.*?)```", TEXT, flags=re.DOTALL)
    assert [name for name, _ in files] == ["my_env.py", "my_rule.py", "my_system.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_environment_keeps_its_promises_and_is_learned_in(here):
    assert "keeps its promises" in evolvent("check", "env", "my_env.py:make", cwd=here)[0]
    words = ("--env", "my_env.py:make,top=20", "--model", "none", "--train", 4, "--heldout", 3, "--passes", 1)
    evolvent("run", "memlift", *words, "--out", "r", cwd=here)
    out, _ = evolvent("credit", "r", "--rule", "my_rule.py:assign,power=2", "step_group_std", cwd=here)
    assert "my_rule.py:assign,power=2" in out


def test_the_rule_keeps_its_promises(here):
    assert "exact gradient" in evolvent("check", "credit", "my_rule.py", cwd=here)[0]


def test_the_system_runs_and_so_does_the_example_in_python(here, capsys):
    evolvent("run", "my_system.py", "--pulls", 50, "--seeds", 1, 2, "--out", "two", cwd=here)
    evolvent("eval", "two/seed-1", "--episodes", 5, cwd=here)
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    assert "runs/mine" in capsys.readouterr().out and len(RunFolder.open("runs/mine").read_metrics()) == 200
