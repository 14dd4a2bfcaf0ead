"""What is printed as the next step can be pasted, and says one thing wherever it stands."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

import evolvent
from evolvent import start
from evolvent.cli import demo, main
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder, check_free
from evolvent.evaluate.index import runs
from evolvent.running import page_of

SOURCE = Path(evolvent.__file__).parent


@pytest.fixture
def spaced(tmp_path, monkeypatch):
    (place := tmp_path / "my runs (it's here)").mkdir()
    monkeypatch.chdir(place)
    return place


def pasted(text, word):
    """The words of a command in a text, as a shell takes them from ``word`` to the end of the line."""
    return shlex.split(text[text.index(word) :].partition("\n")[0])


def test_paths_with_spaces_are_quoted_in_errors(spaced, capsys):
    run = spaced / "a run"
    RunFolder.create(run, algo="x", config={}, env="", seed=0, command="")
    with pytest.raises(BadInput) as caught:
        check_free(run)
    assert pasted(str(caught.value), "--resume") == ["--resume", str(run)]
    with pytest.raises(BadInput) as caught:
        RunFolder.open(run).summary()
    assert pasted(str(caught.value).replace(")", " "), "--resume")[1] == str(run).replace(")", " ")
    (spaced / "empty").mkdir()
    with pytest.raises(BadInput) as caught:
        runs(spaced / "empty", page_of)
    assert pasted(str(caught.value), "evolvent run memlift")[-1] == str(spaced / "empty/first")
    with evolvent.Memory(spaced / "a b.db", embedder="hash") as memory:
        item = memory.remember("a", "b")
    with pytest.raises(SystemExit):
        main(["memory", "explain", "a b.db", "nothing"])
    assert pasted(capsys.readouterr().err, "evolvent memory audit")[:4] == ["evolvent", "memory", "audit", "a b.db"]
    main(["memory", "quarantine", "a b.db", str(item)])
    assert pasted(capsys.readouterr().out, "evolvent memory restore") == [
        "evolvent",
        "memory",
        "restore",
        "a b.db",
        str(item),
    ]


def test_paths_with_spaces_are_quoted_after_the_demo(spaced, capsys):
    demo.demo(out=Path("my demo"), open=False, plain=True)
    out = capsys.readouterr().out
    assert pasted(out, "evolvent memory explain")[3:5] == ["my demo/memory.db", "m1"]
    assert shlex.split(RunFolder.open(Path("my demo")).manifest()["command"])[-1] == "my demo"
    assert start.choices()[1].minutes in out


def test_no_command_is_printed_with_a_bare_path():
    """Every place of a file in an f-string behind a command goes through shlex."""
    commands, found = "run|eval|compare|credit|runs|export|import|memory|check|serve", []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.JoinedStr) else ""
            command = re.search(rf"evolvent ({commands}) .*", text)
            bare = re.search(r"\{[^{}]*\b(store|folder|path|out|at|where)\b[^{}]*\}", command[0]) if command else None
            if bare and "shlex" not in text:
                found.append(f"{path.name}: {text}")
    assert not found


def test_the_main_job_takes_what_was_measured():
    measured = json.loads((SOURCE.parents[1] / "benchmarks/results/main_job.json").read_text())
    minutes = measured["summary"]["seconds"] / 60
    cores = "one core" if measured["command"].startswith("taskset -c 0 ") else "two cores"
    assert start.choices()[1].minutes == f"{minutes:.0f} min on {cores}"
    assert f"| takes | {minutes:.0f} min" in (SOURCE.parents[1] / "docs/start.md").read_text()
