"""The lifelong stream on a small closed world: what is learned, what is credited, and that a stopped run goes on."""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from evolvent import models
from evolvent.algos import memlift
from evolvent.core.errors import BadInput
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.protocols import Completion, Correction, Task, Turn
from evolvent.evaluate.live import Live
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.receipts import forget
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.experience import Use, render
from evolvent.runs.memory.attempt import Agent, attempt
from evolvent.runs.memory.lifelong import Stream, note, run_stream, show
from evolvent.runs.memory.run import Plan, judged
from run_folders import begin, stable

CODES = {"alpha": "A1", "bravo": "B2", "charlie": "C3", "delta": "D4", "echo": "E5", "foxtrot": "F6"}


class CodeBook:
    """Every word has a code that nobody can guess; a reviewer tells it after a failure."""

    name, instructions, labels, stop, max_tokens = "codebook", "Codes.\n", ("Q", "A"), ("\n",), 8
    reward_range = (0.0, 1.0)

    def __init__(self, admissible: bool = False) -> None:
        self.admissible = admissible
        self.passes: list[int] = []

    def tasks(self, split, n, seed):
        words = list(CODES)[:n]
        ask = "What is the code of {}?" if split == "train" else "Tell me the code of {}."
        return [Task(f"{split}-{w}", ask.format(w), kind=w, split=split) for w in words]

    def reset(self, task, seed=0):
        self.task = task
        return Turn(task.text, admissible=tuple(sorted(CODES.values())) if self.admissible else None, key=task.text)

    def step(self, action):
        right = action == CODES[self.task.kind]
        return Turn("done", reward=float(right), terminated=True, success=right, key=self.task.text)

    def review(self, task, seed):
        return Correction(CODES[task.kind])

    def advance(self, pass_number):
        self.passes.append(pass_number)

    def close(self):
        pass


class Copier:
    """A model that answers with the example whose question shares the code word; without one it guesses wrong."""

    name = "copier"

    def __init__(self):
        self.prompts = []

    def generate(self, prompt, **settings):
        self.prompts.append(prompt)
        *examples, question = prompt.split("Q: ")
        word = next(w for w in CODES if w in question)
        found = [e.split("A: ")[1].strip() for e in examples if "A: " in e and word in e]
        text = found[-1] if found else "?"
        ids = np.arange(len(text), dtype=np.int32)
        return Completion(text, ids, np.zeros(len(text), np.float32), prompt_tokens=len(prompt))

    def score(self, prompt, continuations):
        return np.zeros(len(continuations))

    def close(self):
        pass


def agent_of(model, **use):
    return Agent(Served(model), use=Use(**use))


def start(path, policy="memlift", **more):
    folder = RunFolder.create(path, algo="test", config={}, env="codebook", seed=0, command="test")
    return folder, store(folder, policy, **more)


def store(folder, policy="memlift", **more):
    return Memory(folder.path / "memory.db", policy=preset(policy, **more), embedder="hash:128", sync="normal")


STREAM = Stream(algo="test", passes=2, train=6, heldout=4)


def test_tokens_of_a_model_that_only_counts_them_are_counted(tmp_path):
    class Counts(Copier):
        def generate(self, prompt, **settings):
            return Completion("?", np.zeros(0, np.int32), np.zeros(0, np.float32), prompt_tokens=3, sampled=5)

    folder, memory = start(tmp_path / "run")
    with closing(folder), memory, Live(plain=True) as live:
        run_stream(
            Stream(algo="test", passes=1, train=2, heldout=0), CodeBook(), agent_of(Counts()), memory, folder, live
        )
        assert {(row["tokens"], row["prompt_tokens"]) for row in folder.read_metrics()} == {(5, 3)}


class Third(Copier):
    """Right the third time that it is asked the same."""

    def generate(self, prompt, **settings):
        self.prompts.append(prompt)
        word = next(w for w in CODES if w in prompt)
        text = CODES[word] if self.prompts.count(prompt) % 3 == 0 else "?"
        return Completion(text, np.zeros(1, np.int32), np.zeros(1, np.float32), prompt_tokens=1)


@pytest.mark.parametrize(("attempts", "rate"), [(3, 1.0), (1, 0.0)])
def test_success_of_any_attempt_counts_at_held_out_tasks_too(tmp_path, attempts, rate):
    folder, memory = start(tmp_path / "run", "none")
    stream = Stream(algo="test", passes=1, train=2, heldout=2, control=False, attempts=attempts)
    env, agent = CodeBook(), agent_of(Third(), how="none")
    with closing(folder), memory, Live(plain=True) as live:
        summary = run_stream(stream, env, agent, memory, folder, live)
        assert {p["phase"]: p["rate"] for p in summary["phases"]} == {"before": rate, "after": rate}
        assert {row["attempts"] for row in folder.read_metrics()} == {attempts}
        agent = agent_of(Third(), how="none")
        assert judged(env, agent, memory, env.tasks("heldout", 2, 0), 0, live, attempts)["rate"] == rate


_LEARNS = {"weight": 0.3, "q_init": "middle"}
_POLICIES = {"rag": {}, "icl": {}, "memp": {}, "memrl": _LEARNS, "memq": _LEARNS, "memlift": {}}


@pytest.mark.parametrize("policy", _POLICIES)
def test_corrections_teach_what_no_model_can_know(tmp_path, policy):
    folder, memory = start(tmp_path / "run", policy, gate=-1.0, epsilon=0.0, margin=2.0, **_POLICIES[policy])
    with closing(folder), memory, Live(plain=True) as live:
        summary = run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, folder, live)
        rates = {p["phase"]: p["rate"] for p in summary["phases"]}
        assert rates["before"] == 0.0 and rates["control"] == 0.0
        assert rates["after"] == 1.0
        assert [p["rate"] for p in summary["passes"]] == [0.0, 1.0]
        assert summary["first_encounter"]["rate"] == 0.0
        assert summary["paired"] == {"n": 4, "gained": 4, "lost": 0, "mcnemar_p": 0.125}
        assert len(memory.items()) == 6  # an answer that a shown memory holds already is not kept twice
        assert len(list(folder.read_episodes())) == summary["steps"] == 4 + 12 + 4 + 6


@pytest.mark.parametrize(("order", "last"), [("newest", "delta"), ("relevance", "alpha")])
def test_every_lesson_stands_in_the_prompt_as_far_as_it_has_room(tmp_path, order, last):
    folder, memory = start(tmp_path / "run", "icl", order=order)
    with closing(folder), memory:
        for word in ("alpha", "bravo", "charlie", "delta"):
            memory.remember(f"What is the code of {word}?", word.upper())
        task = replace(CodeBook().tasks("train", 1, 0)[0], text="What is the code of alpha?")
        recall = memory.recall(task.text)
        text, shown = render(CodeBook(), recall.items, 10_000)
        assert len(shown) == 4 and text.rstrip().endswith(last.upper())
        few, kept = render(CodeBook(), recall.items, len(text) // 2)
        assert 0 < len(kept) < 4 and few.rstrip().endswith(last.upper()) and kept[0] == shown[0]


def test_an_attempt_that_the_world_did_not_judge_is_not_called_wrong(tmp_path):
    class Unsure(CodeBook):
        def step(self, action):
            return replace(super().step(action), valid=False)

    lines, task = io.StringIO(), CodeBook().tasks("train", 1, 0)[0]
    agent = Agent(Served(Scripted({"*": "Z9"})))
    with closing(Memory(tmp_path / "m.db", embedder="hash")) as memory:
        done = attempt(Unsure(), task, agent, memory, seed=0)
    show(Live(plain=True, stream=lines), 1, 1, task, done)
    assert "broke" in lines.getvalue() and "did not judge it" in lines.getvalue() and "wrong" not in lines.getvalue()


def test_evaluation_changes_nothing(tmp_path):
    folder, memory = start(tmp_path / "run")
    with closing(folder), memory:
        env, agent = CodeBook(), agent_of(Copier())
        for task in env.tasks("train", 6, 0):
            attempt(env, task, agent, memory, seed=1).learn()
        before = [(i.id, i.value, i.n, i.n_omitted) for i in memory.items()]
        for task in env.tasks("heldout", 6, 0):
            done = attempt(env, task, agent, memory, seed=2, learn=False)
            done.learn()
            assert done.omitted == () and done.lesson == ""
        assert [(i.id, i.value, i.n, i.n_omitted) for i in memory.items()] == before


def test_only_what_fits_the_budget_is_shown_and_credited(tmp_path):
    folder, memory = start(tmp_path / "run", "memrl", gate=-1.0, k=3)
    with closing(folder), memory:
        for word in ("alpha", "bravo"):
            memory.remember(f"What is the code of {word}?", CODES[word])
        long = memory.remember("What is the code of alpha and of all others?", "x" * 500)
        env, task = CodeBook(), CodeBook().tasks("train", 1, 0)[0]
        done = attempt(env, task, agent_of(Copier(), budget_chars=200), memory, seed=0)
        done.learn()
        assert long not in [m.id for m in done.shown] and len(done.shown) == 2
        assert memory.get(long).n == 0
        assert all(memory.get(m.id).n == 1 for m in done.shown)
        uses = {u.id: u.shown for u in done.episode.memory_uses}
        assert sum(uses.values()) == 2
        none = attempt(env, task, agent_of(Copier(), budget_chars=20), memory, seed=0)
        assert note(none).startswith("3 recalled, none shown")


@pytest.mark.parametrize("stop_after", [1, 7, 13, 18, 23])
def test_a_stopped_run_resumes_with_the_same_numbers(tmp_path, stop_after):
    whole, memory = start(tmp_path / "whole")
    with closing(whole), memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, whole, live)
        expected = stable(whole.path), [(i.key, i.body, i.value, i.n) for i in memory.items()]

    class Stopping(Copier):
        def generate(self, prompt, **settings):
            if len(self.prompts) + 1 == stop_after:
                folder.interrupt.requested = True
            return super().generate(prompt, **settings)

    folder, memory = start(tmp_path / "stopped")
    with closing(folder), memory, Live(plain=True) as live, pytest.raises(Interrupted):
        run_stream(STREAM, CodeBook(), agent_of(Stopping()), memory, folder, live)
    assert len(stable(folder.path)) == stop_after
    # a task that was cut off in the middle: its lines may be there, its transaction is not
    with (folder.path / "metrics.jsonl").open("a") as f:
        f.write(json.dumps({"t": 0, "step": stop_after + 1, "phase": "stream", "pass": 1, "success": 0}) + "\n")
    folder = RunFolder.open(tmp_path / "stopped")
    with closing(folder), store(folder) as memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, folder, live, resume=True)
        assert (stable(folder.path), [(i.key, i.body, i.value, i.n) for i in memory.items()]) == expected


class Cut(BaseException):
    """The process is gone, wherever it was."""


@pytest.mark.parametrize("at", [5, 12, 17])
@pytest.mark.parametrize("where", ["model", "learning", "log"])
def test_a_run_that_dies_in_a_task_resumes_with_the_same_numbers(tmp_path, at, where, monkeypatch):
    """While the model thinks, in the middle of what is learned, before the line of the log: nothing counts twice."""
    calls = []

    def counted(function):
        def call(*args, **kwargs):
            if len(calls) == at - 1:
                calls.append(at)
                raise Cut
            calls.append(at)
            return function(*args, **kwargs)

        return call

    whole, memory = start(tmp_path / "whole")
    with closing(whole), memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, whole, live)
        expected = stable(whole.path), state_of(whole, memory)

    model = Copier()
    folder, memory = start(tmp_path / "cut")
    with closing(folder), memory, Live(plain=True) as live, monkeypatch.context() as during, pytest.raises(Cut):
        target = {"model": (model, "generate"), "learning": (memory, "remember"), "log": (folder, "log")}[where]
        during.setattr(*target, counted(getattr(*target)))
        at = min(at, 6) if where == "learning" else at  # of six corrections
        run_stream(STREAM, CodeBook(), agent_of(model), memory, folder, live)
    folder = RunFolder.open(tmp_path / "cut")
    with closing(folder), store(folder) as memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, folder, live, resume=True)
        assert (stable(folder.path), state_of(folder, memory)) == expected


def state_of(folder, memory):
    """What a run has learned, and what it tells of it."""
    summary = json.loads((folder.path / "summary.json").read_text())
    receipts = [memory.explain(f"r{n + 1}").to_dict()["pool"] for n in range(memory.health()["recalls"])]
    return {**summary, "seconds": 0}, receipts, [replace(item, created_at=0.0) for item in memory.items()]


def test_the_memory_is_free_while_the_model_thinks(tmp_path):
    """No transaction is open across a model call: another process reads and writes meanwhile."""
    folder, memory = start(tmp_path / "run")

    class Watching(Copier):
        def generate(self, prompt, **settings):
            assert not memory.bank.store.writing()
            with store(folder) as other, other.transaction():
                other.meta_set("seen", len(self.prompts))
            return super().generate(prompt, **settings)

    lessons = ("corrections", "procedures")
    with closing(folder), memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Watching(), lessons=lessons), memory, folder, live)
        assert memory.meta_get("seen") > 20


def test_receipts_that_something_came_of_are_not_taken_back(tmp_path):
    folder, memory = start(tmp_path / "run")
    with closing(folder), memory:
        first, second = memory.recall("one"), memory.recall("two")
        memory.settle(second, 1.0)
        with pytest.raises(BadInput, match="learned more"):
            forget(memory.bank, 1)
        memory.settle(memory.recall("three"), 1.0)
        memory.recall("four")
        forget(memory.bank, 3)
        assert memory.health()["recalls"] == 3 and memory.recall("five").id == "r4"
        assert first.id == "r1" and memory.rebuild_values() == 0


def test_a_run_with_other_tasks_than_now_is_not_resumed_by_its_numbers(tmp_path):
    """An earlier version attempted held-out tasks as often as they came: its steps are not those of the plan."""
    folder, memory = start(tmp_path / "run")
    with closing(folder), memory, Live(plain=True) as live:
        run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, folder, live)
        path = folder.path / "metrics.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[3]["task"] = rows[2]["task"]
        before = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(before)
        with pytest.raises(BadInput, match="others now"):
            run_stream(STREAM, CodeBook(), agent_of(Copier()), memory, folder, live, resume=True)
        assert path.read_text() == before


@pytest.mark.parametrize("stop_after", [3, 9, 17, 23])
def test_a_world_that_drifts_stands_in_the_same_pass_when_a_run_goes_on(tmp_path, stop_after):
    class Drifting(CodeBook):
        def __init__(self):
            super().__init__()
            self.seen = []

        def reset(self, task, seed=0):
            self.seen.append(self.passes[-1])
            folder.interrupt.requested = self is worlds[0] and len(self.seen) == stop_after
            return super().reset(task, seed)

    worlds = Drifting(), Drifting()
    folder, memory = start(tmp_path / "run")
    with closing(folder), memory, Live(plain=True) as live:
        with pytest.raises(Interrupted):
            run_stream(STREAM, worlds[0], agent_of(Copier()), memory, folder, live)
        run_stream(STREAM, worlds[1], agent_of(Copier()), memory, folder, live, resume=True)
    assert [pass_ for world in worlds for pass_ in world.seen] == [1] * 4 + [1] * 6 + [2] * 6 + [2] * 4 + [2] * 6


def test_values_choose_among_admissible_commands_without_a_model(tmp_path):
    folder, memory = start(tmp_path / "run", "memrl")
    with closing(folder), memory:
        env, agent = CodeBook(admissible=True), agent_of(None, how="values", exploration=0.3, value_gate=0.95)
        rates = []
        for number in range(14):
            done = []
            for i, t in enumerate(env.tasks("train", 6, 0)):
                done.append(attempt(env, t, agent, memory, seed=100 * number + i))
                done[-1].learn()
            rates.append(np.mean([d.success for d in done]))
        assert np.mean(rates[:2]) <= 0.5 and np.mean(rates[-2:]) >= 0.9
        known = {(i.key, i.body): i.value for i in memory.items()}
        assert all(known[f"What is the code of {w}?", code] > 0.9 for w, code in CODES.items())


def test_drift_is_announced_pass_by_pass(tmp_path):
    folder, memory = start(tmp_path / "run")
    env = CodeBook()
    with closing(folder), memory, Live(plain=True) as live:
        run_stream(Stream(algo="test", passes=3, train=2, heldout=1), env, agent_of(Copier()), memory, folder, live)
    assert env.passes[0] == 1 and sorted(set(env.passes)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("lessons", "answers", "kept"),
    [
        (("corrections",), "?", [("case", "neutral", "A1")]),
        (("failures",), "?", [("case", "failure", "?")]),
        (("successes",), "A1", [("case", "success", "A1")]),
        (("procedures",), "A1", [("script", "success", "A1\n-- steps: 1. look it up")]),
        ((), "?", []),
    ],
)
def test_what_is_written_follows_the_lessons(tmp_path, lessons, answers, kept):
    class Fixed(Copier):
        def generate(self, prompt, **settings):
            text = " look it up" if prompt.endswith("1.") else answers
            return Completion(text, np.zeros(0, np.int32), np.zeros(0, np.float32))

    folder, memory = start(tmp_path / "run")
    with closing(folder), memory:
        task = CodeBook().tasks("train", 1, 0)[0]
        attempt(CodeBook(), task, agent_of(Fixed(), lessons=lessons), memory, seed=0).learn()
        assert [(i.kind, i.polarity, i.body) for i in memory.items()] == kept


def test_failures_are_shown_as_what_to_avoid(tmp_path):
    folder, memory = start(tmp_path / "run", "rag")
    model = Copier()
    with closing(folder), memory:
        memory.remember("What is the code of alpha?", "Z9", polarity="failure")
        attempt(CodeBook(), CodeBook().tasks("train", 1, 0)[0], agent_of(model), memory, seed=0, learn=False)
    assert "A (wrong, avoid): Z9" in model.prompts[-1]


def test_free_text_without_a_model_is_refused_clearly(tmp_path):
    folder, memory = start(tmp_path / "run")
    with closing(folder), memory, pytest.raises(BadInput, match="only a model can write"):
        attempt(CodeBook(), CodeBook().tasks("train", 1, 0)[0], agent_of(None), memory, seed=0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lessons": ("wisdom",)}, "no such kind of lesson"),
        ({"plan": Plan(turns=-1)}, "--turns"),
        ({"plan": Plan(agents=("a", "a"))}, "a"),
        ({"plan": Plan(answer=-5)}, "--answer"),
        ({"env": "nowhere"}, "unknown environment"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_is_loaded(tmp_path, monkeypatch, given, says):
    def load(*args, **options):
        raise AssertionError("the model was loaded before the settings were checked")

    monkeypatch.setattr(models, "load", load)
    config = memlift.Config(**given)
    folder = begin(tmp_path / "run", "memlift", config)
    with folder, Live(plain=True) as live, pytest.raises(BadInput, match=says):
        memlift.run(config, folder, live)
