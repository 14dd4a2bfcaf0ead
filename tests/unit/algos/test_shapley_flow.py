"""ShapleyFlow: games whose values are known by hand, who is asked what, and what is worth nothing."""

from __future__ import annotations

import json

import pytest

import evolvent
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Bars, Table
from evolvent.running import page_of

SPEAKER = """
import re
def answer(prompt):
    with open("prompts.txt", "a") as file:
        file.write("{strong} " + prompt + "\\x00")
    strong, cue = {strong}, prompt.rsplit("\\n", 1)[-1]
    if cue.startswith("Plan") or cue.startswith("Thought"):
        return " hint" if strong or "hint again" in prompt else " no idea"
    if cue.startswith("Reflection"):
        return " hint again" if strong else " no idea"
    a, b = map(int, re.findall(r"(\\d) \\+ (\\d)", prompt)[-1])
    return f" {{a + b if {right} else 99}}"
"""
TABLES = '''
import hashlib
from evolvent.core.protocols import Correction, Task, Turn

class Env:
    """The price of a thing, by a query; one without a table fails."""
    name, instructions, labels = "prices", "Short.\\n", ("Q", "SQL")
    stop, max_tokens, reward_range = (";",), 20, (0.0, 1.0)
    def schema(self):
        return "CREATE TABLE prices;\\n"
    def tasks(self, split, n, seed):
        return [Task(f"{split}{i}", f"price of {split} {i}?", split=split) for i in range(n)]
    def reset(self, task, seed=0):
        self.task = task
        return Turn(task.text)
    def step(self, action):
        error, right = "" if "FROM" in action else "no table", "gold FROM" in action
        said = "Right." if right else error or "Not right."
        return Turn(said, reward=float(right), terminated=True, success=right, info={"error": error})
    def review(self, task, seed):
        return Correction(f"SELECT gold FROM {task.id}")
    def advance(self, pass_number): pass
    def close(self): pass

def make():
    return Env()
'''


def study(folder, monkeypatch, out="run", right="strong and 'hint' in prompt", **settings):
    """Strong ones give hints, weak ones have no idea; who acts is right where ``right`` says so."""
    for name in ("weak", "strong"):
        (folder / f"{name}.py").write_text(SPEAKER.format(strong=name == "strong", right=right))
    monkeypatch.chdir(folder)
    given = {
        "env": "arithmetic:addition",
        "model": "weak.py",
        "strong": "strong.py",
        "steps": 1,
        "tasks": 6,
        "fresh": 3,
    }
    return evolvent.run("shapley_flow", out=folder / out, quiet=True, **{**given, **settings})


def values(found, way=None):
    parts = found.summary["parts"]
    return {name: (one[way] if way else one)["value"] for name, one in parts.items()}


def prompts(folder):
    return (folder / "prompts.txt").read_text().split("\0")[:-1]


# ------------------------------------------------------------------------------------------------ the workflow
def test_the_glove_game_played_by_the_workflow(tmp_path, monkeypatch):
    """Who acts needs a hint, from the plan or from a thought: by hand (1/6, 1/6, 2/3), Banzhaf (1/4, 1/4, 3/4)."""
    found = study(tmp_path, monkeypatch)
    hand = {"plan": 1 / 6, "reason": 1 / 6, "act": 2 / 3, "reflect": 0}
    assert values(found) == pytest.approx(hand)
    assert values(found, "banzhaf") == pytest.approx({"plan": 0.25, "reason": 0.25, "act": 0.75, "reflect": 0})
    assert values(found, "leave_one_out") == {"plan": 0, "reason": 0, "act": 1, "reflect": 0}
    reflect = found.summary["parts"]["reflect"]
    assert reflect["ci95"] == [0, 0] and "no run asks for it" in reflect["verdict"], "one step, nothing to reflect on"
    assert found.summary["score"]["value"] == 1 and len(found.summary["best"]) == 2, "verified at fresh tasks"
    measured = {tuple(one["strong"]): one for one in found.summary["configurations"]}
    assert len(measured) == 16 and measured["act",]["value"] == 0 and measured["plan", "act"]["value"] == 1
    beyond = {strong: one["beyond"].get("value") for strong, one in measured.items()}
    assert beyond["act",] == pytest.approx(-2 / 3) and beyond["plan", "act"] == pytest.approx(1 / 6)
    assert beyond[()] is None and beyond["plan", "reason", "act", "reflect"] is None
    assert any("adding up the parts foretells" in line for line in found.summary["words"])
    page = page_of(RunFolder.open(found.folder))
    ways, together, configurations = page.of(Table)
    assert page.of(Bars) and page.score.value == 1 and "weak.py against strong.py" in page.facts
    assert together.title == "Together" and {"if parts add", "beyond that"} <= {*configurations.columns}
    assert len(ways.rows) == 4 and "<svg" in (found.folder / "report.html").read_text()


def test_the_published_loop_mends_what_an_oracle_says_is_wrong(tmp_path, monkeypatch):
    """A strong reflection gives a hint, too, after a wrong answer: by hand (1/12, 1/12, 3/4, 1/12)."""
    found = study(tmp_path, monkeypatch, steps=2)
    assert values(found) == pytest.approx({"plan": 1 / 12, "reason": 1 / 12, "act": 3 / 4, "reflect": 1 / 12})
    asked = prompts(tmp_path)
    assert len(asked) == len(set(asked)), "nobody is asked the same twice"
    assert any("This is wrong." in prompt for prompt in asked) and not any("it is" in prompt for prompt in asked)
    acts = [prompt for prompt in asked if prompt.endswith("Result:")]
    assert acts and not any("Reflection" in prompt for prompt in acts), "who acts reads the thought, as published"
    found = study(tmp_path, monkeypatch, "off", steps=2, oracle_stop=False)
    assert values(found)["act"] == pytest.approx(2 / 3)
    assert found.summary["parts"]["reflect"]["ci95"] == [0, 0], "nobody says that it is wrong"


def test_a_study_goes_on_with_the_same_bytes_and_reports_what_it_has(tmp_path, monkeypatch):
    whole, part = study(tmp_path, monkeypatch), study(tmp_path, monkeypatch, "part")
    lines = (whole.folder / "episodes.jsonl").read_bytes()
    for name in ("episodes.jsonl", "metrics.jsonl"):
        kept = (part.folder / name).read_text().splitlines(keepends=True)[: 40 + (name[0] == "e")]
        (part.folder / name).write_text("".join(kept) + '{"torn": ')
    (part.folder / "summary.json").unlink()
    page = page_of(RunFolder.open(part.folder))
    assert page.score is None and "2 tasks" in page.facts and page.of(Bars), "two tasks are whole"
    again = evolvent.run("shapley_flow", resume=part.folder, quiet=True)
    assert (part.folder / "episodes.jsonl").read_bytes() == lines and values(again) == values(whole)
    text = (part.folder / "episodes.jsonl").read_text().splitlines(keepends=True)
    (part.folder / "episodes.jsonl").write_text("".join(text[: 6 * 16 + 4]))
    (part.folder / "summary.json").unlink()
    page = page_of(RunFolder.open(part.folder))
    assert page.score.n == 1 and "1 held apart" in page.facts, "of two fresh tasks that were begun one is whole"
    first = json.loads(lines.splitlines()[0])
    assert "+" in first["nodes"][0]["text"] and json.loads(first["nodes"][-1]["text"])["said"][0] == "no idea"


# ------------------------------------------------------------------------------------------------ what costs nothing
def test_placebo_comments_are_worth_nothing(tmp_path, monkeypatch):
    """Who answers is right by chance, drawn by the whole prompt; of 20 comments at least 17 intervals hold 0."""
    (tmp_path / "noisy.py").write_text(
        "import re, zlib\n"
        "def answer(prompt):\n"
        "    a, b = map(int, re.findall(r'(\\d) \\+ (\\d)', prompt)[-1])\n"
        "    return f' {a + b if zlib.crc32(prompt.encode()) % 100 < 60 else 99}'\n"
    )
    covered, differ = 0, 0
    for comment in range(1, 21):
        settings = {"model": "noisy.py", "players": ("placebo",), "comment": comment, "tasks": 24, "fresh": 0}
        found = study(tmp_path, monkeypatch, f"run{comment}", **settings)
        one = found.summary["parts"]["placebo"]
        covered += one["ci95"][0] <= 0 <= one["ci95"][1]
        differ += one["value"] != 0
    assert covered >= 17 and differ >= 10, "the comments do reach the prompt"


# ------------------------------------------------------------------------------------------------ the analyst's slots
def test_the_slots_of_the_analyst(tmp_path, monkeypatch):
    """Right with model and memory, and a table's name: from the schema, or after an error. By hand 5/12 and 1/12."""
    (tmp_path / "tables.py").write_text(TABLES)
    for name in ("small", "large"):
        (tmp_path / f"{name}.py").write_text(
            "def answer(prompt):\n"
            "    with open('asked.txt', 'a') as file:\n"
            "        file.write(prompt + '\\x00')\n"
            "    named = ' FROM prices' * ('CREATE' in prompt or 'no table' in prompt)\n"
            f"    return ' SELECT ' + ('gold' if 'gold' in prompt and {name == 'large'} else 'x') + named"
        )
    settings = {"slots": "analyst", "env": "tables.py:make", "model": "small.py", "strong": "large.py"}
    found = study(tmp_path, monkeypatch, embedder="hash", lessons=2, **settings)
    assert values(found) == pytest.approx({"model": 5 / 12, "memory": 5 / 12, "schema": 1 / 12, "repair": 1 / 12})
    assert found.summary["interactions"][2][3] < 0 < found.summary["interactions"][0][1]
    asked = (tmp_path / "asked.txt").read_text().split("\0")[:-1]
    assert any(prompt.count("SELECT gold") == 2 for prompt in asked), "two lessons"
    assert any("no table\nSQL:" in prompt for prompt in asked), "the error is shown"
    calls = {name: one["takes"]["calls"]["value"] for name, one in found.summary["parts"].items()}
    assert calls == pytest.approx({"model": 0, "memory": 0, "schema": -0.5, "repair": 0.5}), "only after a failure"


def test_a_slot_that_no_run_gets_to_is_worth_exactly_nothing(tmp_path, monkeypatch):
    (tmp_path / "tables.py").write_text(TABLES)
    (tmp_path / "sure.py").write_text("import zlib\ndef answer(prompt):\n    return ' SELECT x FROM prices'\n")
    settings = {"slots": "analyst", "env": "tables.py:make", "model": "sure.py", "players": ("schema", "repair")}
    found = study(tmp_path, monkeypatch, **settings)
    assert found.summary["parts"]["repair"]["ci95"] == [0, 0] and values(found)["repair"] == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"players": ("plan", "wisdom")}, "no such slot"),
        ({"players": ("memory",)}, "no such slot"),
        ({"players": ("plan", "plan")}, "a slot is named twice"),
        ({"strong": "weak.py"}, "weak and strong are one model"),
        ({"slots": "analyst"}, "no schema to show at length"),
        ({"slots": "analyst", "env": "analyst:reviewer_answers=0.0"}, "nobody corrects"),
        ({"tasks": 0}, "out of bounds"),
        ({"fresh": -1}, "out of bounds"),
        ({"steps": 0}, "out of bounds"),
        ({"model": "none"}, "nobody answers"),
        ({"strong": "no-such-model"}, "no such model"),
        ({"env": "spread"}, "spread"),
    ],
)
def test_settings_that_cannot_be(tmp_path, monkeypatch, settings, said):
    with pytest.raises(BadInput, match=said):
        study(tmp_path, monkeypatch, **settings)
    assert not (tmp_path / "run").exists(), "no folder is left"
