"""What a run over games works with: the world, the model, the memory, and the nodes of each lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.protocols import Model
from evolvent.envs.text.games import base
from evolvent.envs.text.games_mechanics import GAMES, MECHANICS, Mechanic
from evolvent.envs.text.games_page import assemble, blocks_of, real
from evolvent.evaluate.live import Live
from evolvent.memory.memory import Memory
from evolvent.models.served.acting import Served
from evolvent.runs.memory import cursor
from evolvent.runs.memory.attempt import Counting
from evolvent.runs.opening import Wanted, opened

REWARDS = (-1.0, 1.0)
UNTRIED = 0.6
"""Where the value of an idea begins: above what a failure earns, so that others are tried before it again."""


@dataclass(frozen=True)
class Node:
    """A version of a game."""

    step: int
    depth: int
    page: str
    reward: float
    memory: str
    """That holds it."""

    @property
    def core(self) -> frozenset[str]:
        """Mechanics that change the rules."""
        return frozenset(name for name, code in blocks_of(self.page).items() if real(code))


@dataclass
class Lineage:
    """One game and its versions."""

    game: str
    nodes: list[Node] = field(default_factory=list[Node])

    @property
    def best(self) -> Node:
        """Of the highest reward, of equal ones the newest."""
        return max(self.nodes, key=lambda node: (node.reward, node.step))


@dataclass
class Session:
    """What a run works with."""

    env: Any
    ask: Counting
    """The engine, its tokens of a node counted."""
    model: str
    memory: Memory
    folder: RunFolder
    lineages: list[Lineage]

    @property
    def nodes(self) -> list[Node]:
        """Of all lineages: the archive of games."""
        return [node for lineage in self.lineages for node in lineage.nodes]

    def save(self, step: int, page: str, picture: bytes) -> None:
        """A page, and how it looked, beside the report."""
        place = self.folder.path / "games"
        place.mkdir(exist_ok=True)
        write_atomic(place / f"{step}.html", page)
        if picture:
            (place / f"{step}.jpg").write_bytes(picture)

    def add(self, row: Mapping[str, Any]) -> None:
        """A node that has been made, also from a row of the log, where a run goes on."""
        page = (self.folder.path / "games" / f"{row['step']}.html").read_text(encoding="utf-8")
        node = Node(row["step"], row["depth"], page, row["reward"], row["memory"])
        self.lineages[(row["step"] - 1) % len(self.lineages)].nodes.append(node)


@contextmanager
def opened_session(config: Any, folder: RunFolder, live: Live, resume: bool, model: Model | None) -> Iterator[Session]:
    """Everything that a run needs; the browser is started before the model is loaded.

    Raises:
        BadInput: another world, or more lineages than games.
        EnvError, NoBrowser, NoSandbox: pages cannot be opened here.
    """

    def prepare(env: Any) -> None:
        if not hasattr(env, "mechanics"):
            raise BadInput("this system makes games", got=config.env, expected="games", where="--env")
        if config.lineages > len(GAMES):
            raise BadInput("more lineages than games", got=config.lineages, expected=len(GAMES), where="--lineages")
        browser = env.start().browser
        live.note(
            f"pages are opened in {browser.start()}" if browser else "! no browser: pages are judged by their text"
        )

    wanted = Wanted("memrl", reward_range=REWARDS, writes="games are written by a model")
    with opened(config, folder, live, wanted, resume=resume, model=model, prepare=prepare) as (env, model, memory, _):
        assert model is not None
        if not cursor.begun(memory):  # also of a run that was stopped before
            _begin(memory)
        lineages = [Lineage(game) for game in list(GAMES)[: config.lineages]]
        yield Session(env, Counting(Served(model, config.temperature)), model.name, memory, folder, lineages)


def _begin(memory: Memory) -> None:
    """What the archive knows at first: every mechanic of the world, described."""
    rows = [
        {
            "key": m.description,
            "body": described(m),
            "kind": "mechanic",
            "source": "seed",
            "value": UNTRIED,
            "metadata": {"name": m.name, "lineage": ""},
        }
        for m in MECHANICS
        if not m.look and m.name != "walk"
    ]
    with memory.transaction():
        memory.remember_many(rows)
        cursor.saved(memory, 0)


def described(mechanic: Mechanic) -> str:
    """A mechanic in a line."""
    return f"{mechanic.name}: {mechanic.description}"


def first_page(game: str) -> str:
    """What a lineage begins with: walking alone, for its point is to be written."""
    return assemble(game, {"walk": blocks_of(base(game))["walk"]})
