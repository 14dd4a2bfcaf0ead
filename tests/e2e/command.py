"""Runs `evolvent …` as a process of its own, with a fake algorithm among those it finds."""

import subprocess
import sys
from pathlib import Path

FAKE = Path(__file__).parent / "fake_algos"
DRIVER = """
import sys, evolvent.algos
evolvent.algos.__path__ = [*evolvent.algos.__path__, sys.argv.pop(1)]
from evolvent.cli import main
main()
"""


def start(*words, cwd, **options):
    command = [sys.executable, "-c", DRIVER, str(FAKE), *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, **pipes, **options)


def evolvent(*words, cwd, code=0):
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out, err
