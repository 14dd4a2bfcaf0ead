"""Runs `evolvent …` as a process of its own, with a fake algorithm and a fake benchmark among those it finds."""

import subprocess
import sys
from pathlib import Path

FAKES = Path(__file__).parent
DRIVER = """
import sys, evolvent.algos, evolvent.bench
fakes = sys.argv.pop(1)
evolvent.algos.__path__ = [*evolvent.algos.__path__, fakes + "/fake_algos"]
evolvent.bench.__path__ = [*evolvent.bench.__path__, fakes + "/fake_bench"]
from evolvent.cli import main
main()
"""


def start(*words, cwd, **options):
    command = [sys.executable, "-c", DRIVER, str(FAKES), *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, **pipes, **options)


def evolvent(*words, cwd, code=0, **options):
    process = start(*words, cwd=cwd, **options)
    out, err = process.communicate(timeout=180)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out, err
