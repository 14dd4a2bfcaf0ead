"""B-Coder: the fixed point of its backup on a tree by enumeration, its values and ranking on a tiny model."""

import copy
from itertools import product

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.algos import b_coder
from evolvent.algos.b_coder.dueling_q import DuelingConfig, DuelingQ, ranked, softabs
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import token_conservative_bellman as rule
from evolvent.evaluate.live import Live
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.runs.language.config import CriticPlan
from language_runs import killed_in_update
from run_folders import begin, stable

folder = tiny_language.fixture(max_position_embeddings=512)
pytestmark = pytest.mark.usefixtures("one_thread")
GRADES = (-1.0, -0.6, -0.3, 1.0)


def attempt(ids, grade, *, context=(7,), group="g", valid=True, text="x"):
    e = Episode("t", group=group, id=str(list(ids)))
    e.observe("ask", token_ids=list(context), parent=-1)
    e.act(text, token_ids=list(ids), logp=[-0.5] * len(ids))
    e.end(terminated=True, valid=valid)
    for name, at_least in (("compiles", -0.6), ("runs", -0.3), ("correct", 1.0)):
        keep_reward(e, name, [float(grade >= at_least)])
    return e


# ------------------------------------------------------------------------------------------------ the backup, exactly
@pytest.mark.parametrize("seed", range(5))
def test_the_fixed_point_is_the_value_of_the_first_model_decoded_greedily(seed):
    """Programs of three tokens of two: all of them are enumerated, and nothing is approximated."""
    draw, gamma = np.random.default_rng(seed), 0.9
    programs = list(product((0, 1), repeat=3))
    grade = {program: GRADES[draw.integers(4)] for program in programs}
    rho = {past: int(draw.integers(2)) for n in range(3) for past in product((0, 1), repeat=n)}  # its greedy token
    settings = rule.Config(gamma=gamma)

    def swept(q):
        episodes = []
        for program in programs:
            e = attempt(program, grade[program])
            e.note("greedy_q", [q[program[:k], rho[program[:k]]] for k in range(3)])
            episodes.append(e)
        target = rule.assign(episodes, settings).values("token").reshape(-1, 3)
        return {(p[:k], p[k]): float(target[i, k]) for i, p in enumerate(programs) for k in range(3)}

    def worth(past):  # what comes of going on as rho would
        while len(past) < 3:
            past = (*past, rho[past])
        return grade[past]

    one, other = ({(past, w): float(draw.normal()) for past in rho for w in (0, 1)} for _ in range(2))
    before = max(abs(one[key] - other[key]) for key in one)
    one, other = swept(one), swept(other)
    assert max(abs(one[key] - other[key]) for key in one) <= gamma * before + 1e-7, "a contraction"
    for _ in range(3):
        one = swept(one)
    for (past, w), value in one.items():
        assert value == pytest.approx(gamma ** (2 - len(past)) * worth((*past, w)), abs=1e-6)
    acted = ()
    while len(acted) < 3:
        acted = (*acted, max((0, 1), key=lambda w: one[acted, w]))
    assert grade[acted] >= worth(()), "the best tokens by it do no worse than the first model"


def test_a_soft_absolute_value_is_zero_at_zero_and_caps_the_values():
    x = torch.tensor([-30.0, 0.0, 2.0, 30.0])
    assert softabs(x).tolist() == pytest.approx([15 - np.log(2), 0.0, 0.433781, 15 - np.log(2)], abs=1e-5)


# ------------------------------------------------------------------------------------------------ on a tiny model
PAID = {"ab": 1.0, "ac": -0.3, "cb": -0.6, "dd": -1.0}


def made(folder, **more):
    model = language.load(folder, dtype="float32", adapters=("policy",))
    return model, DuelingQ(model, DuelingConfig(**more), lr=0.02, critic_lr=0.02)


def programs(model):
    context = model.encode("Which? ")
    return [attempt(model.encode(text), paid, context=context, text=text) for text, paid in PAID.items()]


def test_it_begins_as_the_model_with_advantages_below_zero(folder):
    model, values = made(folder, alpha=0.5)
    episodes = programs(model)
    seen = values.read(episodes)
    assert (seen.taken_K <= 0).all() and (seen.greedy_K == 0).all(), "rho says its own best token"
    with torch.no_grad():
        logits = values._logits(seen.policy_KD)
        said = torch.tensor(np.concatenate([e.token_ids for e in episodes])).long().to(logits.device)
        want = 0.5 * (logits.gather(-1, said[:, None])[:, 0] - logits.amax(-1))
    assert seen.taken_K.tolist() == pytest.approx(want.tolist(), abs=1e-5)
    values.note(episodes, seen)
    value = values.value(seen.base_KD, seen.policy_KD).detach().cpu().numpy().reshape(4, 2)
    taken = seen.taken_K.cpu().numpy().reshape(4, 2)
    for e, v, a in zip(episodes, value, taken, strict=True):
        assert e.notes["greedy_q"].tolist() == pytest.approx(v.tolist(), abs=1e-6)
        recovered = [a[0] + v[0] - 0.999 * v[1], a[1] + v[1]]
        assert e.notes["recovered"].tolist() == pytest.approx(recovered, abs=1e-5)


def test_the_warmup_moves_the_value_of_states_alone_and_brings_the_error_down(folder):
    model, values = made(folder, alpha=0.1)
    episodes, generator = programs(model), torch.Generator().manual_seed(0)
    before = {name: x.clone() for name, x in model.state_dict("policy").items()}
    seen, losses = values.read(episodes), []
    for _ in range(100):
        values.note(episodes, seen)
        losses.append(values.pretrain(seen, rule.assign(episodes), minibatches=1, generator=generator)["value_loss"])
    assert losses[-1] < 0.5 * losses[0]
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict("policy").items())
    assert not any(p.any() for p in values.rest.parameters())


def test_right_programs_count_in_sums_over_their_tokens(folder):
    """With means, what was said and matters little is pulled up to the best token faster than right programs hold."""
    model, values = made(folder)
    episodes = programs(model)
    values.note(episodes, values.read(episodes))
    right = [b_coder.is_right(e) for e in episodes]
    still = torch.optim.SGD(model.trainable("policy"), lr=0.0)
    generator = torch.Generator().manual_seed(0)
    metrics = values.learn(rule.assign(episodes), right, still, epochs=1, minibatches=1, generator=generator)
    (i,) = (i for i, one in enumerate(right) if one)
    with torch.no_grad():
        logp = model.logprobs([Row(episodes[i].context_ids(0), episodes[i].token_ids)]).logp_K
    assert len(logp) > 1 and metrics["ce_loss"] == pytest.approx(-float(logp.sum()), rel=1e-4)


def test_values_become_what_programs_earn_and_the_right_one_is_preferred_and_ranked_first(folder):
    model, values = made(folder, alpha=0.1, grad_clip=10.0)
    episodes, generator = programs(model), torch.Generator().manual_seed(0)
    broken = attempt(model.encode("aa"), 1.0, context=model.encode("Which? "), valid=False)
    episodes.append(broken)
    optimizer = torch.optim.AdamW(model.trainable("policy"), lr=0.03)
    right = [e.valid and b_coder.is_right(e) for e in episodes]

    def likely():
        with torch.no_grad():
            rows = values.read(episodes[:1]).policy_KD
            logp = values._logits(rows).log_softmax(-1)
        return float(logp[[0, 1], episodes[0].token_ids.tolist()].sum().exp())

    start, metrics, seen = likely(), {}, values.read(episodes)
    for _ in range(40):
        values.note(episodes, seen)
        values.pretrain(seen, rule.assign(episodes), minibatches=1, generator=generator)
    for _ in range(60):
        values.note(episodes, values.read(episodes))
        metrics = values.learn(rule.assign(episodes), right, optimizer, epochs=1, minibatches=1, generator=generator)
    assert start < 1e-3 and likely() > 0.6
    assert metrics["value_loss"] < 0.1 and metrics["ce_loss"] < 0.3 and metrics["adv_loss"] < 0.1
    seen = values.read(episodes)
    q = (seen.taken_K + values.value(seen.base_KD, seen.policy_KD)).detach().cpu().numpy()[1::2][:4]
    assert q == pytest.approx(list(PAID.values()), abs=0.5) and sorted(q, reverse=True) == q.tolist() and q[0] <= 1.0
    values.note(episodes, seen)
    assert ranked(episodes)["g"][0] == 0 and 4 not in ranked(episodes)["g"]
    assert b_coder.rates(episodes) == {"ranked_right": 1.0, "drawn_right": 0.25}


def test_where_nothing_is_right_values_alone_are_learned(folder):
    model, values = made(folder)
    episodes, generator = programs(model)[1:], torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.trainable("policy"), lr=0.01)
    values.note(episodes, values.read(episodes))
    metrics = values.learn(rule.assign(episodes), [False] * 3, optimizer, epochs=1, minibatches=2, generator=generator)
    assert metrics["value_loss"] > 0 and metrics["adv_loss"] == metrics["ce_loss"] == 0.0
    none = copy.deepcopy(episodes[:1])
    none[0].valid = False
    assert values.learn(rule.assign(none), [False], optimizer, epochs=1, minibatches=1, generator=generator) == {}


# ------------------------------------------------------------------------------------------------ the system
@pytest.fixture(name="env")
def letters_that_are_graded(tmp_path):
    (tmp_path / "graded_letters.py").write_text(
        "from dataclasses import replace\nimport letters_env\n\n"
        "class Graded(letters_env.Letters):\n    def step(self, action):\n        turn = super().step(action)\n"
        "        right = float(len(action) % 3 == 0)\n"
        '        rewards = {"compiles": 1.0, "runs": float("a" in action), "correct": right}\n'
        '        return replace(turn, info=dict(turn.info) | {"rewards": rewards})\n\n'
        "def make():\n    return Graded()\n"
    )
    return f"{tmp_path / 'graded_letters.py'}:make"


def settings(folder, env, **more):
    plan = CriticPlan(dtype="float32", eval_every=0, eval_tasks=2, answer=6, warmup=1, critic_epochs=3)
    base = {"model": folder, "env": env, "updates": 4, "prompts": 2, "group": 3, "lr": 0.01, "kept": 4}
    return b_coder.Config(**base | more, plan=plan)


def start(config, path, *, resume=False):
    with begin(path, "b_coder", config, resume=resume) as made_, Live(plain=True) as live:
        return b_coder.run(config, made_, live, resume=resume)


def test_a_killed_run_goes_on_to_the_same_numbers(folder, env, tmp_path):
    config = settings(folder, env)
    want = start(config, tmp_path / "whole")
    with killed_in_update(3):
        start(config, tmp_path / "cut")
    found = start(config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0} and stable(tmp_path / "cut") == stable(tmp_path / "whole")
    rows = [row for row in stable(tmp_path / "whole") if "update" in row and "value_loss" in row]
    assert len(rows) == 4 and "grad_norm" not in rows[0] and all(row["grad_norm"] > 0 for row in rows[1:])
    assert want["policy_updates"] == 3
    assert all(0 <= row["ranked_right"] <= 1 and 0 <= row["drawn_right"] <= 1 for row in rows)


def test_a_world_that_runs_no_programs_is_refused(folder, tmp_path):
    with pytest.raises(BadInput, match="compiles"):
        start(settings(folder, "arithmetic:largest"), tmp_path / "run")
