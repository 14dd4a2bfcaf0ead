"""``python -m benchmarks.speed``: it finds its benchmarks, prints and writes what they say, and refuses clearly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import speed
from speed.__main__ import main

FAKES = {
    "fake": "def run(seed=0):\n"
    "    return {'name': 'fake', 'ratios': {'speed': 2.5 + seed}, 'checks': {'speed': seed != 1}}\n",
    "needs": "raise ModuleNotFoundError('no torch', name='torch')\n",
}


@pytest.fixture(autouse=True)
def fakes(tmp_path, monkeypatch):
    for name, text in FAKES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"speed.{name}", raising=False)
    speed.__path__.append(str(tmp_path))
    yield
    speed.__path__.remove(str(tmp_path))


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--plain"])
    assert end.value.code == 2
    return capsys.readouterr()


def test_it_prints_writes_and_fails_when_a_check_does(tmp_path, capsys):
    main(["fake", "--json", str(tmp_path / "b.json"), "--plain"])
    content = json.loads((tmp_path / "b.json").read_text())
    assert "2.5" in capsys.readouterr().out and content["result"]["ratios"] == {"speed": 2.5}
    assert {"machine", "versions", "commit"} <= set(content)
    assert content["command"] == "python -m benchmarks.speed fake --seed 0"
    printed = refused(capsys, "fake", "--seed", "1", "--json", str(tmp_path / "c.json"))
    assert "budget is not kept" in printed.err and (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ledgr",), "did you mean 'ledger'?"),
        (("fake", "--sizes", "10"), "has no sizes"),
        (("fake", "--device", "cuda"), "has no networks"),
        (("needs",), "[train]"),
        (("fake", "--speed", "1"), "--speed"),
    ],
)
def test_what_cannot_be_measured_is_refused(capsys, arguments, said):
    assert said in refused(capsys, *arguments).err


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    for path in (tmp_path / "no" / "x.json", tmp_path):
        printed = refused(capsys, "fake", "--json", str(path))
        assert "--json" in printed.err and str(path) in printed.err and not printed.out


def test_from_the_root_of_the_repository_it_lists_what_there_is():
    command = [sys.executable, "-m", "benchmarks.speed", "nothing"]
    done = subprocess.run(command, cwd=Path(speed.__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 2 and "known: language, ledger, marl, memory, recall, sandbox, search" in done.stderr


def test_a_page_shows_the_command_of_an_older_file_with_the_one_of_today():
    command = speed.command_of({"command": "evolvent bench marl --seed 0"})
    assert command == "`evolvent bench marl --seed 0` (now `python -m benchmarks.speed marl --seed 0`)"
    assert speed.command_of({"command": "python -m benchmarks.speed marl"}) == "`python -m benchmarks.speed marl`"
