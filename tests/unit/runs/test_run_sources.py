"""A run on a task file of one's own can be gone on with and judged anywhere, as long as the file is what it was."""

import json
import shutil

import pytest

import evolvent
import tiny_language
from evolvent import envs
from evolvent.algos import grpo
from evolvent.core.config import from_json
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.language.config import Plan
from evolvent.runs.language.frozen import evaluate_language
from evolvent.runs.sources import pinned
from run_folders import begin, stable

folder = tiny_language.fixture(max_position_embeddings=512)
pytestmark = pytest.mark.usefixtures("one_thread")
SPEC = "graded:my_task.py"
FILE = """
PROMPTS = [{"prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(10)]

def reward(completion, prompt, answer):
    return float(answer in completion)
"""


@pytest.fixture
def began(folder, tmp_path, monkeypatch):
    """A run of one update that was begun in the folder of its task file, given by a relative path."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "my_task.py").write_text(FILE)
    monkeypatch.chdir(tmp_path / "home")
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, answer=3)
    config = grpo.Config(env="graded:my_task.py", model=folder, updates=1, prompts=2, group=2, kl=0.0, plan=plan)
    with begin(tmp_path / "run", "grpo", config) as opened, Live(plain=True) as live:
        grpo.run(config, opened, live)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def settings(path):
    return from_json(grpo.Config, RunFolder.open(path).config)


def judged(path):
    with RunFolder.open(path) as opened, Live(plain=True) as live:
        return evaluate_language(grpo.Config, opened, live)


def test_the_file_and_where_it_was_are_in_the_run_folder(began):
    note = json.loads((began / "run" / "task" / "source.json").read_text())
    assert note["file"] == str(began / "home" / "my_task.py") and note["env"] == "graded:my_task.py"
    assert (began / "run" / "task" / "my_task.py").read_text() == FILE and len(note["sha256"]) == 64


def test_it_is_judged_from_another_folder_and_after_the_file_is_gone(began):
    want = judged(began / "run")
    (began / "home" / "my_task.py").unlink()
    again = judged(began / "run")
    assert again["greedy"] == want["greedy"] and again["env"] == "graded:my_task.py"
    assert sorted(p.name for p in (began / "run" / "task").iterdir() if p.is_file()) == ["my_task.py", "source.json"]


def test_a_run_of_an_earlier_version_holds_out_what_it_held_out(began):
    path, note = began / "run", began / "run" / "task" / "source.json"
    rows = lambda: [task.seed for task in envs.load(pinned(RunFolder.open(path), SPEC)).tasks("heldout", 2, 0)]  # noqa: E731
    assert sorted(rows()) != [4, 9]
    note.write_text(json.dumps({k: v for k, v in json.loads(note.read_text()).items() if k != "held_out"}))
    assert sorted(rows()) == [4, 9]  # every fifth row
    shutil.rmtree(path / "task")  # the first versions kept no copy
    shutil.copy(began / "home" / "my_task.py", began / "elsewhere")
    assert sorted(rows()) == [4, 9]


def test_a_killed_run_goes_on_from_another_folder(began):
    config = settings(began / "run")
    (began / "run" / "summary.json").unlink(missing_ok=True)
    before = stable(began / "run")
    with begin(began / "run", "grpo", config, resume=True) as opened, Live(plain=True) as live:
        grpo.run(config, opened, live, resume=True)
    assert [row for row in stable(began / "run") if "update" in row] == [row for row in before if "update" in row]


def test_a_file_that_has_changed_is_refused_by_name(began):
    (began / "home" / "my_task.py").write_text(FILE.replace("+ 1", "+ 2"))
    with pytest.raises(BadInput, match=r"has changed since the run began\n  got: .*home/my_task.py"):
        judged(began / "run")
    config = settings(began / "run")
    opened = begin(began / "run", "grpo", config, resume=True)
    with opened, Live(plain=True) as live, pytest.raises(BadInput, match="has changed since"):
        grpo.run(config, opened, live, resume=True)


def test_a_copy_that_has_changed_is_refused_too(began):
    (began / "home" / "my_task.py").unlink()
    (began / "run" / "task" / "my_task.py").write_text("PROMPTS = []")
    with pytest.raises(BadInput, match=r"has changed since the run began\n  got: .*run/task/my_task.py"):
        judged(began / "run")
    (began / "run" / "task" / "my_task.py").unlink()
    with pytest.raises(BadInput, match=r"is gone\n  got: .*home/my_task.py"):
        judged(began / "run")


def test_another_file_is_judged_on_as_it_is(began):
    other = began / "elsewhere" / "other.py"
    other.write_text(FILE.replace("+ 1", "+ 2"))
    with RunFolder.open(began / "run") as opened, Live(plain=True) as live:
        evaluated = evaluate_language(grpo.Config, opened, live, env="graded:other.py")
    assert evaluated["env"] == "graded:other.py"
    assert not (began / "run" / "task" / "other.py").exists()


def test_a_world_of_a_package_and_a_run_of_an_earlier_version_have_no_file(began, tmp_path):
    opened = RunFolder(tmp_path / "run")
    assert pinned(opened, "arithmetic:largest") == "arithmetic:largest"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "metrics.jsonl").write_text("")
    spec = f"graded:{began}/home/my_task.py"
    assert pinned(RunFolder(tmp_path / "old"), spec) == f"{spec},by=row" and not (tmp_path / "old" / "task").exists()


@pytest.mark.parametrize("name", ["a=b.py", "with, comma.py", "two words.py", "ünï.py"])
def test_whatever_the_file_is_called(name, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / name).write_text(FILE)
    spec = pinned(RunFolder(tmp_path / "run"), f"graded:variant={tmp_path / name}")
    env = envs.load(spec)
    assert len(env.tasks("train", 3, 0)) == 3 and pinned(RunFolder(tmp_path / "run"), spec) == spec


@pytest.fixture
def searched(folder, tmp_path, monkeypatch):
    """A search of two batches on a task file, as a kill leaves it after the first of them."""
    (tmp_path / "my_task.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    given = {"search": ("greedy",), "tasks": 2, "batch": 1, "unit": "answer", "budget_tokens": 3}
    evolvent.run("search", env=SPEC, model=f"train:{folder}", out="run", quiet=True, **given)
    (tmp_path / "run" / "summary.json").unlink()
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    return tmp_path


def test_a_search_goes_on_as_long_as_its_file_is_what_it_was(searched):
    assert (searched / "run" / "task" / "my_task.py").read_text() == FILE
    (searched / "my_task.py").write_text(FILE.replace("+ 1", "+ 2"))
    with pytest.raises(BadInput, match="has changed since the run began"):
        evolvent.run("search", resume=searched / "run", quiet=True)
    (searched / "my_task.py").unlink()
    assert evolvent.run("search", resume=searched / "run", quiet=True).summary["arms"][0]["n"] == 2


def test_a_search_of_other_tasks_does_not_go_on(searched):
    """One that an earlier version began kept no copy of the file, and may have held out other prompts."""
    shutil.rmtree(searched / "run" / "task")
    (searched / "my_task.py").write_text(FILE.replace("+ 1", "+ 2"))
    before = (searched / "run" / "metrics.jsonl").read_text()
    with pytest.raises(BadInput, match="the tasks of this run are others now"):
        evolvent.run("search", resume=searched / "run", quiet=True)
    assert (searched / "run" / "metrics.jsonl").read_text() == before
