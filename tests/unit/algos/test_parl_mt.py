"""PARL-MT: notes are kept where the call is made from them; notes and calls are learned; runs go on after a kill."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.algos import parl_mt
from evolvent.algos.parl_mt import Config, Pag, pag
from evolvent.algos.parl_mt.awareness import WEIGHTS
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Completion, Turn
from evolvent.envs.text import orders
from evolvent.evaluate.live import Live
from evolvent.formulas.call_text import read_calls
from evolvent.models.language import model as language
from evolvent.play.renderers import Plain, Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.language.config import Plan
from evolvent.runs.language.examples import ending
from evolvent.runs.shell import Shell
from language_runs import rows, start
from run_folders import Killed, stable

folder = tiny_language.fixture(max_position_embeddings=4096)
pytestmark = pytest.mark.usefixtures("one_thread")
STAGES = Pag(conversations=4, verify="none", augment=0.5, talks=2, imitate_lr=0.01)


@pytest.fixture
def config(folder):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, answer=40)
    return Config(model=folder, updates=4, imitate=2, prompts=1, group=3, lr=0.01, plan=plan, pag=STAGES)


@pytest.fixture
def env():
    return orders.make()


def scripted(say):
    """An engine that answers a prompt with what ``say`` makes of it."""
    return lambda requests: [
        Completion(say(request.prompt), np.zeros(0, np.int32), np.zeros(0, np.float32)) for request in requests
    ]


def test_kept_is_exactly_what_the_call_was_made_from(env):
    pairs = pag.conversations(env, env.tasks("train", 8, 0))
    gold = {Text().first(*asked(env, pair)): env.written(pair.calls) for pair in pairs}
    assert len(gold) == len(pairs) == 32

    def sometimes(prompt):
        return gold[prompt] if "Next: refund" in prompt or "Next: find" in prompt else "[cancel(order=1)]"

    found = pag.verified(pairs, env, scripted(sometimes), Text(), None)
    kept = [pair.calls[0]["name"] in ("refund", "find") for pair in pairs]
    assert [pair.kept for pair in found] == kept and 0 < sum(kept) < 32
    assert [read_calls(pair.said).calls == pair.calls for pair in found] == kept
    lines = [{"turn": pair.turn, "kept": pair.kept} for pair in found]
    assert pag.acceptance(lines)["accepted"] == sum(kept) / 32
    assert sum(pag.acceptance(lines)["accepted_by_turn"]) * 8 == pytest.approx(sum(kept))


def asked(env, pair):
    head, text = pag.asked_call(env, pair.now, pair.notes)
    return head, Turn(text)


def test_notes_and_calls_are_learned_and_nothing_else(env, folder):
    model = language.load(folder, dtype="float32")
    by, tasks = Plain(model), env.tasks("train", 4, 0)
    pairs = [replace(pair, kept=pair.turn != 1) for pair in pag.conversations(env, tasks)]

    def end(stop):
        return ending(model, [], stop)("")

    told = {episode.task_id: episode for episode in pag.examples(pairs, env, by, end)}
    short = [pair for pair in pairs if pair.kept and len(pair.notes) < 63]
    assert sum(episode.n_steps for episode in told.values()) == 2 * len(short)
    for task, episode in told.items():
        mine = [pair for pair in short if pair.task == task]
        said = [model.decode(episode.step_tokens(t)) for t in range(episode.n_steps)]
        assert said == [w for p in mine for w in (f" {p.notes}\n\n", f" {env.written(p.calls)}\n")]
        for t, pair in enumerate(mine):
            notes, call = (model.decode(episode.context_ids(2 * t + i)) for i in (0, 1))
            assert notes.endswith(f"{pair.now.news}\nDone:") and call.endswith(f"{pair.now.request}\nCall:")
            assert "Result" not in call and pair.notes in call
    for episode, task in zip(pag.histories(env, tasks, AttemptSettings(by), end), tasks, strict=True):
        said = [model.decode(episode.step_tokens(t)) for t in range(4)]
        assert said == [f" {env.written(calls)}\n" for calls in env.gold(task)] and episode.success
        seen = model.decode(episode.context_ids(3))
        assert seen.count("Result:") == 3 and all(one in seen for one in said[:3])


def test_another_guise_renames_functions_everywhere_and_loses_no_argument(env):
    pairs = pag.conversations(env, env.tasks("train", 20, 0))
    again = pag.varied(pairs, 1.0, 0)
    assert len(again) == len(pairs) and pag.varied(pairs, 0.0, 0) == []
    hidden = 0
    for old, new in zip(pairs, again, strict=True):
        names = {tool["name"] for tool in new.now.tools}
        assert names.isdisjoint(tool["name"] for tool in old.now.tools) and new.calls[0]["name"] in names
        assert new.calls[0]["arguments"] == old.calls[0]["arguments"]
        assert f"Next: {new.calls[0]['name']}" in new.notes and "find(" not in new.now.news
        for value in new.calls[0]["arguments"].values():
            assert (str(value) in new.now.request) == (str(value) in old.now.request)
        hidden += new.now.request.count("_")
    assert hidden > 5
    assert {e.n_steps for e in pag.examples(again, env, Characters(), lambda stop: np.zeros(1, np.int32))} <= {
        1,
        2,
        3,
        4,
    }


class Characters(Text):
    def command(self, text):
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)[:40]

    def first(self, env, turn, examples=""):
        return np.frombuffer(super().first(env, turn, examples).encode(), np.uint8).astype(np.int32)


@contextmanager
def killed(number):
    log = Shell.log

    def broken(self, *args):
        if self.update == number:
            raise Killed
        return log(self, *args)

    with pytest.MonkeyPatch.context() as during, pytest.raises(Killed):
        during.setattr(Shell, "log", broken)
        yield
    torch.manual_seed(12345)


@pytest.mark.parametrize(("sees", "at"), [("awareness", 1), ("awareness", 3), ("history", 3)])
def test_a_killed_run_goes_on_and_what_was_learned_is_evaluated_frozen(config, tmp_path, sees, at):
    config = replace(config, sees=sees, pag=replace(STAGES, verify_after=1))
    whole, _, want = start("parl_mt", config, tmp_path / "whole")
    with killed(at):
        start("parl_mt", config, tmp_path / "cut")
    cut, _, found = start("parl_mt", config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(cut.path) == stable(whole.path)
    assert ((cut.path / "pag.jsonl").exists(), set(found["arms"])) == (
        (True, {"awareness", "empty", "gold"}) if sees == "awareness" else (False, {"history"})
    )
    with Live(plain=True) as live:
        judged = parl_mt.evaluate(RunFolder.open(cut.path), live)
    assert judged["greedy"] == want["greedy"]


def test_stages_and_what_they_give_to_the_learner(config, tmp_path):
    run, seen, summary = start("parl_mt", config, tmp_path / "run")
    log = rows(run)
    assert [("examples" in row, "reward_call_mean" in row) for row in log] == [(True, False)] * 2 + [(False, True)] * 2
    assert all({f"reward_{kind}_mean" for kind in WEIGHTS} <= set(row) for row in log[2:])
    for objective, episodes, ledger in seen:
        values = ledger.values("step")
        if objective is None:
            assert (values == 1.0).all() and all(e.agents_T for e in episodes)
        else:
            assert len(values) == 24 and len(episodes) == 3  # notes and calls of each turn
            assert all(len(set(part)) == 1 for part in np.split(values, 3))
    assert summary["notes"] == {"pairs": 16, "accepted": None, "accepted_by_turn": None}, "nobody verified them"
    arms = summary["arms"]
    assert all(len(arm["calls_by_turn"]) == 4 and arm["n"] == 2 for arm in arms.values())
    assert arms["empty"]["prompt_tokens"] == arms["empty"]["call_tokens"] < arms["gold"]["call_tokens"]
    assert arms["awareness"]["prompt_tokens"] > arms["awareness"]["call_tokens"]


def test_what_cannot_be_begun_says_why(config, tmp_path):
    with pytest.raises(BadInput, match="nobody tells the right calls"):
        start("parl_mt", replace(config, env="chain"), tmp_path / "a")
    with pytest.raises(BadInput, match="from no notes"):
        start("parl_mt", replace(config, pag=replace(STAGES, verify="target", verify_after=0)), tmp_path / "b")
    kept = [json.loads(line)["kept"] for line in (tmp_path / "b" / "pag.jsonl").read_text().splitlines()]
    assert len(kept) == 16 and not any(kept)
    with pytest.raises(BadInput, match="never be verified"):
        start("parl_mt", replace(config, pag=replace(STAGES, verify="target", verify_after=2)), tmp_path / "d")
    with pytest.raises(BadInput, match="augment"):
        start("parl_mt", replace(config, pag=replace(STAGES, augment=2.0)), tmp_path / "c")
