"""Rules that know an attempt by the others of its group say so: an attempt alone has no credit, whatever it earned."""

import importlib
import pkgutil

import numpy as np
import pytest

from evolvent import credit
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward

KINDS = ("progress", "process", "format", "overlong", "tools", "right")
NAMES = [m.name for m in pkgutil.iter_modules(credit.__path__) if m.name.startswith(("step_", "token_"))]
OF_OTHER_THINGS = {  # compared by more than groups, or read what only their systems note
    "step_anchor_state",
    "step_recent_median",
    "step_left_out",
    "step_majority_novelty",
}


def alone(name, reward):
    episode = Episode(f"t{name}", group=f"g{name}", id=name)
    for step in range(2):
        episode.observe(f"x{step}")
        episode.act("say", token_ids=[1, 2], logp=[-0.5, -0.6], reward=step * reward, agent="planner")
    episode.end(terminated=True, success=reward > 0.5)
    for kind in KINDS:
        keep_reward(episode, kind, [reward, reward])
    for note in ("entropy", "value", "guide"):
        episode.note(note, np.array([0.1, 0.2, 0.3, 0.4]))
    episode.budget_tokens = 3
    return episode


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_OTHER_THINGS])
def test_credit_of_an_attempt_alone_is_nothing_exactly_where_the_rule_says_so(name):
    rule = importlib.import_module(f"evolvent.credit.{name}")
    said = []
    try:
        for reward in (0.0, 1.0, 0.3):
            ledger = rule.assign([alone("a", reward), alone("b", 0.7)])
            values = ledger.values(rule.LEVEL)
            said.append(np.nan_to_num(values[: len(values) // 2], nan=-99.0))
    except BadInput:  # it reads what its system notes: a judge, tests, a critic
        assert not getattr(rule, "COMPARES", False)
        return
    same = all(np.allclose(said[0], other) for other in said[1:])
    assert same == getattr(rule, "COMPARES", False)
