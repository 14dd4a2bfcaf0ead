"""Episodes of every shape, for hypothesis."""

import numpy as np
from hypothesis import strategies as st

from evolvent.core.episode import Episode
from evolvent.core.nodes import USAGE
from evolvent.core.reward_kinds import keep_reward

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text | st.just("$float"), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["ann", "bob", "č", ""])
rewards = st.floats(-1e6, 1e6)


def add_node(draw, ep: Episode, parent) -> None:
    match draw(st.sampled_from(["observe", "act", "act", "act", "tool", "recall", "component"])):
        case "observe":
            seen = draw(st.lists(st.integers(0, 2**31 - 1), max_size=3))
            ep.observe(draw(text), agent=draw(names), token_ids=np.array(seen, np.int32), parent=parent)
        case "act":
            n = draw(st.integers(0, 4))
            ids = draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=n, max_size=n))
            logp = draw(
                st.just(()) | st.lists(st.floats(max_value=0.0, width=32) | st.just(np.nan), min_size=n, max_size=n)
            )
            ids_K, logp_K = np.array(ids, np.int32), np.array(logp, np.float32)
            others = draw(st.just(()) | st.just((ids_K, np.array([7, 8], np.int32))))
            ep.act(
                draw(text),
                agent=draw(names),
                token_ids=ids_K,
                logp=logp_K,
                reward=draw(rewards),
                choices=others,
                finish=draw(st.sampled_from(["", "stop", "length"])),
                parent=parent,
            )
            if draw(st.booleans()):
                ep.spend(**draw(st.dictionaries(st.sampled_from(USAGE), st.none() | st.floats(0, 1e6))))
        case "tool":
            arguments = draw(st.dictionaries(text, json_values, max_size=2))
            outcome = draw(st.sampled_from(["", "ok", "raised"]))
            ep.tool(draw(text), arguments, draw(text), outcome=outcome, agent=draw(names), parent=parent)
        case "recall":
            ids = draw(st.lists(st.sampled_from(["m1", "m2", "m3", "m4", "ž"]), unique=True))
            cut = draw(st.integers(0, len(ids)))
            odds = {i: draw(st.floats(0, 1, exclude_min=True)) for i in ids if draw(st.booleans())}
            gone = draw(st.integers(cut, len(ids)))
            fate = {"omitted": ids[cut:gone], "dropped": ids[gone:]}
            ep.recall(draw(text), ids[:cut], **fate, propensity=odds, parent=parent)
        case "component":
            ep.component(draw(names), implementation=draw(names), parent=parent)


def close(draw, ep: Episode) -> None:
    flags = {"terminated": draw(st.booleans()), "truncated": draw(st.booleans()), "valid": draw(st.booleans())}
    facts = {
        "stop": draw(text),
        "answer": draw(st.none() | text),
        "choices": draw(st.lists(st.just([1, 2]), max_size=2)),
    }
    ep.end(success=draw(st.none() | st.booleans()), source=draw(text), **flags, **facts)
    ep.ends[-1].final_value = draw(st.none() | st.floats(width=32))


def add_nodes(draw, ep: Episode, most: int, within=None) -> None:
    """Up to ``most`` arbitrary nodes; parents are any, or among those of attempt ``within``."""
    for _ in range(draw(st.integers(0, most))):
        ep.turn = draw(st.none() | st.integers(0, 9))
        above = [] if within is None else ep.attempt_nodes(within)
        parent = draw(
            st.none() | (st.integers(-1, ep.n_nodes - 1) if within is None else st.sampled_from([-1, *above]))
        )
        add_node(draw, ep, parent)


@st.composite
def trees(draw) -> Episode:
    """Several attempts that share beginnings, in one record."""
    ep = Episode(draw(text), id=draw(text), seed=draw(st.integers(0, 9)))
    add_nodes(draw, ep, 5, 0)
    ep.act("x", token_ids=[1, 2], logp=[-1.0, -2.0], reward=draw(rewards))
    close(draw, ep)
    for number in range(1, draw(st.integers(1, 4))):
        of = draw(st.integers(0, number - 1))
        ep.fork(draw(st.sampled_from(ep.attempt_nodes(of))), of=of, seed=draw(st.none() | st.integers(0, 9)))
        add_nodes(draw, ep, 4, number)
        close(draw, ep)
    for name in draw(st.lists(st.sampled_from(["value", "entropy"]), unique=True)):
        ep.note(name, draw(st.lists(st.floats(width=32), min_size=ep.n_tokens, max_size=ep.n_tokens)))
    for kind in draw(st.lists(st.sampled_from(["format", "progress"]), unique=True)):
        keep_reward(ep, kind, draw(rewards | st.lists(rewards, min_size=ep.n_steps, max_size=ep.n_steps)))
    return ep


@st.composite
def episodes(draw, max_nodes: int = 8) -> Episode:
    """An arbitrary episode: ragged, possibly empty, with unknown log-probabilities and contexts that part."""
    ep = Episode(draw(text), env=draw(text), seed=draw(st.integers(-5, 5)), group=draw(text), id=draw(text))
    ep.meta = draw(st.dictionaries(text, json_values, max_size=2))
    ep.offers_tools = draw(st.booleans())
    ep.budget_tokens = draw(st.none() | st.integers(1, 99))
    add_nodes(draw, ep, max_nodes)
    for name in draw(st.lists(st.sampled_from(["value", "entropy"]), unique=True)):
        ep.note(name, draw(st.lists(st.floats(width=32), min_size=ep.n_tokens, max_size=ep.n_tokens)))
    if draw(st.booleans()):
        close(draw, ep)
    for kind in draw(st.lists(st.sampled_from(["format", "progress"]), unique=True)):
        keep_reward(ep, kind, draw(rewards | st.lists(rewards, min_size=ep.n_steps, max_size=ep.n_steps)))
    return ep
