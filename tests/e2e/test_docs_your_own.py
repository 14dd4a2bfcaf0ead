"""The files of docs/your_own.md run as the page says, and keep their promises."""

import importlib
import re
from pathlib import Path

import pytest
from command import evolvent

from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Task
from evolvent.memory.memory import Memory
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.runs.memory.attempt import Agent, attempt

PAGE = Path(__file__).parents[2] / "docs" / "your_own.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    files = re.findall(r"```python (my_\w+\.py)\n(.*?)```", TEXT, flags=re.DOTALL)
    assert [name for name, _ in files] == ["my_shop.py", "my_env.py", "my_rule.py", "my_system.py", "my_descent.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_shop_is_learned(here):
    assert "keeps its promises" in evolvent("check", "env", "my_shop.py:make", cwd=here)[0]
    arguments = ("--env", "my_shop.py:make", "--model", "my_shop.py:answer", "--embedder", "hash")
    out, _ = evolvent("run", "memlift", *arguments, "--out", "r", cwd=here)
    assert "Better than no memory" in out
    summary = RunFolder.open(here / "r").summary()
    assert (summary["baseline"]["value"], summary["score"]["value"], summary["phases"][0]["n"]) == (0.0, 1.0, 8)


def test_the_prompt_is_the_one_of_the_page(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    shop = importlib.import_module("my_shop")
    (prompt,) = re.findall(r"```text\n(.*?)\n```", TEXT[TEXT.index("returns one:") :], flags=re.DOTALL)[:1]
    assert shop.answer(prompt) == "48" and shop.answer("Q: How many pieces are 4 boxes of tea?\nA:") == "40"
    world, seen = shop.make(), list[str]()
    task = Task("t", "How many pieces are 4 boxes of tea?", kind="tea")
    with Memory(here / "m.db", embedder="hash") as memory:
        memory.remember("How many pieces are 2 boxes of tea?", "24")
        engine = Served(Scripted(lambda prompt: (seen.append(prompt), shop.answer(prompt))[1]), 0.0)
        done = attempt(world, task, Agent(engine), memory, seed=0)
    assert seen == [prompt] and done.success


def test_the_environment_keeps_its_promises_and_is_learned_in(here):
    assert "keeps its promises" in evolvent("check", "env", "my_env.py:make", cwd=here)[0]
    arguments = ("--env", "my_env.py:make,top=20", "--model", "none", "--train", 4, "--heldout", 3, "--passes", 1)
    evolvent("run", "memlift", *arguments, "--out", "r", cwd=here)
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


def test_the_kind_of_run_has_its_page(here):
    evolvent("run", "my_descent.py", "--seeds", 1, 2, "--out", "two", cwd=here)
    out, _ = evolvent("run", "my_descent.py", "--out", "one", cwd=here)
    assert "Better than the first update." in out
    result = (here / "one" / "report.html").read_text("utf-8")
    assert "descent: numbers that fall" in result and "<h2>Loss</h2>" in result
    listed, _ = evolvent("runs", ".", cwd=here)
    assert "one" in listed and "descent: numbers that fall" in (here / "runs.html").read_text("utf-8")
    compared, _ = evolvent("compare", "one", "two", "--html", "c.html", cwd=here)
    assert "arms" not in compared and "my_descent" in compared
    assert "Loss, on what it learned from" in (here / "c.html").read_text("utf-8")
