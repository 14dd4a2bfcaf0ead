"""The base install, without any extra: every command and every algorithm answers, or says which extra to install.

``EVOLVENT_BARE`` may name the Python of an environment that has the base install and nothing else: CI builds the wheel,
installs it there, and runs this file with it. Without it this Python is made to find no extra.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from subprocess import PIPE

import pytest

from evolvent import catalogue
from evolvent.core import errors
from sample_team_run import sample_team_run

BARE = os.environ.get("EVOLVENT_BARE")
PYTHON = BARE or sys.executable
ENVIRONMENT = {name: value for name, value in os.environ.items() if not (BARE and name == "PYTHONPATH")}
ALGOS = [entry.name for entry in catalogue.entries("algos")]
HANGS_S = 3000  # a guard, no limit: beside other work a second of it has taken a minute
GAMES = {"psro", "fsp", "self_play"}
TEAM = {
    "agdc",
    "decision_mamba",
    "doc",
    "dt",
    "madt",
    "infotaxis",
    "jssp",
    "bc",
    "iql",
    "td3_bc",
    "mat",
    "pmat",
    "happo",
    "hatrpo",
    "mappo",
    "ippo",
    "coma",
    "ppo",
    "atla",
    "vdn",
    "qmix",
    "maddpg",
    "hasac",
    "dqn",
    "ddpg",
}
MEMORY = {"icl", "memento", "memlift", "memp", "memq", "memrl", "muse", "no_memory", "rag", "trad"}
# with any model, also one that needs nothing installed
FROZEN = {*MEMORY, "search", "evokernel", "creative_game", "agent_scaling", "holos", "shapley_flow"}
DRIVER = """
import contextlib, io, json, sys, traceback

EXTRAS = {
    "torch", "transformers", "peft", "safetensors", "gguf", "jinja2", "gymnasium", "pettingzoo", "mpe2", "vmas", "ray",
    "lbforaging", "rware", "xllamacpp", "cffi", "tokenizers", "sentence_transformers", "usearch", "psycopg", "openai",
    "matplotlib", "minigrid", "mujoco", "gymnasium_robotics", "jax", "jaxmarl", "mcp", "a2a", "pyspiel", "scipy",
}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
from evolvent.cli import main
for line in sys.stdin:
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(json.loads(line))
        except SystemExit as error:
            code = error.code or 0
        except BaseException:
            code = traceback.format_exc()
    print(json.dumps([code, out.getvalue()]), flush=True)
"""


def answers(requests, cwd):
    """Exit code and output of each command, in one process where nothing but the base install can be imported."""
    given = "".join(json.dumps([str(word) for word in words]) + "\n" for words in requests)
    command = [PYTHON, "-c", DRIVER]
    process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=cwd, env=ENVIRONMENT)
    late = ""
    try:
        out, err = process.communicate(given, timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        (out, err), late = process.communicate(), f"no end within {HANGS_S} s; "
    lines = out.splitlines()
    if late or process.returncode or len(lines) != len(requests):  # which command it was in, for a failure seen once
        here = requests[len(lines)] if len(lines) < len(requests) else "the end"
        pytest.fail(f"{late}code {process.returncode} after {len(lines)} of {len(requests)}, in {here}:\n{err}")
    return [json.loads(line) for line in lines]


def install(extra):
    """The hint as the package gives it there."""
    code = f"from evolvent.core.errors import install; print(install({extra!r}))"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return done.stdout.strip()


def test_every_algorithm_answers_or_names_its_extra(tmp_path):
    requests = [("run", name, *flag) for name in ALGOS for flag in (("--help",), ()) if flag or name not in FROZEN]
    found = dict(zip(requests, answers(requests, tmp_path), strict=True))
    hints = {extra: install(extra) for extra in ("games", "marl", "train")}
    for (_, name, *flag), (code, said) in found.items():
        if flag:  # settings are shown without what the system runs with
            assert code == 0 and "--env" in said and "Random seed" in said, (name, said)
        else:
            missed = "pyspiel" if name in GAMES else "torch"
            assert code == 2 and f"{missed} is not installed" in said, (name, flag, code, said)
            assert hints["games" if name in GAMES else "marl" if name in TEAM else "train"] in said, (name, said)
    assert set(ALGOS) >= TEAM | FROZEN | GAMES and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("demo", "--out", "d"), 0, "12 of 12"),
        (("list",), 0, "mappo"),
        (("compare", "a"), 0, "IQM"),
        (("compare", "--help"), 0, "folders"),
        (("eval", "a"), 2, "[marl]"),
        (("eval", "--help"), 0, "episodes"),
        (("run",), 2, "memlift"),
        (("run", "mat", "--resume", "a"), 2, "[marl]"),
        (("export", "verl", "a", "--out", "x"), 2, "["),
        (("export", "verl", "--help"), 0, "--out"),
        (("memory", "audit", "nowhere"), 2, "no memory"),
        (("memory", "--help"), 0, "audit"),
        (("run", "grpo", "--env", "nowhere"), 2, "unknown environment"),
        (("run", "grpo", "--env", "matrix"), 2, "matrix is a team environment"),
        (("run", "mat", "--env=spread:n=x"), 2, "a value of the wrong type"),
        (("run", "memlift", "--env", "analyst:speed=1"), 2, "unknown option"),
        (("run", "memlift", "--model", "none", "--env", "household"), 2, "[memory]"),
        (("run", "memlift", "--env", "evolvent.demo:make", "--model", "evolvent.demo:answer"), 2, 'embedder "hash"'),
        (("run", "memlift", "--model", "smollm2-135m", "--env", "household", "--embedder", "hash"), 2, "[llama]"),
    ],
)
def test_every_command_answers_or_names_its_extra(tmp_path, words, code, said):
    sample_team_run(tmp_path / "a")
    ((found, out),) = answers([words], tmp_path)
    assert found == code and said in out, f"{found}\n{out}"
    if words[0] == "run":
        assert "==" not in out and {path.name for path in tmp_path.iterdir()} == {"a"}, "no task, and no folder"


def test_the_hint_fits_how_it_was_installed(monkeypatch, tmp_path):
    command = "pip install -c constraints.txt -e '.[train]'"
    assert errors.install("train").startswith("cd ") and errors.install("train").endswith(command)
    assert "constraints" not in errors.install("vllm"), "it pins versions of its own"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "evolvent" / "core" / "errors.py"))
    record = {}
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(record))
    assert errors.install("train") == "pip install 'evolvent[train]'"
    record |= {"url": "file:///tmp/evolvent.whl", "archive_info": {}}
    assert errors.install("train") == "pip install 'evolvent[train] @ file:///tmp/evolvent.whl'"
    record |= {"url": "https://host/evolvent", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert errors.install("train") == "pip install 'evolvent[train] @ git+https://host/evolvent@abc'"


class Installed:
    def __init__(self, given):
        self.given = given

    def read_text(self, name):
        return json.dumps(self.given) if self.given else None
