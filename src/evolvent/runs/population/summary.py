"""What a run over populations leaves at its end: files of the mixture and the payoffs, plays of it, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.game import encode_game
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.credit import component_member
from evolvent.formulas import meta_games
from evolvent.runs.population import response, tabular

if TYPE_CHECKING:
    from evolvent.runs.population.run import Population

MIXTURE, PAYOFFS, MATCHES = "mixture.json", "payoffs.json", "matches.jsonl"


def summarise(
    population: Population, mixture: Sequence[np.ndarray], policies: Sequence[np.ndarray], judged: float | None
) -> dict[str, Any]:
    """Write the files, and return the summary.

    ``mixture.json`` is one policy of all players, ``{information state: [[move, probability], …]}``, as
    ``pyspiel.nash_conv(game, …)`` takes it.
    """
    config, path, game = population.config, population.folder.path, population.game
    exported = {knows: [list(one) for one in moves] for knows, moves in tabular.as_openspiel(game, policies).items()}
    write_atomic(path / MIXTURE, dump(exported) + "\n")
    write_atomic(path / PAYOFFS, dump(population.payoffs.as_json()) + "\n")
    plays = (response.record(game.name, population.members, mixture, config.seed, i) for i in range(config.matches))
    write_atomic(path / MATCHES, (encode_game(one) + "\n" for one in plays))
    rows = population.folder.read_metrics()
    gain = rows[-1]["gain"] if rows else None
    score = (
        {"name": "gain of the last responses", "value": gain}
        if judged is None
        else {"name": "NashConv", "value": judged}
    )
    return {
        "env": config.env,
        "game": game.name,
        "seed": config.seed,
        "score": score,
        "gain": gain,
        "stopped": population.settled(),
        "iterations": len(rows),
        "values": meta_games.values(population.payoffs.mean, mixture).tolist(),
        "mixture": [x.tolist() for x in mixture],
        "credit": credits_of(population),
        "steps": len(rows),
    }


def credits_of(population: Population) -> dict[str, list[list[float | None]]]:
    """What each member adds, by index and player; empty for games other than zero-sum ones of two."""
    mean = population.payoffs.mean
    if len(mean) != 2 or np.abs(mean.sum(axis=0)).max() > 1e-6:
        return {}
    episodes = [_play(population.game.name, cell, float(mean[0][cell])) for cell in np.ndindex(mean.shape[1:])]
    found: dict[str, list[list[float | None]]] = {}
    for index in ("joined", "left_out"):
        ledger = component_member.assign(episodes, component_member.Config(index))
        values = ledger.values("component").reshape(*mean.shape[1:], 2)
        both = (values[:, 0, 0].tolist(), values[0, :, 1].tolist())
        found[index] = [[None if value != value else round(value, 9) for value in one] for one in both]
    return found


def _play(game: str, cell: Sequence[int], reward: float) -> Episode:
    """What two members earn against each other, as a record."""
    ep = Episode(game, env=game, id=f"{cell[0]}-{cell[1]}")
    for p, k in enumerate(cell):
        ep.component(f"player {p}", implementation=f"member {k}")
    ep.act("a play", reward=reward)
    ep.end(terminated=True)
    return ep
