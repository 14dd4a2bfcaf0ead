"""How fast a team acts and learns: the joint policy against decoding anew for every agent, and the environment alone.

Shapes are those of StarCraft maps with 3, 10 and 27 agents (observations 64, 289, 1288; actions 9, 17, 36) and of small
robots (two numbers an agent), 32 copies, width 64, one block, one head, one thread. Ratios are medians over rounds in
which both sides take their turn; on a CPU of this process's own time, on a GPU of the clock's.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from evolvent import envs
from evolvent.algos import happo, mappo, mat
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng, seed_tree
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.models.team.action_heads import BLOCKED
from evolvent.models.team.actors import Actors, Critic
from evolvent.models.team.joint import JointPolicy

from . import _marl_update as update
from . import _marl_whole as whole
from ._marl_clock import in_turns, ratio
from ._marl_reference import PlainJoint

COPIES, WIDTH, MANY = 32, 64, 1024
SHAPES = {3: (64, 9), 10: (289, 17), 27: (1288, 36)}
KINDS = ("discrete", "continuous")
OPEN = 0.7
PASSES = 3
Progress = Callable[[str], None]
# what is promised: names of ratios and shares with the least value
TARGETS = {
    "redecoding_over_act_discrete_27": 5.0,
    "redecoding_over_act_discrete_3": 1.8,
    "redecoding_over_act_continuous_27": 5.0,
    "redecoding_over_act_continuous_3": 1.8,
    "separate_one_by_one_over_act_discrete_27": 1.0,
    "plain_over_update_discrete_3": 2.0,
    "plain_over_update_discrete_10": 2.0,
    "plain_over_update_discrete_27": 2.0,
    "plain_over_update_continuous_3": 2.0,
    "plain_over_update_continuous_10": 2.0,
    "plain_over_update_continuous_27": 2.0,
}
SHARES = {"mat_vmas_share_whole": 0.6, "mat_mamujoco_share_whole": 0.5}


def run(
    seed: int = 0,
    sizes: Sequence[int] = (3, 10, 27),
    device: str = "cpu",
    rounds: int = 15,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure acting, learning and whole runs; about five minutes on an idle core.

    Args:
        seed: of weights, inputs and environments.
        sizes: numbers of agents.
        device: of the networks: cpu, cuda.
        rounds: measurements of each kind; whole runs take a fifth.
        progress: called with a line of text now and then.

    Returns:
        ``ratios``, ``milliseconds`` (acting: of one step of 32 copies; update: of one pass over 20 steps of 32
        copies), ``most_possible``: the ratio, or the share of random actions' speed, that ours would reach if all its
        time were matrix products at the rate measured here (CPU only), ``whole``: runs against random actions,
        ``checks``: what of the targets is reached.
    """
    say = progress or (lambda text: None)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("no GPU is at hand", got=device, expected="cpu", where="bench marl --device")
    threads, load = torch.get_num_threads(), [round(x, 1) for x in os.getloadavg()]
    torch.set_num_threads(1)
    result: dict[str, Any] = {
        "name": "marl",
        "seed": seed,
        "torch_threads": 1,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "ratios": {},
        "milliseconds": {},
        "gflop": {},
        "most_possible": {},
        "whole": {},
        "load_before": load,
    }
    try:
        for n in sizes:
            for kind in KINDS:
                say(f"{n} agents, {kind} actions")
                _measure_team(n, kind, seed, device, rounds, result)
        for n in sizes:
            _measure_env(n, seed, device, rounds, result)
        for name, measure in _whole_runs(seed, device, max(2, rounds // 5)).items():
            say(f"whole run: {name}")
            result["whole"][name] = measure()
        if device == "cpu":
            result["most_possible"] |= _ceilings(result["whole"], rounds)
    finally:
        torch.set_num_threads(threads)
    result["load_after"] = [round(x, 1) for x in os.getloadavg()]
    result["checks"] = _checks(result)
    return result


def shape(n: int, kind: str) -> TeamSpec:
    """The team of ``n`` agents with the sizes of the maps, interpolated between them."""
    obs, choices = (int(np.interp(n, list(SHAPES), column)) for column in zip(*SHAPES.values(), strict=True))
    names = tuple(f"agent{i}" for i in range(n))
    spec, width = (ActionSpec(choices), obs) if kind == "discrete" else (ActionSpec(dims=2), 24 + n)
    return TeamSpec(names, width, (spec,) * n)


def frames(team: TeamSpec, count: int, copies: int, seed: int) -> list[Frame]:
    """Observations of noise, 70 % of the choices open."""
    generator = rng(seed, "bench", "frames")
    out: list[Frame] = []
    for _ in range(count):
        obs = generator.standard_normal((copies, team.n_agents, team.obs_dim), dtype=np.float32)
        available = None
        if team.choices:
            available = generator.random((copies, team.n_agents, team.choices)) < OPEN
            available[..., 0] = True
        reward = generator.standard_normal((copies, 1), dtype=np.float32).repeat(team.n_agents, 1)
        ended = generator.random(copies) < 0.02
        out.append(Frame(obs, reward, ended, np.zeros_like(ended), available, final_obs_BAD=obs))
    return out


def _measure_team(n: int, kind: str, seed: int, device: str, rounds: int, result: dict[str, Any]) -> None:
    torch.manual_seed(seed_tree(seed, "bench", n))
    team, place = shape(n, kind), torch.device(device)
    policy = JointPolicy(team, team.obs_dim, width=WIDTH).to(place)
    local = JointPolicy(team, team.obs_dim, width=WIDTH, actor="local").to(place)
    actors, critic = Actors(team, team.obs_dim).to(place), Critic(team.obs_dim).to(place)
    seen = frames(team, update.HORIZON + 1, COPIES, seed)
    obs = torch.from_numpy(seen[0].obs_BAD).to(place)
    mask = seen[0].available_BAN
    open_ = None if mask is None else torch.from_numpy(mask).to(place)
    plain, plain_local = PlainJoint(policy), PlainJoint(local)

    def separate() -> None:
        actors.act(obs, available_BAN=open_)
        with torch.no_grad():
            critic(obs[:, 0])

    spent = in_turns(
        {
            "act": lambda: policy.act(obs, available_BAN=open_),
            "redecoding": lambda: plain.act(obs, open_),
            "act_local": lambda: local.act(obs, available_BAN=open_),
            "redecoding_local": lambda: plain_local.act(obs, open_),
            "separate": separate,
            "separate_one_by_one": lambda: _one_by_one(actors, critic, obs, open_),
        },
        rounds,
        device=device,
        warm=2,
    )
    at = f"{kind}_{n}"
    for name, times in spent.items():
        result["milliseconds"][f"{name}_{at}"] = times.milliseconds()
    ratios = result["ratios"]
    for over, under in (
        ("redecoding", "act"),
        ("redecoding_local", "act_local"),
        ("separate_one_by_one", "act"),
        ("separate", "act"),
        ("separate_one_by_one", "separate"),
    ):
        ratios[f"{over}_over_{under}_{at}"] = ratio(spent[over], spent[under], device)
    _measure_update(team, policy, seen, at, seed, device, rounds, result)


def _measure_update(
    team: TeamSpec,
    policy: JointPolicy,
    seen: list[Frame],
    at: str,
    seed: int,
    device: str,
    rounds: int,
    result: dict[str, Any],
) -> None:
    sides = update.make(team, policy, seen, torch.device(device), seed)
    spent = in_turns(
        {"update": lambda: sides.ours(PASSES), "plain": lambda: sides.plain(PASSES)}, max(2, rounds // 3), device=device
    )
    rollout, slow_gae = sides.batch.rollout, update.plain_gae(sides.batch.rollout)
    gae = in_turns({"gae": lambda: update.agent_gae.assign(rollout), "plain_gae": slow_gae}, rounds)
    for name, times in (spent | gae).items():
        calls = PASSES if name in spent else 1
        result["milliseconds"][f"{name}_{at}"] = times.milliseconds(calls)
    result["ratios"][f"plain_over_update_{at}"] = ratio(spent["plain"], spent["update"], device)
    result["ratios"][f"plain_over_gae_{at}"] = ratio(gae["plain_gae"], gae["gae"], "cpu")
    work, plain_work = (update.flops(lambda side=side: side(1)) / 1e9 for side in (sides.ours, sides.plain))
    result["gflop"] |= {f"update_{at}": round(work, 3), f"plain_{at}": round(plain_work, 3)}
    if device == "cpu":
        plain_s = result["milliseconds"][f"plain_{at}"]["cpu"] / 1e3
        rate = _gflop_per_s(team, rounds)
        result["gflop"][f"per_second_{at}"] = round(rate, 1)
        result["most_possible"][f"plain_over_update_{at}"] = round(plain_s / (work / rate), 2)


def _gflop_per_s(team: TeamSpec, rounds: int) -> float:
    """The rate of the largest product of an update, of this process's own time."""
    rows = update.HORIZON * COPIES * team.n_agents
    x, w = torch.randn(rows, team.obs_dim), torch.randn(team.obs_dim, WIDTH)
    narrow = torch.randn(rows, WIDTH), torch.randn(WIDTH, WIDTH)
    spent = in_turns({"wide": lambda: x @ w, "narrow": lambda: narrow[0] @ narrow[1]}, max(5, rounds))
    rates = (
        2e-9 * rows * width * WIDTH / np.median(spent[name].cpu)
        for name, width in (("wide", team.obs_dim), ("narrow", WIDTH))
    )
    return float(max(rates))


def _one_by_one(actors: Actors, critic: Critic, obs_BAD: torch.Tensor, available_BAN: torch.Tensor | None) -> None:
    """Separate actors as released code runs them: one after another, each with its distribution object."""
    with torch.no_grad():
        for i in range(actors.n_agents):
            member: Any = actors.members[i]
            out = member.net(obs_BAD[:, i])
            if actors.action.choices:
                logits = out if available_BAN is None else out.masked_fill(~available_BAN[:, i], BLOCKED)
                dist = torch.distributions.Categorical(logits=logits)
            else:
                dist = torch.distributions.Normal(out, member.sigma.expand_as(out))
            dist.log_prob(dist.sample())
        critic(obs_BAD[:, 0])


def _measure_env(n: int, seed: int, device: str, rounds: int, result: dict[str, Any]) -> None:
    """Acting for the built-in spread against the environment alone."""
    env = envs.load_team(f"spread:n={n}", COPIES)
    policy = JointPolicy(env.team, env.team.obs_dim, width=WIDTH).to(device)
    obs = torch.from_numpy(env.reset(seed).obs_BAD.copy()).to(device)
    action = policy.act(obs).action.cpu().numpy()
    spent = in_turns({"act": lambda: policy.act(obs), "env": lambda: env.step(action)}, rounds, device=device)
    env.close()
    for name, times in spent.items():
        result["milliseconds"][f"{name}_spread_{n}"] = times.milliseconds()
    result["ratios"][f"act_over_env_spread_{n}"] = ratio(spent["act"], spent["env"], device)


def _whole_runs(seed: int, device: str, rounds: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Published settings but for the sizes: 8 steps of 1,024 copies an update, or 50 of 16."""
    many = {"seed": seed, "device": device, "envs": MANY, "horizon": 8}
    few = {"seed": seed, "device": device, "envs": 16, "horizon": 50, "workers": 2}
    spread, robot, scenario = "spread:n=3", "mamujoco:HalfCheetah-6x1", "simple_spread"
    vmas = f"vmas:{scenario}" + ("" if device == "cpu" else f",device={device}")
    # where it runs, settings, random actions, their steps between two updates
    places: dict[str, tuple[dict[str, Any], Callable[[], Any], int]] = {
        "spread": (many | {"env": spread}, lambda: whole.team_random(spread, MANY, 8), 8)
    }
    if importlib.util.find_spec("vmas"):
        places["vmas"] = many | {"env": vmas}, lambda: whole.vmas_random(scenario, MANY, 8, device), 8
    if importlib.util.find_spec("gymnasium_robotics"):
        places["mamujoco"] = few | {"env": robot}, lambda: whole.team_random(robot, 16, 50, workers=2), 50

    def work(algo: Any, settings: dict[str, Any], random: Callable[[], Any], steps: int) -> dict[str, Any]:
        return whole.against_random(algo, with_fields(algo.Config(), **settings), random, steps, rounds)

    return {
        f"{algo.__name__.rpartition('.')[2]}_{name}": functools.partial(work, algo, *place)
        for algo in (mat, happo, mappo)
        for name, place in places.items()
    }


def _ceilings(runs: dict[str, dict[str, Any]], rounds: int) -> dict[str, float]:
    """Shares of random actions' speed that MAT could reach if only its matrix products took time.

    One step of all copies costs the environment's own time, the products of acting, and those of ``epochs`` passes.
    """
    found: dict[str, float] = {}
    # copies, agents, what an agent sees with its number, numbers it acts with
    sizes = {"mat_spread": (MANY, 3, 20, 2), "mat_vmas": (MANY, 3, 17, 2), "mat_mamujoco": (16, 6, 13, 1)}
    for name, (copies, n, width, dims) in sizes.items():
        if name not in runs:
            continue
        team = TeamSpec(tuple(f"agent{i}" for i in range(n)), width, (ActionSpec(dims=dims),) * n)
        policy, obs = JointPolicy(team, width, width=WIDTH), torch.randn(copies, n, width)
        action = policy.act(obs).action

        def learn(policy: JointPolicy = policy, obs: torch.Tensor = obs, action: torch.Tensor = action) -> None:
            now = policy.logprobs(obs, action)
            (now.logp_BAP.sum() + now.value_BA.sum()).backward()

        rate = 1e9 * _gflop_per_s(team, rounds)
        act_s = update.flops(lambda policy=policy, obs=obs: policy.act(obs)) / rate
        learn_s = mat.Config().epochs * update.flops(learn) / rate
        env_s = copies / runs[name].get("random_cpu", runs[name]["random"])
        found[f"{name}_share_collect"] = round(env_s / (env_s + act_s), 4)
        found[f"{name}_share_whole"] = round(env_s / (env_s + act_s + learn_s), 4)
    return found


def _checks(result: dict[str, Any]) -> dict[str, bool]:
    checks = {
        f"{name}_of_{least:g}": result["ratios"][name] >= least
        for name, least in TARGETS.items()
        if name in result["ratios"]
    }
    for name, least in SHARES.items():
        run_name, _, share = name.partition("_share")
        if run_name in result["whole"]:
            found = result["whole"][run_name]
            reached = found.get(f"share{share}_cpu", found[f"share{share}"])
            checks[f"{name}_of_{least:g}"] = reached >= least
    return checks
