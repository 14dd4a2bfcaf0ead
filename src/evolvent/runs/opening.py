"""Environment, model and memory of a run whose memory learns: opened in one order, closed in the opposite one.

What is cheap to find wrong is found first: the folder, the environment and what the run makes of it, what compares
texts. Then the model is loaded. The memory comes last, so that a run that could not begin leaves none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from evolvent import envs, models
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Engine, Env, Model, Renderer
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.memory.memory import Memory
from evolvent.memory.rule import Policy
from evolvent.models.served.acting import Served
from evolvent.play.renderers import Plain, Text
from evolvent.runs.sources import pinned

T = TypeVar("T")
FILE = "memory.db"
"""The memory in a run folder."""


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
    """Why there must be a model that writes; "" = without one (``none``) commands are chosen."""


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
    """Environment, model and memory of a run whose settings say ``env``, ``model`` and ``seed``.

    ``resume``: whether the run goes on; ``None`` = it is evaluated. ``prepare`` is called with the environment before
    the model is loaded; what it returns is handed on. ``model``: one that is loaded already.

    Raises:
        BadInput: a new run with a memory, an evaluated one without; no such environment, embedder or model.
    """
    path = folder.path / FILE
    if resume is False and path.exists():
        raise BadInput("this run folder already holds a memory", got=str(path), do="use --resume or another --out")
    if resume is None and not path.exists():
        raise BadInput("this run has no memory yet", got=str(path), expected="a run that has begun", where="eval")
    if wanted.writes and config.model == "none" and model is None:
        raise BadInput(
            wanted.writes,
            got="model none",
            where="--model",
            expected="a language model",
            do="see `evolvent list models`",
        )
    with ExitStack() as stack:
        env = stack.enter_context(closing(envs.load(pinned(folder, config.env))))
        prepared = prepare(env)
        progress, by = _fetching(live), None
        if wanted.embedder is not None or not path.exists():
            load = embedders.ready if wanted.compares else embedders.load
            by = load(wanted.embedder or embedders.DEFAULT, progress=progress)
        if model is None and config.model != "none":
            live.status(f"loading {config.model}")
            model = stack.enter_context(closing(models.load(config.model, progress=progress)))
        memory = Memory(
            path,
            policy=wanted.policy,
            embedder=by,
            seed=config.seed,
            reward_range=wanted.reward_range or env.reward_range,
            sync="normal",
        )
        yield env, model, stack.enter_context(closing(memory)), prepared


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
