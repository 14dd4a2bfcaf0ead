"""Systems, environments and rules from outside the package: a file, an installed package, and calls from Python."""
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false

import json
import os
import subprocess
import sys

import pytest
from command import FAKES, evolvent, start

import evolvent as library
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder

SYSTEM = (FAKES / "fake_algos/fake_algorithm.py").read_text().replace('"fake_algorithm"', '"my_coin"')
ENV = '''
"""Say the word."""
from evolvent.core.protocols import Task, Turn
from evolvent.core.errors import BadInput, EnvError

class Word:
    name, instructions, labels, stop, max_tokens, reward_range = "word", "Say it.", ("Q", "A"), ("\\n",), 4, (0.0, 1.0)

    def __init__(self, words):
        self.words, self.over = words, True

    def tasks(self, split, n, seed):
        if split not in ("train", "heldout"):
            raise BadInput("unknown split", got=split)
        return [Task(f"{split}-{seed}-{i}", f"{split} word {i}?", split=split, seed=seed + i) for i in range(n)]

    def reset(self, task, seed=0):
        self.task, self.over = task, False
        return Turn("Which word?", admissible=tuple(self.words))

    def step(self, action):
        if self.over:
            raise EnvError("over", where="word")
        self.over = True
        right = action == self.words[self.task.seed % len(self.words)]
        return Turn("done", reward=float(right), terminated=True, success=right)

    def review(self, task, seed=0): return None
    def advance(self, pass_number): pass
    def close(self): pass

def make(count: int = 2):
    return Word(["yes", "no", "maybe"][:count])
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "my_coin.py").write_text(SYSTEM)
    (tmp_path / "my_env.py").write_text(ENV)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------------------------------- systems
def test_a_system_in_a_file_runs_and_its_file_stays_with_the_run(here):
    out, _ = evolvent("run", "my_coin.py", "--seed", 3, "--steps", 5, "--out", "r", cwd=here)
    assert "coin 5?" in out and "my_coin on" in out
    manifest, note = RunFolder.open(here / "r").manifest(), json.loads((here / "r/system/source.json").read_text())
    assert manifest["algo"] == "my_coin" and manifest["config"]["steps"] == 5
    assert note["system"] == "my_coin.py" and len(note["sha256"]) == 64
    assert (here / "r/system/my_coin.py").read_text() == SYSTEM
    (here / "my_coin.py").unlink()  # the copy is used
    evolvent("eval", "r", "--episodes", 2, cwd=here)
    assert json.loads((here / "r/eval.json").read_text()) == {"n": 2}
    out, _ = evolvent("compare", "r", cwd=here)
    assert "my_coin" in out


def test_its_flags_are_shown_and_checked(here):
    out, _ = evolvent("run", "my_coin.py", "--help", cwd=here)
    assert "--bias" in out and "Probability of heads" in out and "Coin: a tiny stand-in" in out
    evolvent("run", "my_coin.py", "--stepps", 5, cwd=here, code=2)
    out, err = evolvent("run", "my_coin.py", "--env", "my_envv.py:make", cwd=here, code=2)
    assert "no such file" in err and not (here / "runs").exists()


def test_several_seeds_of_a_file_are_compared(here):
    evolvent("run", "my_coin.py", "--seeds", 1, 2, "--steps", 3, "--out", "many", cwd=here)
    assert (here / "many/seed-1/system/my_coin.py").exists() and (here / "many/compare.html").exists()


def test_a_run_of_a_file_goes_on_with_the_same_file_only(here):
    process = start("run", "my_coin.py", "--steps", 400, "--wait-s", 0.05, "--out", "r", cwd=here)
    while not (here / "r/metrics.jsonl").exists() and process.poll() is None:
        pass
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "evolvent run my_coin.py --resume r" in err
    assert "my_coin" in evolvent("run", "fake_algorithm", "--resume", "r", cwd=here, code=2)[1]
    (here / "my_coin.py").write_text(SYSTEM + "# changed")
    _, err = evolvent("run", "my_coin.py", "--resume", "r", cwd=here, code=2)
    assert "has changed since the run began" in err and "r/system/my_coin.py" in err
    (here / "my_coin.py").write_text(SYSTEM)
    process = start("run", "my_coin.py", "--resume", "r", cwd=here)
    process.terminate() if process.poll() is None else None
    process.communicate(timeout=60)
    assert len(RunFolder.open(here / "r").read_metrics()) >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def run(config, folder, live): ...", "without settings"),
        ("class Config: ...\ndef run(): ...", "without settings"),
        ("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    n: int = 1", "without run()"),
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    n: int\n"
            "def run(config, folder, live): ...",
            "without a default",
        ),
        ("import nowhere_to_be_found", "bad.py, line 1"),
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    n: int = 1\n"
            "def run(config, folder, live, *, resume=False): return 3",
            "must return the summary",
        ),
    ],
)
def test_a_file_that_is_no_system_is_refused(here, text, message):
    (here / "bad.py").write_text(text)
    _, err = evolvent("run", "bad.py", cwd=here, code=2)
    assert message in err and "Traceback" not in err


BROKEN = """from dataclasses import dataclass

@dataclass(frozen=True)
class Config:
    steps: int = 2

def share(of):
    return 1 / of

def run(config, folder, live, *, resume=False):
    for step in range(config.steps):
        folder.log(step + 1, x=share(1 - step))

def evaluate(folder, live, episodes):
    return {}["score"]
"""


@pytest.mark.parametrize("begun", [True, False])
def test_what_a_system_raises_is_reported_in_a_few_lines_with_the_line_of_the_file(here, begun, monkeypatch):
    (here / "bad.py").write_text(BROKEN if begun else BROKEN.replace("1 - step", "step"))
    _, err = evolvent("run", "bad.py", "--out", "r", cwd=here, code=2)
    assert "got: ZeroDivisionError" in err and "bad.py, line 8, in share: return 1 / of" in err
    assert "Traceback" not in err and len(err.splitlines()) <= 6
    assert (here / "r/error.txt").exists() == begun == ("--resume r" in err)
    if begun:
        assert "in run" in (here / "r/error.txt").read_text()
        _, err = evolvent("eval", "r", cwd=here, code=2)
        assert "got: KeyError: 'score'" in err and "line 15, in evaluate" in err and "Traceback" not in err
    monkeypatch.setenv("EVOLVENT_TRACEBACK", "1")
    _, err = evolvent("run", "bad.py", "--out", "again", cwd=here, code=2)
    assert "Traceback" in err and "line 12, in run" in err


# --------------------------------------------------------------------------------------------------- environments
@pytest.mark.parametrize("arguments", [("--out", "r"), ("--help",)])
def test_settings_of_a_file_that_raise_are_reported_in_a_few_lines(here, arguments):
    (here / "bad.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    seed: int = 0\n"
        "    def __post_init__(self):\n        raise ValueError('not today')\n"
        "def run(config, folder, live, *, resume=False):\n    return {}\n"
    )
    _, err = evolvent("run", "bad.py", *arguments, cwd=here, code=2)
    assert "got: ValueError: not today" in err and "bad.py, line 6, in __post_init__" in err
    assert "Traceback" not in err and len(err.splitlines()) <= 6


def test_an_environment_of_a_file_is_run_kept_and_judged_elsewhere(here):
    arguments = ("--env", "my_env.py:make,count=3", "--model", "none", "--train", 4, "--heldout", 3, "--passes", 1)
    evolvent("run", "memlift", *arguments, "--out", "r", cwd=here)
    assert RunFolder.open(here / "r").manifest()["env"] == "my_env.py:make,count=3"
    assert (here / "r/task/my_env.py").read_text() == ENV
    (here / "my_env.py").unlink()
    (here / "other").mkdir()
    evolvent("eval", "../r", "--episodes", 2, cwd=here / "other")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my_env.py:mak", "did you mean 'make'"),
        ("my_env.py:make,cuont=2", "count"),
        ("my_env.py:make,count=many", "wrong type"),
        ("broken.py:make", "broken.py, line 2"),
        ("nowhere.py:make", "no such file"),
        ("wrong.py:make", "int without name, instructions"),
        ("no.such.module:make", "no such module"),
        ("my_env.py:make_solo", "not in the file"),
    ],
)
def test_what_is_wrong_with_an_environment_is_named(here, spec, message):
    (here / "broken.py").write_text("x = 1\n1 / 0")
    (here / "wrong.py").write_text("def make(): return 3")
    _, err = evolvent("run", "memlift", "--env", spec, "--model", "none", cwd=here, code=2)
    assert message in err and "Traceback" not in err
    assert not (here / "runs").exists() or not list((here / "runs").iterdir())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_team_environment_of_a_file_is_run_kept_and_judged_elsewhere(here, workers):
    made = "def make_solo(n: int = 2): return mpe.make_solo('simple_spread', n=n)"
    (here / "my_team.py").write_text(f"from evolvent.envs.team import mpe\n{made}")
    arguments = ("--steps", 48, "--envs", 4, "--horizon", 6, "--eval-episodes", 2, "--threads", 1, "--workers", workers)
    evolvent("run", "ippo", "--env", "my_team.py:make_solo,n=3", *arguments, "--out", "r", cwd=here)
    assert len(RunFolder.open(here / "r").summary()["agents"]) == 3 and (here / "r/task/my_team.py").exists()
    (here / "my_team.py").unlink()
    evolvent("eval", "r", "--episodes", 2, cwd=here)
    said = evolvent("run", "memlift", "--env", "r/task/my_team.py:make_solo", "--model", "none", cwd=here, code=2)[1]
    assert "is a team environment" in said


# --------------------------------------------------------------------------------------------- installed packages
@pytest.fixture
def packages(here):
    """A package with all three, and one whose modules do not load, as pip leaves them in a folder."""
    place = here / "site"
    for name, text in {"good": None, "bad": "import nowhere_to_be_found"}.items():
        (place / f"{name}_things").mkdir(parents=True)
        (place / f"{name}_things/__init__.py").write_text("")
        (place / f"{name}_things/coin.py").write_text(text or SYSTEM)
        (place / f"{name}_things/env.py").write_text(text or ENV)
        rule = "LEVEL = 'step'\ndef assign(episodes): ..."
        (place / f"{name}_things/rule.py").write_text(text or f'"""Nothing for anybody."""\n{rule}')
        info = place / f"{name}_things-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-things\nVersion: 1.0\n")
        groups = {"algos": "coin", "envs": "env", "credit": "rule"}
        rows = [f"[evolvent.{group}]\n{name}_{module} = {name}_things.{module}\n" for group, module in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(rows))
    return place


def test_what_installed_packages_bring_is_listed_and_runs(here, packages):
    before = os.environ.get("PYTHONPATH", "")  # none where the library is installed
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (before, str(packages))))}

    def call(*arguments, code=0):
        arguments = [sys.executable, "-m", "evolvent", *map(str, arguments)]
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=here, env=env, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    for what, name in (("algos", "coin"), ("envs", "env"), ("credit", "rule")):
        said = call("list", what, "--plain")
        assert f"good_{name}" in said and "(from good-things)" in said
        assert f"left out: bad_{name} of bad-things: ModuleNotFoundError: No module named 'nowhere_to_be_found'" in said
    assert "coin 2?" in call("run", "good_coin", "--steps", 2, "--out", "c")
    assert "n" in call("eval", "c")
    small = ("--model", "none", "--train", 3, "--heldout", 2, "--passes", 1)
    call("run", "memlift", "--env", "good_env:count=3", *small, "--out", "e")
    for arguments in (("run", "bad_coin"), ("run", "memlift", "--env", "bad_env", "--model", "none")):
        said = call(*arguments, code=2)
        assert "bad-things" in said and "nowhere_to_be_found" in said and "Traceback" not in said


# ------------------------------------------------------------------------------------------------------ from Python
def test_a_run_from_python_leaves_the_folder_that_the_command_line_leaves(here):
    arguments = ("--steps", 6, "--seed", 4)
    evolvent("run", "my_coin.py", *arguments, "--out", "cli", cwd=here)
    result = library.run("my_coin.py", steps=6, seed=4, out="python", quiet=True)
    assert result.folder.name == "python" and result.summary["score"]["name"] == "heads"
    files = [
        {p.relative_to(here / name) for p in (here / name).rglob("*") if p.is_file()} for name in ("cli", "python")
    ]
    assert files[0] == files[1] and library.run("my_coin.py", resume="python", quiet=True).summary == result.summary
    configs = [RunFolder.open(here / name).config for name in ("cli", "python")]
    assert configs[0] == configs[1]
    both = library.run("my_coin.py", steps=3, seeds=[1, 2], out="many", quiet=True)
    assert [r.folder.name for r in both] == ["seed-1", "seed-2"]
    assert len(library.compare(["cli", "many"], html="c.html", quiet=True)) >= 1 and (here / "c.html").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stepss": 3}, "did you mean 'steps'"),
        ({"steps": "three"}, "wrong type"),
        ({"steps": True}, "wrong type"),
        ({"env": "analist"}, "analyst"),
        ({"seeds": [1, 1]}, "twice"),
        ({"resume": "nowhere"}, "config.json"),
    ],
)
def test_python_is_refused_what_the_command_line_is(here, fields, message):
    with pytest.raises(BadInput, match=message):
        library.run("my_coin.py", quiet=True, **fields)
    assert not (here / "runs").exists()


def test_settings_of_a_plan_are_given_flat(here):
    config = library.core.config.with_fields(library.catalogue.settings_of("grpo")(), eval_every=3, lr=0.5)
    assert (config.plan.eval_every, config.lr) == (3, 0.5)
