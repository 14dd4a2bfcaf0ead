"""`evolvent run shapley_flow` as a user runs it: killed, stopped and gone on with, to the same bytes."""

from __future__ import annotations

import shlex
import signal
import time

import pytest
from command import evolvent, start

MODEL = """
import re, time
def answer(prompt):
    time.sleep(0.003)
    a, b = map(int, re.findall(r"(\\d+) \\+ (\\d+)", prompt)[-1])
    return f" {{a + b if (a * b + len(prompt)) % {modulus} else 0}}"
"""
WORDS = shlex.split("shapley_flow --model weak.py --strong strong.py --tasks 5 --fresh 2 --steps 2 --plain")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_study_that_was_stopped_ends_with_the_same_bytes(tmp_path, number):
    for name, modulus in (("weak", 2), ("strong", 5)):
        (tmp_path / f"{name}.py").write_text(MODEL.format(modulus=modulus))
    out, _ = evolvent("run", *WORDS, "--out", "whole", cwd=tmp_path)
    assert "4 parts, 16 configurations, 5 tasks and 2 held apart" in out and "still to come, from 16 runs" in out
    assert "act: earns" in out and "adding up the parts" in out.lower() and "report: whole/report.html" in out
    process, lines = start("run", *WORDS, "--out", "run", cwd=tmp_path), tmp_path / "run" / "episodes.jsonl"
    until = time.monotonic() + 120
    while (
        process.poll() is None
        and time.monotonic() < until
        and (not lines.exists() or lines.read_bytes().count(b"\n") < 20)
    ):
        time.sleep(0.002)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert not (tmp_path / "run" / "summary.json").exists(), f"it was over before it could be stopped\n{out}\n{err}"
    if number == signal.SIGINT:
        assert process.returncode == 130 and "evolvent run shapley_flow --resume run" in err and "report so far" in out
        assert "What each part earns" in (tmp_path / "run" / "report.html").read_text(), "a whole task is reported"
    out, _ = evolvent("run", "shapley_flow", "--resume", "run", "--plain", cwd=tmp_path)
    assert "made before" in out
    assert lines.read_bytes() == (tmp_path / "whole" / "episodes.jsonl").read_bytes()


def test_what_cannot_be_run_says_so(tmp_path):
    for words, said in (
        (("--players", "acts"), "did you mean 'act'"),
        (("--tasks", "0"), "tasks"),
        (("--strong", "smollm2-135m"), "weak and strong are one model"),
        (("--slots", "analyst"), "--env analyst"),
    ):
        assert said in evolvent("run", "shapley_flow", *words, "--out", "x", cwd=tmp_path, code=2)[1]
        assert not (tmp_path / "x").exists()
