"""Systems that learn from their own earlier answers, on a tiny model that writes three letters: they get better."""

from importlib import import_module
from statistics import fmean

import numpy as np
import pytest

import letters_env
import tiny_language
from evolvent.algos import satori
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import reward_total
from evolvent.credit import step_process_std
from evolvent.envs.text import microwave
from evolvent.evaluate.live import Live
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.language.config import Plan
from language_runs import killed_in_update, rows
from language_runs import start as started
from run_folders import stable

ENV = f"{letters_env.__file__}:make"
SETTINGS = {"satori": {"rounds": 2, "imitate": 1, "prompts": 4, "group": 4}}
pytestmark = pytest.mark.usefixtures("one_thread")


def improving(draw):
    """What Satori asks, now and then about earlier answers."""
    if draw.random() < 0.4:
        return letters_env.ask(draw)
    answers = "\n".join(letters_env.said(draw) for _ in range(draw.choice((1, 2))))
    return f"Ask: {satori.BETTER.format(question=draw.randrange(1000), answers=answers)}\nSay:"


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A tiny model that writes three lines of ``a`` or ``b``, whatever it is asked."""
    folder = tiny_language.write(tmp_path_factory.mktemp("writer") / "model", max_position_embeddings=512)
    letters_env.teach(folder, asked=improving)
    return folder


def settings(name, folder, **more):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=4)
    base = {"model": folder, "env": ENV, "updates": 2, "lr": 0.03, **SETTINGS[name]}
    return import_module(f"evolvent.algos.{name}").Config(**(base | more), plan=plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_satori_learns_to_answer_again_and_better(writer, tmp_path, seed):
    folder, seen, _ = started("satori", settings("satori", writer, seed=seed, updates=8, imitate=3), tmp_path / "run")
    got = [row["return"] for row in rows(folder)]
    assert fmean(got[:3]) < 0.35 and fmean(got[-3:]) > 1.5 * fmean(got[:3]) + 0.1  # one in eight by chance
    for update, (_, episodes, ledger) in enumerate(seen):
        worth = np.concatenate([np.cumsum(e.rewards_T) for e in episodes])
        gains = np.concatenate([e.rewards_T for e in episodes])
        want = (
            np.maximum(gains, 0)
            if update < 3
            else step_process_std.assign(episodes, step_process_std.Config(to_go=False)).values("step")
        )
        assert np.array_equal(ledger.values("step"), want)
        assert set(worth.round(9)) <= {0.0, 1.0}  # gains add up to what the newest answer is worth
        for e in episodes:
            assert (
                reward_total(e, "first") == e.rewards_T[0] and reward_total(e, "best") == np.cumsum(e.rewards_T).max()
            )
            assert e.total_reward == float(bool(e.success))


def test_satori_shows_earlier_answers_and_pays_their_gain():
    settings = satori._settings(AttemptSettings(Text()), satori.Config(rounds=3, shown=2))
    world = settings.world(letters_env.make())
    turn, shown, paid = world.reset(world.tasks("train", 1, 0)[0]), [], []
    for said in ("b\nb\nb", "a\na\na", "b\na\nb", "a\na\na"):
        shown.append(turn.observation)
        turn = world.step(said)
        paid.append(turn.reward)
    assert paid == [0.0, 1.0, -1.0, 1.0] and turn.done and turn.success
    assert turn.info["rewards"] == {"first": 0.0, "best": 1.0}
    assert shown[0] == "100" and "b\nb\nb" in shown[2] and "b\nb\nb" not in shown[3] and "b\na\nb" in shown[3]


def test_satori_refuses_worlds_that_go_on_and_stages_that_never_come(writer, tmp_path):
    world = satori._settings(AttemptSettings(Text()), satori.Config()).world(microwave.make(step_limit=3))
    turn = world.reset(world.tasks("train", 1, 0)[0])
    with pytest.raises(BadInput, match="whole answers"):
        world.step((turn.admissible or ("",))[0])
    with pytest.raises(BadInput, match="in words are needed"):
        started("satori", settings("satori", "no such model", env="microwave", imitate=0), tmp_path / "c")
    with pytest.raises(BadInput, match="never be trained"):
        started("satori", settings("satori", writer, imitate=2), tmp_path / "a")
    with pytest.raises(BadInput, match="out of bounds"):
        started("satori", settings("satori", writer, rounds=0), tmp_path / "b")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_run_goes_on_and_what_was_learned_is_evaluated_frozen(name, writer, tmp_path):
    config = settings(name, writer)
    _, _, want = started(name, config, tmp_path / "whole")
    with killed_in_update(1):
        started(name, config, tmp_path / "cut")
    _, _, found = started(name, config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    with Live(plain=True) as live:
        judged = import_module(f"evolvent.algos.{name}").evaluate(RunFolder.open(tmp_path / "cut"), live)
    assert judged["greedy"] == want["greedy"] and judged["greedy"]["length_mean"] == want["greedy"]["length_mean"]
