"""DSER: answers are reviewed and written again; a weak writer that mends more than it spoils is right in the end."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Completion
from evolvent.core.reward_kinds import rewards_of
from evolvent.envs.text import chain, microwave
from evolvent.formulas.two_state import revisions, right_after
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.search.grow import Grower
from evolvent.search import dser

ENV = chain.make(2, digits=1)
TASK = ENV.tasks("heldout", 1, 0)[0]
RIGHT, WRONG, NONE = chain.worked(TASK.text), "0+0=0\n0+0=0", np.zeros(0, np.float32)


def writer(p, q, asked):
    """Answers that are wrong at first, then mended with chance ``p`` and spoiled with ``q``."""

    def engine(requests):
        out = []
        for request in requests:
            asked.append(request.prompt)
            said, draw = RIGHT, np.random.default_rng(request.seed).random()
            if "Is it right?" in request.prompt:
                said = "hm"
            elif "A review of it: hm" not in request.prompt:
                said = WRONG
            else:
                before = f"An answer to this was: {RIGHT}" in request.prompt
                said = RIGHT if draw < (1 - q if before else p) else WRONG
            out.append(Completion(said, NONE, NONE, finish="stop", stopped="\n\n"))
        return out

    return engine


def chains(p, q, config):
    asked = []
    world = dser.world(ENV, config)
    grower = Grower([world], AttemptSettings(Text()), writer(p, q, asked), widths=(1,), longest=20, unit="answer")
    search, space = grower.grow([TASK], lambda s: dser.run(s, config), seed=0)
    episodes = [space.episode(path.leaf) for path in search.of(0)]
    return [one for one in episodes if one is not None], asked


def test_every_round_asks_for_a_review_and_another_answer_and_the_last_one_counts():
    (episode,), asked = chains(1.0, 0.0, dser.Config(paths=1, rounds=2))
    assert rewards_of(episode, dser.RIGHT).tolist() == [0, 0, 1, 1, 1]
    assert episode.success and episode.total_reward == 1.0 and episode.answer == RIGHT[-1]
    assert len(asked) == 5 and f"An answer to this was: {WRONG}\nA review of it: hm" in asked[2]
    assert all(TASK.text in prompt for prompt in asked)


def test_many_rounds_come_to_what_the_two_states_say():
    p, q, config = 0.3, 0.1, dser.Config(paths=200, parallel=50, rounds=8)
    episodes, _ = chains(p, q, config)
    mended, wrong, spoiled, right = np.sum(
        [revisions((rewards_of(e, dser.RIGHT)[::2] > 0).tolist()) for e in episodes], axis=0
    )
    assert mended / wrong == pytest.approx(p, abs=0.06) and spoiled / right == pytest.approx(q, abs=0.04)
    assert np.mean([bool(e.success) for e in episodes]) == pytest.approx(right_after(8, p, q), abs=0.1)


def test_worlds_of_several_actions_are_refused():
    world = dser.world(microwave.make(step_limit=3), dser.Config())
    turn = world.reset(world.tasks("heldout", 1, 0)[0])
    with pytest.raises(BadInput, match="whole answers"):
        world.step((turn.admissible or ("",))[0])
    with pytest.raises(BadInput, match="no rounds"):
        dser.world(ENV, dser.Config(rounds=0))
