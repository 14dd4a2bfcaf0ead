"""``check_credit``: a credit rule proves that it keeps its promises."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import LEVELS, Ledger
from evolvent.testing._broken import broken as _broken
from evolvent.testing._broken import check_claim, claims, speaking
from evolvent.testing._kinds import arbitrary, give_kinds
from evolvent.testing.exact import NOTES, configured, measure
from evolvent.testing.exact_tokens import measure_tokens
from evolvent.testing.rollout_credit import check_rollout_rule

Assign = Callable[[Sequence[Episode]], Ledger]


def check_credit(rule: Any, config: Any = None) -> list[str]:
    """Check a credit rule and return the names of the checks it passed.

    Args:
        rule: a module or object with ``LEVEL``, ``UNBIASED``, ``assign(episodes[, config])`` and, where it has
            settings, a frozen dataclass ``Config`` with defaults. ``CLAIMS``, optional, pairs other configurations
            with what they are: ``((Config(…), True | False | "up to scale"), …)``.
        config: settings to check instead of the default (declarations are checked for the default only).

    Checked: the declarations; one ledger address for every unit; purity (same input, same output, input unchanged);
    nothing to do for no episodes; invalid episodes unscored and without influence; nodes that decide nothing make no
    difference. For token, step, agent and component credit: the order of the episodes makes no difference. For token,
    step and agent credit: other groups make no difference (unless the rule says ``SCOPE = "batch"``, it pools over all
    it is given), and the exact gradient is what ``UNBIASED`` declares, neither better nor worse. Token and agent rules
    are shown tasks with tokens inside actions and agents in turn (``testing.exact_tokens``), once with an arbitrary
    critic, which ``UNBIASED`` and ``CLAIMS`` are about, and once with the exact one for ``CLAIMS_EXACT_CRITIC``.

    A rule over rollouts declares ``RECORD = "rollout"`` and is checked by ``testing.rollout_credit`` instead: purity,
    who is absent is not scored, environments and attempts do not know of each other, and the exact gradient of a small
    team game.

    Raises:
        BadInput: the first promise that is broken, with what was seen; or what the rule itself raised, with its line.
    """
    _declarations(rule)
    with speaking(rule):
        return _checked(rule, config)


def _checked(rule: Any, config: Any) -> list[str]:
    if getattr(rule, "RECORD", "episode") == "rollout":
        return ["declarations", *check_rollout_rule(rule, config)]
    level = rule.LEVEL
    # rules for tokens and agents read the critic's notes instead
    critic = (lambda e: np.linspace(0.3, -0.4, e.n_steps + 1)) if level == "step" else None
    assign = configured(rule, config, critic)
    done = ["declarations"]
    for check in (_pure, _empty, _invalid, _padding):
        check(rule, assign)
        done.append(check.__name__.strip("_"))
    if level != "memory":  # values of memories are learned in the order of events
        _order(rule, assign)
        done.append("order")
    if level in ("token", "step", "agent"):
        if getattr(rule, "SCOPE", "group") == "group":
            _groups(rule, assign)
            done.append("groups")
        if config is None:
            _exact(rule)
            done.append("exact gradient")
    return done


def _exact(rule: Any) -> None:
    for critic, settings, claim in claims(rule):
        if rule.LEVEL == "step" and critic == "wrong":
            reports = measure(rule, settings, seeds=range(3))
        else:
            reports = measure_tokens(rule, settings, seeds=range(3), critic=critic)
        check_claim(rule, reports, critic, settings, claim)


def sample_episodes() -> list[Episode]:
    """Two groups of attempts of different lengths, truncated and invalid ones among them, every level represented."""
    rng = np.random.default_rng(0)
    out: list[Episode] = []
    for n in range(14):
        # both components in every combination, twice each, before the odd cases
        out.append(_attempt(rng, n, steps=1 + n % 3, group="even" if n % 2 else "odd", mask=(n // 2) % 4))
    out[9].add_reward(50.0)  # an outlier among the invalid
    for n in (9, 12):
        out[n].valid = False
    return out


def _attempt(rng: np.random.Generator, n: int, *, steps: int, group: str, mask: int, padding: bool = False) -> Episode:
    cut = n % 5 == 0
    ep = Episode(f"{group} task", group=group, id=f"e{n}")
    for i, name in enumerate(("planner", "critic")):
        if mask >> i & 1:
            ep.component(name)
    for t in range(steps):
        ep.observe(f"turn {t}")
        if padding:
            ep.tool("look", {"at": t}, "nothing")
            ep.observe("nothing new")
        if t == 0:
            shown = rng.random(2) < 0.7
            ids = [m for m, s in zip(("m1", "m2"), shown, strict=True) if s]
            left = [m for m, s in zip(("m1", "m2"), shown, strict=True) if not s]
            ep.recall(f"r{n}", ids, omitted=left, propensity={"m1": 0.7, "m2": 0.7})
        tokens = 1 + (n + t) % 3
        ep.act(
            f"act {t}",
            agent=("left", "right")[t % 2],
            token_ids=range(tokens),
            logp=-rng.random(tokens),
            reward=float(rng.normal()),
        )
    noted = np.random.default_rng([n, 7])
    for name in ("entropy", *NOTES):
        ep.note(name, noted.random(ep.n_tokens))
    ep.end(terminated=not cut, truncated=cut, success=n % 2 == 0)
    ep.final_value = 0.2 if cut else None
    give_kinds(ep, lambda name: arbitrary(n, name), budget=2 + n % 2)
    return ep


def _declarations(rule: Any) -> None:
    level, claim = getattr(rule, "LEVEL", None), getattr(rule, "UNBIASED", "missing")
    if level not in LEVELS:
        _broken(rule, "LEVEL is not a level", level, LEVELS)
    feeds_gradient = level in ("token", "step", "agent")
    allowed = (True, False, "up to scale") if feeds_gradient else (None,)
    if not any(claim is a or (isinstance(a, str) and claim == a) for a in allowed):
        _broken(rule, "UNBIASED is not declared as it must be", claim, allowed)
    if not callable(getattr(rule, "assign", None)):
        _broken(rule, "no function assign", getattr(rule, "assign", None), "def assign(episodes, config) -> Ledger")
    if not inspect.getdoc(rule):
        _broken(rule, "no docstring", "", "paper, equations, deviations, biased or not and why")
    if getattr(rule, "RECORD", "episode") not in ("episode", "rollout"):
        _broken(rule, "RECORD is not a record", rule.RECORD, '"episode" or "rollout"')
    if hasattr(rule, "Config") and not (is_dataclass(rule.Config) and rule.Config.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        _broken(rule, "Config is not a frozen dataclass", rule.Config, "@dataclass(frozen=True)")


def _pure(rule: Any, assign: Assign) -> None:
    episodes = sample_episodes()
    before = [e.to_dict() for e in episodes]
    first, again = assign(episodes), assign(episodes)
    if [e.to_dict() for e in episodes] != before:
        _broken(rule, "assign changed an episode", "another record", "a pure function")
    if not isinstance(first, Ledger) or list(first.episodes) != episodes:
        got = f"{type(first).__name__}" + (
            "" if not isinstance(first, Ledger) else " of other episodes, or in another order"
        )
        _broken(rule, "assign must return a ledger of the episodes it was given, in order", got, "Ledger")
    if np.isnan(first.values(rule.LEVEL)).all():
        scored = [level for level in LEVELS if not np.isnan(first.values(level)).all()]
        got = f"credit at level {' and '.join(scored)}" if scored else "no credit at any level"
        _broken(rule, "nothing was scored at the declared level", got, f"LEVEL = {rule.LEVEL!r}")
    if not np.array_equal(first.values(rule.LEVEL), again.values(rule.LEVEL), equal_nan=True):
        _broken(rule, "two calls with one input differ", "different credit", "a pure function")


def _empty(rule: Any, assign: Assign) -> None:
    if assign([]).size(rule.LEVEL) != 0:
        _broken(rule, "credit without episodes", "entries", "an empty ledger")


def _invalid(rule: Any, assign: Assign) -> None:
    episodes = sample_episodes()
    valid = [e for e in episodes if e.valid]
    whole, clean = _by_episode(assign(episodes), rule.LEVEL), _by_episode(assign(valid), rule.LEVEL)
    for e in episodes:
        if not e.valid and not np.isnan(whole[e.id]).all():
            _broken(rule, "an invalid episode was credited", whole[e.id].tolist(), "not scored (NaN)")
        if e.valid and not np.allclose(whole[e.id], clean[e.id], rtol=0, atol=1e-12, equal_nan=True):
            _broken(rule, "an invalid episode changed the credit of others", e.id, "no influence")


def _padding(rule: Any, assign: Assign) -> None:
    plain, padded = (
        [
            _attempt(np.random.default_rng(n), n, steps=1 + n % 3, group="g", mask=n % 4, padding=padding)
            for n in range(8)
        ]
        for padding in (False, True)
    )
    if not np.allclose(
        assign(plain).values(rule.LEVEL), assign(padded).values(rule.LEVEL), rtol=0, atol=1e-12, equal_nan=True
    ):
        _broken(rule, "nodes that decide nothing changed the credit", "another value", "the same")


def _order(rule: Any, assign: Assign) -> None:
    episodes = sample_episodes()
    want = _by_episode(assign(episodes), rule.LEVEL)
    for seed in range(3):
        shuffled = [episodes[i] for i in np.random.default_rng(seed).permutation(len(episodes))]
        _same(rule, "the order of the episodes changed the credit", want, _by_episode(assign(shuffled), rule.LEVEL))


def _groups(rule: Any, assign: Assign) -> None:
    episodes = sample_episodes()
    want = _by_episode(assign(episodes), rule.LEVEL)
    for group in ("odd", "even"):
        alone = _by_episode(assign([e for e in episodes if e.group == group]), rule.LEVEL)
        _same(rule, "another group changed the credit", {k: want[k] for k in alone}, alone)


def _same(rule: Any, promise: str, want: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> None:
    for key, values in want.items():
        if not np.allclose(values, got[key], rtol=0, atol=1e-9, equal_nan=True):
            _broken(rule, promise, f"{key}: {got[key].tolist()}", values.tolist())


def _by_episode(ledger: Ledger, level: str) -> dict[str, np.ndarray]:
    where, values = ledger.episode_index(level), ledger.values(level)
    return {e.id: values[where == i] for i, e in enumerate(ledger.episodes)}
