"""The Protocols: what an environment, a model and an embedder must offer.

Anything outside the library proves itself with ``evolvent.testing``; nothing inherits from these classes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from evolvent.core.conversation import Conversation
from evolvent.core.errors import BadInput, EnvError

if TYPE_CHECKING:
    from evolvent.core.episode import Episode


# ------------------------------------------------------------------------------------------------ environments
@dataclass(frozen=True)
class Task:
    """A unit of work with a verifiable outcome.

    ``text`` is what the agent is asked (and the default memory key); ``kind`` a family for reports, never shown to
    the agent; ``seed`` what the environment needs to rebuild it; ``meta`` JSON values for the environment alone.
    ``repeats`` is the id of an earlier task that this one is under another name, where an environment with few tasks
    gives as many as it is asked for: training may see it twice, an evaluation must not count it twice.
    """

    id: str
    text: str
    kind: str = ""
    split: str = "train"
    seed: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repeats: str = ""


def members(protocol: type) -> list[str]:
    """The attributes and methods that a Protocol asks for."""
    methods = [name for name, value in vars(protocol).items() if callable(value) and name[0] != "_"]
    return [*protocol.__annotations__, *methods]


def distinct(tasks: Sequence[Task]) -> list[Task]:
    """The tasks without those that repeat another one, in order."""
    found: dict[str, Task] = {}
    for task in tasks:
        found.setdefault(task.repeats or task.id, task)
    return list(found.values())


@dataclass(frozen=True)
class Turn:
    """What the environment shows after ``reset`` or ``step``.

    ``admissible`` lists the commands that are allowed now, or is ``None`` where any text is an action.
    ``key`` describes the situation for the memory (default: the observation). ``valid=False`` marks an outcome that
    must not be learned from (the harness failed, not the agent). ``terminated`` and ``truncated`` are two flags.
    ``follows``: the observation is only what is new, such as the result of a tool, and cannot be read without what was
    shown and said before; the next prompt holds all of it. ``chat`` is the observation as messages, with the tools on
    offer, for models that read such; where a turn follows, it is made of what was said.
    """

    observation: str
    admissible: tuple[str, ...] | None = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    success: bool = False
    valid: bool = True
    key: str = ""
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    follows: bool = False
    chat: Conversation | None = None

    @property
    def done(self) -> bool:
        """Whether the attempt has ended, by its own rules or by the step limit."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Correction:
    """What a reviewer hands over after a failure: the body of a lesson. ``wrong`` is for reports only."""

    body: str
    wrong: bool = False
    source: str = "reviewer"


@runtime_checkable
class Env(Protocol):
    """An environment: tasks by split and seed; ``reset`` starts an attempt, ``step`` acts.

    ``instructions`` is the constant head of every prompt and ``labels`` name question and answer in it, e.g.
    ``("Q", "SQL")``; ``stop`` and ``max_tokens`` end a free-text answer. ``reward_range`` bounds the reward of a
    whole attempt. One whose steps wait for something else (a tool, a server) may have ``waits = True``: then steps of
    several attempts go on at once, each on a thread. One that shows only its newest message may have
    ``conversation = True``: then prompts hold all that was said. One whose ``Turn.key`` says everything about the
    present state, goal included, may have ``key_is_state = True``: prompts with memories show it as the observation.
    """

    name: str
    instructions: str
    labels: tuple[str, str]
    stop: tuple[str, ...]
    max_tokens: int
    reward_range: tuple[float, float]

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` tasks of ``split`` ("train" or "heldout"), or all where there are fewer; the same for the same seed.

        No task is in both splits, under whatever id.
        """
        ...

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start one attempt at ``task``."""
        ...

    def step(self, action: str) -> Turn:
        """Act; after a turn that is ``done`` only ``reset`` is allowed."""
        ...

    def review(self, task: Task, seed: int) -> Correction | None:
        """A reviewer's correction after a failed attempt, or ``None`` where there is no reviewer (or no answer)."""
        ...

    def advance(self, pass_number: int) -> None:
        """Tell the world that pass ``pass_number`` (1, 2, …) over the stream begins; definitions may drift."""
        ...

    def close(self) -> None:
        """Release what the environment holds."""
        ...


# ------------------------------------------------------------------------------------------------ models
Prompt: TypeAlias = "np.ndarray | str"
"""What a model reads: token ids int32 ``[P]`` where its engine has them, otherwise text."""


@dataclass(frozen=True, eq=False)
class Request:
    """One decision that is wanted of a model.

    ``choices`` are the allowed actions, in the form of the prompt; empty = any text of at most ``max_tokens``, ended by
    ``stop``. ``adapter`` says whose weights answer where an engine has several; ``None`` = the frozen base. ``chat`` is
    the prompt as messages, with tools, for an engine that reads such; others read ``prompt``.
    """

    prompt: Prompt
    seed: int
    max_tokens: int
    stop: tuple[str, ...] = ()
    choices: tuple[Prompt, ...] = ()
    adapter: str | None = "policy"
    chat: Conversation | None = None

    @property
    def tokens(self) -> np.ndarray:
        """The prompt as tokens."""
        return _tokens(self.prompt)

    @property
    def choice_tokens(self) -> tuple[np.ndarray, ...]:
        """The allowed actions as tokens."""
        return tuple(map(_tokens, self.choices))


def _tokens(prompt: Prompt) -> np.ndarray:
    if isinstance(prompt, str):
        raise BadInput("this engine reads tokens", got="text", expected="int32 tokens", where="Request")
    return prompt


@dataclass(frozen=True, eq=False)
class Completion:
    """The answer to a request, with its tokens *as sampled*.

    ``token_ids`` int32 ``[K]`` and ``logp`` float32 ``[K]`` (natural log, under the sampling distribution at
    temperature 1) are empty where an endpoint does not give them; ``sampled`` is their number where it says no more.
    ``finish`` is "stop", "length" or "error"; ``stopped`` the stop string that ended it, "" where none did (its end
    token, a limit), ``None`` where nobody says.
    ``calls`` of tools, ``{"name", "arguments": {…}}``, where an endpoint gives such, stand in ``text``, too.
    ``notes`` are further numbers a token, for ``Episode.note``. Of a choice, ``choice`` is its index and ``scores_N``
    the log-probability of each allowed action, float64 ``[N]``, where the engine knows them. What a model says is data:
    zero bytes and lone surrogates of ``text``, which no file and no store can hold, become U+FFFD.
    """

    text: str
    token_ids: np.ndarray
    logp: np.ndarray
    prompt_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0
    finish: str = "stop"
    stopped: str | None = None
    choice: int = -1
    scores_N: np.ndarray | None = None
    notes: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    sampled: int = 0
    calls: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not self.text.isascii() or "\0" in self.text:
            text = self.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
            object.__setattr__(self, "text", text)


def cut(text: str, stop: Sequence[str]) -> tuple[str, str]:
    """``text`` before the first occurrence of any ``stop`` string, and that string, "" where there is none."""
    found = [(at, s) for s in stop if s and (at := text.find(s)) >= 0]
    at, which = min(found, default=(len(text), ""), key=lambda pair: pair[0])
    return text[:at], which


class Engine(Protocol):
    """Answers requests in order: the only thing an attempt knows of a model.

    ``models.served.acting`` makes one of any ``Model`` (llama.cpp, endpoints, scripts), ``models.language.acting`` of a
    model that is trained. What waits is answered as one batch; draws come from the seed of each request.
    """

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion a request."""
        ...


Player: TypeAlias = "Generator[Request, Completion, Episode]"
"""An attempt that asks for each decision, is sent its completion, and returns its record."""


def advance(player: Player, said: Completion | None) -> Request | Episode | EnvError:
    """What a player asks next, how its attempt ended, or how its environment broke; ``None`` begins it."""
    try:
        return next(player) if said is None else player.send(said)
    except StopIteration as done:
        return done.value
    except EnvError as error:
        return error


class Renderer(Protocol):
    """How situations become prompts (``play.renderers``): tokens for an engine that has them, otherwise text."""

    def first(self, env: Env, turn: Turn, examples: str = "") -> Prompt:
        """A whole prompt: instructions, worked examples, situation."""
        ...

    def more(self, env: Env, turn: Turn, before: Prompt) -> Prompt:
        """What a new situation adds to a conversation, ``before``."""
        ...

    def command(self, text: str) -> Prompt:
        """An allowed action."""
        ...

    def plain(self, text: str) -> Prompt:
        """A text to be continued, as it is."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The settings of ``Model.generate``."""

    max_tokens: int = 128
    temperature: float = 0.0
    """0 = greedy."""
    top_p: float = 1.0
    seed: int = 0
    stop: Sequence[str] = ()
    grammar: str | None = None
    """GBNF; at most one of this and ``json_schema``."""
    json_schema: Mapping[str, Any] | None = None

    def checked(self, where: str) -> Sampling:
        """The same; refuses settings that have no meaning.

        Raises:
            BadInput: naming the setting.
        """
        if self.max_tokens < 1:
            raise BadInput("max_tokens is out of range", got=self.max_tokens, expected="at least 1", where=where)
        if not 0.0 <= self.temperature < float("inf"):
            expected = "0 (greedy) or more"
            raise BadInput("temperature is out of range", got=self.temperature, expected=expected, where=where)
        if not 0.0 < self.top_p <= 1.0:
            raise BadInput("top_p is out of range", got=self.top_p, expected="above 0, at most 1", where=where)
        return self


@runtime_checkable
class Model(Protocol):
    """A language model that completes raw text and scores given continuations.

    One that reads messages and calls tools has ``converse(conversation, **sampling) -> Completion`` besides.
    """

    name: str

    def generate(self, prompt: str, **sampling: Any) -> Completion:
        """Complete ``prompt``, as ``Sampling`` says; the text ends before the first ``stop`` string."""
        ...

    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """Summed log-probability of each continuation given the prompt: float64 ``[N]``, nats."""
        ...

    def close(self) -> None:
        """Release what the model holds."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Texts to unit vectors. ``id`` names model and settings; a store remembers it and refuses another."""

    @property
    def id(self) -> str:
        """Model and settings."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, dim]``."""
        ...
