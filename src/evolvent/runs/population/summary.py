"""What a run over populations leaves at its end: files of the mixture and the payoffs, plays of it, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.game import encode_game
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.credit import component_member
from evolvent.formulas import meta_games
from evolvent.runs.population import response, tabular
from evolvent.runs.population.config import PopulationConfig
from evolvent.runs.population.payoffs import Payoffs

MIXTURE, PAYOFFS, MATCHES = "mixture.json", "payoffs.json", "matches.jsonl"


def settled(config: PopulationConfig, folder: RunFolder) -> bool:
    """Whether the mixture of the last iteration is good enough to stop."""
    rows = folder.read_metrics()[-1:]
    if rows and config.judge:
        return rows[0]["nash_conv"] < config.tolerance
    return bool(rows) and rows[0]["gain"] + 1.96 * rows[0]["gain_error"] < config.tolerance


def summarise(
    config: PopulationConfig,
    folder: RunFolder,
    game: tabular.Tree,
    members: Sequence[Sequence[np.ndarray]],
    payoffs: Payoffs,
    mixture: Sequence[np.ndarray],
    policies: Sequence[np.ndarray],
) -> dict[str, Any]:
    """Write the files, and return the summary.

    ``mixture.json`` is one policy of all players, ``{information state: [[move, probability], …]}``, as
    ``pyspiel.nash_conv(game, …)`` takes it.
    """
    path, rows = folder.path, folder.read_metrics()
    exported = {knows: [list(one) for one in moves] for knows, moves in tabular.as_openspiel(game, policies).items()}
    write_atomic(path / MIXTURE, dump(exported) + "\n")
    write_atomic(path / PAYOFFS, dump(payoffs.as_json()) + "\n")
    plays = (response.record(game.name, members, mixture, config.seed, i) for i in range(config.matches))
    write_atomic(path / MATCHES, (encode_game(one) + "\n" for one in plays))
    gain = rows[-1]["gain"] if rows else None
    score = {"name": "gain of the last responses", "value": gain}
    if config.judge:
        score = {"name": "NashConv", "value": tabular.nash_conv(game, policies)}
    return {
        "env": config.env,
        "game": game.name,
        "seed": config.seed,
        "score": score,
        "gain": gain,
        "stopped": settled(config, folder),
        "iterations": len(rows),
        "values": meta_games.values(payoffs.mean, mixture).tolist(),
        "mixture": [x.tolist() for x in mixture],
        "credit": credits_of(game.name, payoffs.mean),
        "steps": len(rows),
    }


def credits_of(game: str, mean: np.ndarray) -> dict[str, list[list[float]]]:
    """What each member adds, by index and player; empty for games other than zero-sum ones of two."""
    if len(mean) != 2 or np.abs(mean.sum(axis=0)).max() > 1e-6:
        return {}
    episodes = [_play(game, cell, float(mean[0][cell])) for cell in np.ndindex(mean.shape[1:])]
    found: dict[str, list[list[float]]] = {}
    for index in ("joined", "left_out"):
        ledger = component_member.assign(episodes, component_member.Config(index))
        values = ledger.values("component").reshape(*mean.shape[1:], 2)
        both = (values[:, 0, 0].tolist(), values[0, :, 1].tolist())
        found[index] = [[round(value, 9) for value in one] for one in both]
    return found


def _play(game: str, cell: Sequence[int], reward: float) -> Episode:
    """What two members earn against each other, as a record."""
    ep = Episode(game, env=game, id=f"{cell[0]}-{cell[1]}")
    for p, k in enumerate(cell):
        ep.component(f"player {p}", implementation=f"member {k}")
    ep.act("a play", reward=reward)
    ep.end(terminated=True)
    return ep
