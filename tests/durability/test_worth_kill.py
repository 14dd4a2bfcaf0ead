"""A study that is killed again and again ends with the same bytes as one that was left alone."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("worth_worker.py")


def start(out, workers):
    command = [sys.executable, str(WORKER), str(out), str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(out, workers):
    said, error = (process := start(out, workers)).communicate(timeout=300)
    assert process.returncode == 0, error[-2000:]
    return said


@pytest.mark.parametrize("workers", [1, 4])
def test_kill_9_and_resume_give_the_same_bytes(workers, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    said = finished(whole, 1)
    draw, lines = random.Random(workers), parts / "episodes.jsonl"
    target, kills = 0, 0
    while target < 150:  # of 260 runs
        target += draw.randint(30, 120)
        process = start(parts, workers)
        while process.poll() is None and (not lines.exists() or lines.read_bytes().count(b"\n") < target):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 2
    torn = lines.read_bytes()
    lines.write_bytes(torn[:-7])  # as a kill in the middle of a line leaves it
    assert finished(parts, workers) == said
    assert lines.read_bytes() == (whole / "episodes.jsonl").read_bytes()
