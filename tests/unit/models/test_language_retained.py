"""What is kept between calls changes what is evaluated, and nothing else."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import envs
from evolvent.core.protocols import Request
from evolvent.models.language import model as language
from evolvent.models.language.acting import Acting
from evolvent.models.language.model import Row
from evolvent.play.renderers import Plain
from evolvent.play.settings import AttemptSettings
from evolvent.runs.search.grow import Grower
from evolvent.search import mcts_rollout

GAP = 1e-4


@pytest.fixture(scope="module", params=["plain", "window"])
def model(request, tmp_path_factory):
    more = {"kind": "MistralConfig", "sliding_window": 6, "head_dim": 8} if request.param == "window" else {}
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny_language.write(folder, seed=3, max_position_embeddings=512, **more)
    return tiny_language.stir(language.load(str(folder), dtype="float32", adapters=("policy", "value")), 0.1)


def grown(model, rounds=4, width=3, temperature=1.0, **more):
    """Prompts, each round going on from what was sampled in the one before."""
    prompts, out = [model.encode("you see a door. "), model.encode("you see a door. it is"), model.encode("x")], []
    for n in range(rounds):
        seeds = range(100 * n, 100 * n + len(prompts) * width)
        some = model.sample(prompts, n=width, max_tokens=5 + n, seeds=seeds, temperature=temperature, **more)
        out += some
        prompts = [np.concatenate([p, some[width * i + i % width].token_ids]) for i, p in enumerate(prompts)]
    return out, prompts


def stepped(model, monkeypatch):
    """Tokens of each pass through the model."""
    seen, inside = [], model._engine.step
    monkeypatch.setattr(model._engine, "step", lambda ids, *rest: seen.append(len(ids)) or inside(ids, *rest))
    return seen


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("limit", [1 << 14, 30])
def test_the_same_is_sampled_with_the_same_numbers(model, temperature, limit):
    alone, prompts = grown(model, temperature=temperature)
    with model.keeping(limit):
        kept, same = grown(model, temperature=temperature)
        again, _ = grown(model, temperature=temperature)  # all of it is known now
        with torch.no_grad():
            state = model.states([Row(p, np.zeros(1, np.int32)) for p in [*same, same[0]]], adapter="policy")
            other = model.states([Row(p, np.zeros(1, np.int32)) for p in same], adapter="value")
    for a, b, c in zip(alone, kept, again, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist() == c.token_ids.tolist()
        assert (a.text, a.finish) == (b.text, b.finish)
        assert np.abs(a.logp - b.logp).max() < GAP and np.abs(a.logp - c.logp).max() < GAP
    with torch.no_grad():
        want = model.states([Row(p, np.zeros(1, np.int32)) for p in [*prompts, prompts[0]]], adapter="policy")
        want_other = model.states([Row(p, np.zeros(1, np.int32)) for p in prompts], adapter="value")
    assert torch.allclose(state, want, atol=GAP) and torch.allclose(other, want_other, atol=GAP)
    assert not torch.allclose(other, want[:3], atol=GAP)


def test_a_text_that_goes_on_costs_its_new_tokens(model, monkeypatch):
    prompts = [model.encode("you see a door. "), model.encode("you see a door. it is")]
    with model.keeping():
        seen = stepped(model, monkeypatch)
        first = model.sample(prompts, n=2, max_tokens=6, seeds=range(4))
        assert seen[0] == len(prompts[1])
        assert [one.cached for one in first] == [0, len(prompts[0]), len(prompts[0]), len(prompts[1])]
        del seen[:]
        longer = [np.concatenate([p, first[2 * i].token_ids]) for i, p in enumerate(prompts)]
        second = model.sample([*longer, prompts[0]], max_tokens=1, seeds=range(3))
        # the token that was sampled last, of one: that of the other prompt; and the last of a prompt known before
        assert seen == [3]
        assert [one.cached for one in second] == [len(p) - 1 for p in (*longer, prompts[0])]
        del seen[:]
        model.states([Row(p, np.zeros(1, np.int32)) for p in longer], adapter="policy")
        assert seen == [sum(map(len, longer)) - len(prompts[0])]  # with gradients nothing is kept
    del seen[:]
    model.sample(prompts, max_tokens=1, seeds=range(2))
    assert seen == [len(prompts[1])]  # at the end it is gone


def test_changed_weights_are_not_served_from_what_the_old_ones_left(model):
    prompts = [model.encode("you see a door. ")]
    before = {name: tensor.clone() for name, tensor in model.state_dict("policy").items()}
    with model.keeping():
        old = model.sample(prompts, max_tokens=8, seeds=[1])[0]
        with torch.no_grad():
            for weight in model.trainable("policy"):
                weight.mul_(-3.0)
        kept = model.sample(prompts, max_tokens=8, seeds=[1])[0]
    fresh = model.sample(prompts, max_tokens=8, seeds=[1])[0]
    model.load_state_dict(before, "policy")
    assert np.abs(kept.logp - fresh.logp).max() < GAP
    assert len(kept.logp) != len(old.logp) or np.abs(kept.logp - old.logp).max() > GAP


def test_a_search_evaluates_what_is_in_its_tree(model):
    """Every token once, and the last one of each piece that was gone on from."""
    made = {}
    for keep in (False, True):
        worlds = [envs.load("game24:shots=1") for _ in range(2)]
        grower = Grower(
            worlds,
            AttemptSettings(Plain(model)),
            Acting(model, "sum"),
            (3,),
            4,
            keeping=model.keeping if keep else nullcontext,
        )
        search, space = grower.grow(
            worlds[0].tasks("heldout", 2, 0), lambda s: mcts_rollout.run(s, mcts_rollout.Config(simulations=6)), seed=0
        )
        read = sum(len(np.asarray(space.state(int(root)).context)) for root in search.tree.roots)
        made[keep] = search.meter.prompt - search.meter.cached, search.tree
    assert made[True][1].tokens[: made[True][1].n].tolist() == made[False][1].tokens[: made[False][1].n].tolist()
    tree = made[True][1]
    expanded = int((tree.width[: tree.n] > 0).sum())
    assert made[True][0] <= read + expanded < made[False][0]


def test_no_more_stays_than_the_limit_and_the_latest_stays(model):
    limit = 40
    with model.keeping(limit):
        prompts = grown(model, rounds=6)[1]
        kept = model.retained.of("policy", model.trainable)
        assert kept.n <= limit and all(key.shape[1] <= 2 * limit for key, _ in kept.layers)
        assert all(kept._path(-1, p[:10].tolist())[0] >= 0 for p in prompts[-1:])
        # every token that stays has the one before it
        assert len(kept._next) == kept.n
        assert all(kept._depth[slot] == (kept._depth[b] + 1 if b >= 0 else 0) for (b, _), slot in kept._next.items())


ACTIONS = ("take the jar", "take the knife", "go", "open the door")


def asked(model, situations, adapter="policy"):
    words = tuple(model.encode(f" {one}\n") for one in ACTIONS)
    return [Request(model.encode(text), i, 20, (), words, adapter) for i, text in enumerate(situations)]


@pytest.mark.parametrize("way", ["trie", "sum"])
def test_listed_actions_are_chosen_behind_what_is_kept_as_without_it(model, way, monkeypatch):
    first = ["you see a door. what now:", "you see a jar. what now:"]
    later = [f"{one} {ACTIONS[0]}\nand then:" for one in first]
    alone = [Acting(model, way)(asked(model, some)) for some in (first, later)]
    with model.keeping():
        seen = stepped(model, monkeypatch)
        acting = Acting(model, way)
        kept = [acting(asked(model, some)) for some in (first, later)]
        acting.forget()
        del seen[:]
        again = acting(asked(model, later))
        beginnings = {text[:k] for text in ACTIONS for k in range(1, len(text) + 1)}
        # the last token of each prompt, and of the actions what predicts, once (trie: where several may follow)
        assert seen == [len(later) * (len(beginnings) + 2 if way == "sum" else 10)]
    for a, b, c in zip([*alone[0], *alone[1]], [*kept[0], *kept[1]], [*kept[0], *again], strict=True):
        assert a.choice == b.choice == c.choice and a.token_ids.tolist() == b.token_ids.tolist()
        assert np.abs(a.scores_N - b.scores_N).max() < GAP and np.abs(a.scores_N - c.scores_N).max() < GAP
        assert np.abs(a.logp - b.logp).max() < GAP


def test_a_search_over_listed_actions_is_the_same_and_reads_less(model, monkeypatch):
    made, said, worlds = {}, {}, [envs.load("microwave:step_limit=3") for _ in range(2)]
    for keep in (False, True):
        seen = stepped(model, monkeypatch)
        grower = Grower(
            worlds,
            AttemptSettings(Plain(model), transcript=True),
            Acting(model, "sum"),
            (3,),
            4,
            "answer",
            decode=model.decode,
            keeping=model.keeping if keep else nullcontext,
        )
        search, _ = grower.grow(
            worlds[0].tasks("heldout", 2, 0), lambda s: mcts_rollout.run(s, mcts_rollout.Config(simulations=6)), seed=0
        )
        meter = search.meter
        made[keep], said[keep] = (search.tree, sum(seen)), (meter.prompt, meter.cached)
        monkeypatch.undo()
    (tree, all_read), (same, read) = made[False], made[True]
    assert tree.n == same.n > 10 and tree.tokens[: tree.n].tolist() == same.tokens[: same.n].tolist()
    assert np.abs(tree.prior[: tree.n] - same.prior[: same.n]).max() < GAP
    assert read < 0.6 * all_read
    prompts, known = zip(*said.values(), strict=True)  # what is said to be cached is what was not read
    assert prompts[0] == prompts[1] > known[1] and known[1] - known[0] == all_read - read
