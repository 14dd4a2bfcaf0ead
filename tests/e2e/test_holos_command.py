"""A market through the command line: killed half-way with kill -9 it goes on, and nobody is paid twice."""

import json
import signal
import sqlite3
import time
from functools import partial
from pathlib import Path

import command

import holos_house
from run_folders import stable

evolvent = partial(command.evolvent)
HOUSE = Path(holos_house.__file__)
SETTINGS = ("--embedder", "hash", "--questions", 8, "--tasks", 12, "--lease-s", 30, "--failures", "crash")
RUN = ("run", "holos", "--env", f"{HOUSE},wrong=0.3", "--model", HOUSE, *SETTINGS, "--rates", 0, 0.4, "--plain")


def test_killed_it_goes_on_with_the_same_numbers_and_the_money_is_conserved(tmp_path):
    out, _ = evolvent(*RUN, "--out", "whole", cwd=tmp_path)
    assert "market without learning" in out and "best single agent" in out and "(1 - r^k)^n" in out
    child = command.start(*RUN, "--out", "part", cwd=tmp_path)
    log, end = tmp_path / "part" / "metrics.jsonl", time.monotonic() + 300
    while not log.exists() or log.read_text().count("\n") < 8 + 5:
        assert child.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "part" / "summary.json").exists()
    evolvent("run", "holos", "--resume", "part", "--plain", cwd=tmp_path)
    assert stable(tmp_path / "part") == stable(tmp_path / "whole")
    found = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("part", "whole")]
    assert found[0]["cells"] == found[1]["cells"] and found[0]["agents"] == found[1]["agents"]
    for file in (tmp_path / "part" / "accounts").glob("*.db"):
        assert sqlite3.connect(file).execute("SELECT sum(balance) FROM account").fetchone() == (0,)


def test_a_plan_with_a_cycle_is_named_before_anything_is_loaded(tmp_path):
    (tmp_path / "plan.json").write_text('{"a": ["b"], "b": ["a"], "c": ["b"]}')
    _, error = evolvent(*RUN, "--plan", "plan.json", "--out", "no", cwd=tmp_path, code=2)
    assert "a plan has a cycle" in error and ("a needs b needs a" in error or "b needs a needs b" in error)
