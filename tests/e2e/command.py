"""Runs `evolvent …` as a process of its own, with a fake algorithm among those it finds.

``evolvent`` runs in a child of a process that has imported the command line already, or with ``trains`` what trains,
too, once for all tests of a worker: imports cost most of a short command. ``start`` is the command as a user starts it.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

FAKES = Path(__file__).parent
DRIVER = """
import sys, evolvent.algos
fakes = sys.argv.pop(1)
evolvent.algos.__path__ = [*evolvent.algos.__path__, fakes + "/fake_algos"]
from evolvent.cli import main
"""
# one line a command; the child goes on behind the loop and ends as any program does
SERVER = """
import importlib, json, os, pkgutil, evolvent.cli.memory, evolvent.memory.memory, evolvent.evaluate.pages.report
trains = sys.argv.pop(1) == "True"
if trains:
    import peft, transformers.models.llama.modeling_llama
for package in (evolvent.cli, evolvent.cli.memory, *([evolvent.algos] if trains else [])):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, b"%d\\n" % code)
else:
    sys.exit()
for i, (path, how) in enumerate([(os.devnull, os.O_RDONLY), (asked["out"], os.O_WRONLY), (asked["err"], os.O_WRONLY)]):
    os.dup2(os.open(path, how), i)
sys.stdin = open(0, closefd=False)
os.chdir(asked["cwd"])
os.environ.clear()
os.environ.update(asked["env"])
sys.argv[1:] = asked["words"]
main()
"""


def start(*arguments, cwd, **options):
    command = [sys.executable, "-c", DRIVER + "main()", str(FAKES), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, **pipes, **options)


@cache
def _server(trains):
    command = [sys.executable, "-c", DRIVER + SERVER, str(FAKES), str(trains)]
    env = os.environ | ({"OMP_NUM_THREADS": "1"} if trains else {})  # the tensors of tests are small
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def evolvent(*arguments, cwd, code=0, env=None, trains=False):
    server = _server(trains)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        for path in (out, err):
            path.touch()
        asked = {"words": [*map(str, arguments)], "cwd": str(cwd), "env": dict(os.environ if env is None else env)}
        server.stdin.write(json.dumps(asked | {"out": str(out), "err": str(err)}) + "\n")
        server.stdin.flush()
        assert select.select([server.stdout], [], [], 300)[0], f"no end after five minutes\n{err.read_text('utf-8')}"
        ended = int(server.stdout.readline())
        out, err = out.read_text("utf-8"), err.read_text("utf-8")
    assert ended == code, f"exit {ended}\n{out}\n{err}"
    return out, err
