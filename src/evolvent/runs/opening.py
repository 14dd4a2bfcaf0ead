"""Environment, model and memory of a run: opened in one order, closed in the opposite one.

What is cheap to find wrong is found first: the folder, the environment and what the run makes of it, what compares
texts. Then the model is loaded. The memory comes last, so that a run that could not begin leaves none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from evolvent import models
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Engine, Env, Model, Renderer
from evolvent.evaluate.live import Live
from evolvent.models.served.acting import Served
from evolvent.play.renderers import Plain, Text
from evolvent.runs.copies import Copies
from evolvent.runs.sources import pinned

if TYPE_CHECKING:
    from evolvent.memory.memory import Memory
    from evolvent.memory.rule import Policy

T = TypeVar("T")
FILE = "memory.db"
"""The memory in a run folder."""


class Started(NamedTuple, Generic[T]):
    """What a run works with: copies of its environment, its model, and what it made of them before."""

    worlds: Copies
    model: Any
    prepared: T


@contextmanager
def started(
    config: Any,
    folder: RunFolder,
    live: Live,
    prepare: Callable[[Env], T],
    *,
    model: Model | None = None,
    load: Callable[..., Any] | None = None,
    writes: str = "",
) -> Iterator[Started[T]]:
    """Environment and model of a run whose settings say ``env`` and ``model``.

    ``prepare`` is called with the environment before the model is loaded; what it returns is handed on. ``model``: one
    that is loaded already; ``load``: how it is, ``models.load`` by default. ``writes``: why there must be one; "" =
    without (``none``) commands are chosen.

    Raises:
        BadInput: no such environment or model.
    """
    if writes and config.model == "none" and model is None:
        raise BadInput(
            writes,
            got="model none",
            where="--model",
            expected="a language model",
            do="see `evolvent list models`",
        )
    with ExitStack() as stack:
        worlds = stack.enter_context(closing(Copies(pinned(folder, config.env))))
        prepared = prepare(worlds.first)
        if model is None and config.model != "none":
            live.status(f"loading {config.model}")
            model = stack.enter_context(closing((load or models.load)(config.model, progress=_fetching(live))))
        yield Started(worlds, model, prepared)


@dataclass(frozen=True)
class Wanted:
    """How a kind of run, or a system, wants its memory and its model."""

    policy: Policy | str
    """Of the memory."""
    embedder: str | None = None
    """What compares texts; ``None`` = the one that the memory was made with, in a new one the default."""
    compares: bool = True
    """Whether any texts are compared; the embedder is then tried before the model is loaded."""
    reward_range: tuple[float, float] | None = None
    """Of what settles receipts; ``None`` = the environment's."""
    writes: str = ""
    """As of ``started``."""


@contextmanager
def opened(
    config: Any,
    folder: RunFolder,
    live: Live,
    wanted: Wanted,
    *,
    resume: bool | None,
    model: Model | None,
    prepare: Callable[[Env], T],
) -> Iterator[tuple[Env, Model | None, Memory, T]]:
    """Environment, model and memory of a run whose settings say ``env``, ``model`` and ``seed``; see ``started``.

    ``resume``: whether the run goes on; ``None`` = it is evaluated.

    Raises:
        BadInput: a new run with a memory, an evaluated one without; no such environment, embedder or model.
    """
    from evolvent.memory import embedders
    from evolvent.memory.memory import Memory

    path = folder.path / FILE
    if resume is False and path.exists():
        raise BadInput("this run folder already holds a memory", got=str(path), do="use --resume or another --out")
    if resume is None and not path.exists():
        raise BadInput("this run has no memory yet", got=str(path), expected="a run that has begun", where="eval")

    def ready(env: Env) -> tuple[T, Any]:
        prepared = prepare(env)
        if wanted.embedder is None and path.exists():
            return prepared, None
        by = embedders.ready if wanted.compares else embedders.load
        return prepared, by(wanted.embedder or embedders.DEFAULT, progress=_fetching(live))

    with started(config, folder, live, ready, model=model, writes=wanted.writes) as (worlds, model, (prepared, by)):
        env = worlds.first
        limits = wanted.reward_range or env.reward_range
        memory = Memory(path, policy=wanted.policy, embedder=by, seed=config.seed, reward_range=limits, sync="normal")
        with closing(memory):
            yield env, model, memory, prepared


def _fetching(live: Live) -> Callable[[int, int, str], None]:
    """Progress of a download as the live status, in whole percent."""
    last = [-1]

    def tell(done: int, total: int, text: str) -> None:
        percent = 100 * done // max(total, 1)
        if percent >= last[0] + 5:
            last[0] = percent
            live.status(f"fetching {text}: {percent} % of {total / 1e6:.0f} MB")

    return tell


def answering(model: Model | None, temperature: float) -> tuple[Engine, Renderer]:
    """A model as an engine, with the prompts that it reads: tokens where it is in torch, otherwise text."""
    if model is None or not hasattr(model, "logprobs"):
        return Served(model, temperature), Text()
    from evolvent.models.language.acting import Acting

    return Acting(model, "sum", temperature), Plain(model)  # pyright: ignore[reportArgumentType]
