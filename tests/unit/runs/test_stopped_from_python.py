"""``evolvent.run`` and Ctrl-C: no ``except Exception`` around it, or in a system, takes the stop for a failed run."""

import os
import signal
import sys
from contextlib import suppress

import pytest

import evolvent
from evolvent.core.folder import RunFolder

SYSTEM = """
import os, signal
from dataclasses import dataclass
from evolvent.runs.shell import Shell

@dataclass(frozen=True)
class Config:
    seed: int = 0
    how: str = "first"
    steps: int = 3

def run(config, folder, live, *, resume=False):
    shell = Shell(folder, live, total=config.steps, resume=resume)
    shell.restore(lambda state: state["update"])
    shell.update = len(folder.read_metrics())
    for update in shell.updates():
        try:
            if update == 1 and not os.path.exists("stopped"):
                open("stopped", "w").close()
                os.kill(os.getpid(), signal.SIGTERM if config.how == "sigterm" else signal.SIGINT)
                if config.how == "second":
                    os.kill(os.getpid(), signal.SIGINT)
        except Exception:
            raise AssertionError("taken for a fault") from None
        shell.log(update + 1, {"reward": 1.0}, {})
    score = {"name": "reward", "value": 1.0, "ci95": [0.0, 1.0], "higher_is_better": True}
    return {"algo": "mine", "env": "", "seed": config.seed, "score": score}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(SYSTEM)
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line has it
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("how", ["first", "second", "sigterm"])
@pytest.mark.parametrize("seeds", [(), (4, 5)])
def test_a_sweep_ends_with_ctrl_c_and_the_run_goes_on(mine, how, seeds):
    tried = []
    with pytest.raises(KeyboardInterrupt, match=r"stopped; the run stands in .*\n  do: evolvent run mine.py") as caught:
        for number in range(3):
            with suppress(Exception):
                tried.append(number)
                evolvent.run("mine.py", out=f"run{number}", how=how, seeds=seeds, quiet=True)
    assert tried == [0] and type(caught.value) is KeyboardInterrupt  # Python ends a script by the signal for that alone
    folder = mine / "run0" / (f"seed-{seeds[0]}" if seeds else "")
    assert len(RunFolder.open(folder).read_metrics()) == (1 if how == "second" else 2)
    assert not (folder / "error.txt").exists()
    again = evolvent.run("mine.py", resume="run0", seeds=seeds, quiet=True)
    assert (again[0] if seeds else again).summary["score"]["value"] == 1.0


def test_a_system_that_catches_what_it_can_does_not_catch_the_stop(mine):
    text = SYSTEM.replace("    for update", "    with __import__('contextlib').suppress(Exception):\n      for update")
    (mine / "mine.py").write_text(
        text.replace("        try:", "        if 1:\n         try:").replace(
            "        except Exc", "         except Exc"
        )
    )
    with pytest.raises(KeyboardInterrupt):
        evolvent.run("mine.py", out="run", quiet=True)
    assert not RunFolder.open(mine / "run").finished


def test_a_mistake_is_still_an_exception(mine):
    (mine / "mine.py").write_text(SYSTEM.replace('"reward": 1.0}', '"reward": 1 / 0}'))
    with pytest.raises(Exception, match="ZeroDivisionError"):
        evolvent.run("mine.py", out="run", quiet=True)


def test_a_script_of_calls_is_ended_by_the_signal(mine):
    # a shell that starts things behind itself ignores the signal
    words = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nimport evolvent\ntry:\n"
    words += "    evolvent.run('mine.py', out='r', quiet=True)\nexcept Exception:\n    pass\n"
    (mine / "sweep.py").write_text(words + "open('next', 'w').close()\n")
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "sweep.py"]) == -signal.SIGINT
    assert not (mine / "next").exists() and len(RunFolder.open(mine / "r").read_metrics()) == 2
