"""A run that grows a population for each player of a game: what its loop calls, its files, and how it goes on.

``population.jsonl`` is its store: a line for the beginning and one an iteration, with the new members and what was
found about cells of the payoff table. Taken in again in their order, the lines give the table to the last bit; a line
without its line in the metrics is dropped. ``tasks.jsonl`` says what each worker did when.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, lines, write_atomic
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live, number
from evolvent.formulas.meta_games import Mixture
from evolvent.runs.population import response, tabular
from evolvent.runs.population.config import PopulationConfig
from evolvent.runs.population.payoffs import Cell, Payoffs, Plays
from evolvent.runs.population.summary import settled, summarise
from evolvent.runs.population.tasks import Done, Tasks, workers
from evolvent.runs.shell import Phase, Shell

STORE, TASKS = "population.jsonl", "tasks.jsonl"
Solver = Callable[[np.ndarray], Mixture]
Answer = tuple[int, Sequence[np.ndarray]]
"""A player, and weights of every player's members (its own are not read): what a new member of it answers."""
Found = list[tuple[Cell, Plays]]
_PHASES: dict[str, Phase] = {"response": "learn", "plays": "act", "more": "act"}


@dataclass
class Population:
    """See the module; made by ``open_population``.

    Attributes:
        members: by player, its policies ``[I, N]``, the oldest first.
    """

    config: PopulationConfig
    game: tabular.Tree
    folder: RunFolder
    shell: Shell
    tasks: Tasks
    solve: Solver
    payoffs: Payoffs
    members: list[list[np.ndarray]]
    _row: dict[str, Any] = field(default_factory=dict[str, Any])
    _spent: list[Done] = field(default_factory=list[Done])
    _mixture: Mixture = ()
    _answers: Sequence[Answer] = ()

    # ---------------------------------------------------------------------------------------------- the loop
    def updates(self) -> Iterator[int]:
        """The numbers of the iterations to do."""
        return self.shell.updates()

    def judge(self) -> Mixture:
        """Solve the meta-game, and begin to judge its mixture beside what follows."""
        with self.shell.clock("credit"):
            self._mixture = self.solve(self.payoffs.mean)
        shown = [{str(k): round(float(x[k]), 4) for k in np.flatnonzero(x)} for x in self._mixture]
        self._row = {"members": [len(own) for own in self.members], "mixture": shown}
        if self.config.judge:
            self.tasks.start("judge", response.judged, self.game.name, self.mixed(self._mixture))
        return self._mixture

    def respond(self, answers: Sequence[Answer]) -> None:
        """Begin a response for each answer."""
        self._answers = answers
        for i, (player, weights) in enumerate(answers):
            seed = seed_tree(self.config.seed, "response", self.shell.update, i)
            given = (self.game.name, player, self.mixed(weights), seed, self.config.budget)
            self.tasks.start(f"response {i}", response.RESPONSES[self.config.response], *given)

    def match(self) -> None:
        """Let every new member play against all as soon as it is there, then more where the meta-game is uncertain."""
        everybody, old = range(self.game.players), [len(own) for own in self.members]
        asked = [p for p, _ in self._answers]
        places = [old[p] + asked[:i].count(p) for i, p in enumerate(asked)]
        members = [dict(enumerate(own)) for own in self.members]
        found: Found = []
        while (done := self.tasks.next()) is not None:
            self._spent.append(done)
            what, _, i = done.name.partition(" ")
            if what == "judge":
                self._row["nash_conv"] = done.value
            elif what == "plays":
                found += done.value
            else:
                p, place = asked[int(i)], places[int(i)]
                tabular.check_policy(self.game, p, done.value, f"the response {self.config.response}")
                members[p][place] = done.value
                self._play(
                    f"plays {i}", members, itertools.product(*([place] if q == p else range(old[q]) for q in everybody))
                )
                if sum(map(len, members)) == sum(old) + len(asked):  # all are there: new ones against new ones
                    every = itertools.product(*(range(len(own)) for own in members))
                    self._play("plays new", members, (c for c in every if sum(map(int.__ge__, c, old)) > 1))
        self.members = [[own[k] for k in sorted(own)] for own in members]
        self.payoffs.grow([len(own) for own in self.members])
        found = self._take(found) + self._more()
        self._row["gain"], self._row["gain_error"] = self.payoffs.gain(self._mixture)
        _append(self.folder.path / STORE, _line([own[n:] for own, n in zip(self.members, old, strict=True)], found))

    def log(self) -> None:
        """End the iteration."""
        now, row = self.shell.update + 1, self._row
        for done in self._spent:
            kind = done.name.partition(" ")[0]
            times = {name: round(getattr(done, name), 4) for name in ("asked", "began", "ended")}
            _append(self.folder.path / TASKS, {"iteration": now, "task": done.name, "worker": done.worker, **times})
            if kind in _PHASES:
                self.shell.seconds[_PHASES[kind]] += done.ended - done.began
            else:
                row["judge_s"] = round(done.ended - done.began, 4)
        self._spent.clear()
        row["plays"] = int(np.maximum(self.payoffs.count, 0).sum())
        self.shell.log(now, row, {})
        said = f"NashConv {number(row['nash_conv'])}" if "nash_conv" in row else f"gain {number(row['gain'])}"
        self.shell.tell([said])

    def finish(self, algo: str) -> dict[str, Any]:
        """Judge the last mixture, write what there is, and return the summary that stands in ``summary.json``."""
        mixture = self.solve(self.payoffs.mean)
        found = (self.members, self.payoffs, mixture, self.mixed(mixture))
        return {"algo": algo, **summarise(self.config, self.folder, self.game, *found)}

    # ---------------------------------------------------------------------------------------------- its parts
    def mixed(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A policy a player that earns what the mixture of its members earns."""
        both = enumerate(zip(self.members, weights, strict=True))
        return [tabular.mixed(self.game, p, np.stack(own), x) for p, (own, x) in both]

    def _play(self, name: str, members: list[dict[int, np.ndarray]], cells: Iterable[Cell], times: int = 1) -> None:
        asked = [(cell, self.config.plays * times) for cell in cells]
        if asked:
            used = [{k: own[k] for k in {cell[p] for cell, _ in asked}} for p, own in enumerate(members)]
            seed = seed_tree(self.config.seed, name.partition(" ")[0], self.shell.update)
            self.tasks.start(name, response.played, self.game.name, used, asked, seed)

    def _more(self) -> Found:
        if not self.config.plays or not self.config.more:
            return []
        members = [dict(enumerate(own)) for own in self.members]
        cells = self.payoffs.uncertain(self.solve(self.payoffs.mean), self.config.plays, self.config.more)
        for i, (cell, times) in enumerate(Counter(cells).items()):
            self._play(f"more {i}", members, [cell], times)
        found: Found = []
        while (done := self.tasks.next()) is not None:
            self._spent.append(done)
            found += done.value
        return self._take(found)

    def _take(self, found: Found) -> Found:
        """Into the table, in the order of the cells, whichever came first."""
        found = sorted(found, key=lambda one: one[0])
        for cell, plays in found:
            self.payoffs.add(cell, plays)
        return found

    def begin(self, members: list[list[np.ndarray]]) -> None:
        """Begin with these members: what all of them earn, into the store."""
        self.members = members
        for p, policy in ((p, one) for p, own in enumerate(members) for one in own):
            tabular.check_policy(self.game, p, policy, "the population at the beginning")
        self.payoffs.grow([len(own) for own in members])
        self._play("plays 0", [dict(enumerate(own)) for own in members], self.payoffs.unknown())
        done = self.tasks.next()
        found = self._take(done.value if done else [])
        first = {"game": self.game.name, **_line(members, found)}
        write_atomic(self.folder.path / STORE, dump(first) + "\n")

    def go_on(self) -> None:
        """Stand where the store does; what has no line in the metrics is dropped."""
        store = self.folder.path / STORE
        rows = list(lines(store))
        done = min(len(rows) - 1, len(self.folder.read_metrics()))
        write_atomic(store, (dump(row) + "\n" for row in rows[: done + 1]))
        kept = [row for row in lines(self.folder.path / TASKS) if row["iteration"] <= done]
        write_atomic(self.folder.path / TASKS, (dump(row) + "\n" for row in kept))
        for row in rows[: done + 1]:
            for p, own in enumerate(_members(self.game, row)):
                self.members[p] += own
            self.payoffs.grow([len(own) for own in self.members])
            for cell, *plays in row["cells"]:
                self.payoffs.add(tuple(cell), Plays(plays[0], tuple(plays[1]), tuple(plays[2])))
        self.shell.go_on(done, done)


@contextmanager
def open_population(
    config: PopulationConfig, folder: RunFolder, live: Live, solve: Solver, *, resume: bool = False
) -> Iterator[Population]:
    """The population of a run: as it begins, or as it stands where it was stopped.

    Raises:
        BadInput: no such game, one too large for tables, a population of another game; what ``solve`` refuses.
    """
    game = tabular.tree(game_name(config.env))
    members: list[list[np.ndarray]] = [[] for _ in range(game.players)]
    if config.start:
        first = stored(Path(config.start), game)
    else:
        make = {"uniform": game.uniform, "pure": game.pure}[config.first]
        first = [[make(p)] for p in range(game.players)]
    with workers(config.workers) as tasks:
        shell = Shell(folder, live, config.iterations, resume=resume, unit="iteration")
        found = Population(config, game, folder, shell, tasks, solve, Payoffs(game.players), members)
        shell.spent = lambda: float(settled(config, folder))
        if resume and (folder.path / STORE).exists():
            found.go_on()
        else:
            found.begin(first)
        solve(found.payoffs.mean)  # what does not suit the game is found before anything is learned
        yield found


def game_name(env: str) -> str:
    """The game of OpenSpiel that an environment is.

    Raises:
        BadInput: no such game, or it has none.
    """
    with closing(envs.load_game(env, 1)) as one:
        if not one.game.openspiel:
            do = "see `evolvent list envs`"
            raise BadInput("OpenSpiel has no such game", got=env, expected="a game of it", where="--env", do=do)
        return one.game.openspiel.removesuffix("()")


def stored(path: Path, game: tabular.Tree) -> list[list[np.ndarray]]:
    """The members of a run of the same game, by player.

    Raises:
        BadInput: no population there, or one of another game.
    """
    rows = list(lines(path / STORE))
    if not rows:
        expected = f"a run folder with {STORE}"
        raise BadInput("no population", got=str(path), expected=expected, where="--start")
    if rows[0]["game"] != game.name:
        raise BadInput("a population of another game", got=rows[0]["game"], expected=game.name, where=f"--start {path}")
    every = [_members(game, row) for row in rows]
    return [[one for own in every for one in own[p]] for p in range(game.players)]


def _line(members: Sequence[Sequence[np.ndarray]], found: Found) -> dict[str, Any]:
    """New members, one that draws nothing by the move in each information state, and what was found about cells."""
    shown = [[p.argmax(axis=1).tolist() if (p.max(axis=1) == 1).all() else p.tolist() for p in own] for own in members]
    return {"members": shown, "cells": [[cell, one.count, one.mean, one.spread] for cell, one in found]}


def _members(game: tabular.Tree, row: dict[str, Any]) -> list[list[np.ndarray]]:
    moves = [legal.shape[1] for legal in game.legal]
    both = zip(row["members"], moves, strict=True)
    return [[np.eye(n)[one] if isinstance(one[0], int) else np.array(one) for one in own] for own, n in both]


def _append(path: Path, row: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write((dump(row) + "\n").encode())
