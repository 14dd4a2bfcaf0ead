"""What was recorded of an attempt, as columns to read; ``core.recording`` writes them.

No Python object per token: a column is one array over nodes, decisions or sampled tokens.
"""

from __future__ import annotations

import math
import uuid
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evolvent.core.checks import check_text
from evolvent.core.context import RunningContext
from evolvent.core.errors import BadInput
from evolvent.core.nodes import FINISH, KINDS, USAGE, End, Fork, MemoryUse, Node, OfEnd
from evolvent.core.strict_json import plain


class Record:
    """The head and the columns, which are empty when made.

    Args:
        task_id: what was attempted.
        env: name of the environment.
        seed: what the environment needs to repeat it.
        group: episodes to be compared with one another (same task, same start) share a name.
        meta: free JSON values, read by people; tuples become lists.
        id: unique name, random where none is given: pass it where runs must be byte-identical.

    Attributes:
        ends: how each attempt ended; several where attempts share a beginning (``core.branches``), the first one whole.
        forks: where the nodes of each attempt stand.
        turn: turn of the environment that the following decisions belong to; ``None`` = unknown.
        offers_tools: the environment has tools, called or not.
        budget_tokens: token budget stated in the prompt; ``None`` = no budget.
        rewards_by_kind: rewards besides the task's own, see ``core.reward_kinds``.
        terminated, truncated, success, source, valid, stop, answer, final_choices: how it ended, see ``end``; of the
            first attempt, where several share a beginning.
        final_value: a critic's value of the last observation, where the attempt was cut off.
    """

    terminated, truncated, valid = OfEnd[bool](), OfEnd[bool](), OfEnd[bool]()
    success = OfEnd[bool | None]()
    source, stop = OfEnd[str](), OfEnd[str]()
    answer = OfEnd[str | None]()
    final_choices = OfEnd[list[list[int]]]()
    final_value = OfEnd[float | None]()

    def __init__(
        self,
        task_id: str,
        *,
        env: str = "",
        seed: int = 0,
        group: str = "",
        meta: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex if id is None else id
        for name, value in (("id", self.id), ("task_id", task_id), ("env", env), ("group", group)):
            check_text(value, name)
        self.task_id, self.env, self.seed, self.group = task_id, env, int(seed), group
        self.meta: dict[str, Any] = plain(dict(meta or {}), "Episode(meta=…)")
        self.turn: int | None = None
        self.budget_tokens: int | None = None
        self.rewards_by_kind: dict[str, float | list[float]] = {}
        self.ends, self.forks, self.ended = [End()], [Fork()], False
        # per node
        self._kind, self._parent = array("b"), array("i")
        self._agent: list[str] = []
        self._text: list[str] = []
        self._data: dict[int, dict[str, Any]] = {}
        # one entry per decision
        self._step_node, self._reward, self._token_end = array("i"), array("d"), array("q")
        self._finish, self._turn = array("b"), array("i")
        # one entry per sampled token
        self._token_ids, self._logp = array("i"), array("f")
        self._notes: dict[str, np.ndarray] = {}
        # tokens of the context: those of each node, by node
        self._seen_ids, self._seen_span = array("i"), dict[int, tuple[int, int]]()
        self._context = RunningContext()
        self.offers_tools = False

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self._text)

    @property
    def n_steps(self) -> int:
        """Number of decisions T."""
        return len(self._step_node)

    @property
    def n_tokens(self) -> int:
        """Number of sampled tokens K over all decisions."""
        return len(self._token_ids)

    @property
    def rewards_T(self) -> np.ndarray:
        """Reward of each decision: float64 ``[T]``."""
        return np.array(self._reward, dtype=np.float64)

    @property
    def total_reward(self) -> float:
        """Undiscounted sum of the rewards; of the first attempt, where several share a beginning.

        Only that one was sampled from the start. A mean over all would give more weight to uncertain attempts, which
        branch more often.
        """
        if len(self.ends) == 1:
            return math.fsum(self._reward)
        return math.fsum(self._reward[: bisect_left(self._step_node, self.forks[0].leaf + 1)])

    @property
    def agents_T(self) -> list[str]:
        """Who made each decision."""
        return [self._agent[node] for node in self._step_node]

    @property
    def finish_T(self) -> list[str]:
        """How each decision's completion ended: "stop", "length", or empty where not known."""
        return [FINISH[how] for how in self._finish]

    @property
    def turn_T(self) -> np.ndarray:
        """Turn of the environment that each decision belongs to: int32 ``[T]``, -1 if unknown."""
        return np.array(self._turn, dtype=np.int32)

    @property
    def outcomes(self) -> list[str] | None:
        """How each call of a tool went, in order; ``None`` where no tools were offered."""
        found = [data["outcome"] for data in self._data.values() if "outcome" in data]
        return found if found or self.offers_tools else None

    @property
    def step_nodes_T(self) -> np.ndarray:
        """Node index of each decision: int32 ``[T]``."""
        return np.array(self._step_node, dtype=np.int32)

    @property
    def tokens_per_step_T(self) -> np.ndarray:
        """Number of tokens of each decision: int32 ``[T]``."""
        count = np.array(self._token_end, np.int32)
        count[1:] -= count[:-1]  # np.diff takes three times as long for a few decisions
        return count

    @property
    def token_ids(self) -> np.ndarray:
        """Token ids of all decisions in order: int32 ``[K]``."""
        return np.array(self._token_ids, dtype=np.int32)

    @property
    def logp(self) -> np.ndarray:
        """Natural log-probabilities as sampled: float32 ``[K]``; NaN where the endpoint gave none."""
        return np.array(self._logp, dtype=np.float32)

    @property
    def notes(self) -> Mapping[str, np.ndarray]:
        """What was noted for the sampled tokens: float32 ``[K]`` by name."""
        return {name: column.copy() for name, column in self._notes.items()}

    def context_ids(self, step: int) -> np.ndarray:
        """Tokens that the model saw before decision ``step``: int32 ``[P]``, read-only."""
        before = self._parent[self._step_node[step]]
        return np.empty(0, np.int32) if before < 0 else self.tokens_to(before)

    def tokens_to(self, node: int) -> np.ndarray:
        """Tokens of the observations and decisions from the root down to ``node``, itself included.

        Int32 ``[P]``, read-only. Asked at every turn it costs no more than the tokens that were added since.
        """
        self._check_index(node, "Episode.tokens_to")
        return self._context.to(node, self._parent, self._own_tokens)

    def step_tokens(self, step: int) -> np.ndarray:
        """Token ids of decision ``step``: int32 ``[K]``."""
        return np.array(self._own_tokens(self._step_node[step]), dtype=np.int32)

    def choices(self, step: int) -> list[list[int]]:
        """Token ids of every action that decision ``step`` was chosen from; empty where any text was allowed."""
        return [list(ids) for ids in self._data.get(self._step_node[step], {}).get("choices", ())]

    def seen_tokens(self, node: int) -> int:
        """How many tokens the observation at ``node`` added to the context."""
        start, end = self._seen_span.get(node, (0, 0))
        return end - start

    @property
    def seen_ids(self) -> np.ndarray:
        """Tokens of all observations in order of recording: int32 ``[P]``."""
        return np.array(self._seen_ids, dtype=np.int32)

    @property
    def token_step(self) -> np.ndarray:
        """Decision that each token belongs to: int32 ``[K]``."""
        return np.repeat(np.arange(self.n_steps, dtype=np.int32), self.tokens_per_step_T)

    @property
    def memory_uses(self) -> list[MemoryUse]:
        """Every memory of every recall, shown ones before omitted and dropped ones, in order of occurrence."""
        uses: list[MemoryUse] = []
        for node, data in self._data.items():
            if self._kind[node] == 3:
                receipt, step, odds = self._text[node], bisect_left(self._step_node, node), data["propensity"]
                uses += [MemoryUse(receipt, name, step, True, odds.get(name)) for name in data["shown"]]
                uses += [MemoryUse(receipt, name, step, False, odds.get(name)) for name in data["omitted"]]
                dropped = data.get("dropped", ())
                uses += [MemoryUse(receipt, name, step, False, odds.get(name), dropped=True) for name in dropped]
        return uses

    @property
    def shown_memories(self) -> list[str]:
        """Distinct ids of the memories that were shown, in order of occurrence."""
        recalls = (data["shown"] for node, data in self._data.items() if self._kind[node] == 3)
        return list(dict.fromkeys(name for shown in recalls for name in shown))

    @property
    def components(self) -> list[str]:
        """Distinct names of the components that ran, in order of occurrence."""
        return list(dict.fromkeys(text for kind, text in zip(self._kind, self._text, strict=True) if kind == 4))

    @property
    def implementations(self) -> list[tuple[str, str]]:
        """Distinct (component, implementation) in order of occurrence; "" where nobody says which it was."""
        ran = ((node, self._text[node]) for node, kind in enumerate(self._kind) if kind == 4)
        return list(dict.fromkeys((name, self._data.get(node, {}).get("implementation", "")) for node, name in ran))

    @property
    def usage_T(self) -> list[Mapping[str, float]]:
        """What each decision took, by name of ``core.nodes.USAGE``; what is not known is missing."""
        return [self._data.get(node, {}).get("usage", {}) for node in self._step_node]

    @property
    def usage(self) -> dict[str, float | None]:
        """What all decisions took together; ``None`` where it is not known of one of them."""
        taken = self.usage_T
        whole = {name: [one[name] for one in taken if name in one] for name in USAGE}
        return {name: math.fsum(each) if len(each) == len(taken) else None for name, each in whole.items()}

    @property
    def nodes(self) -> Iterator[Node]:
        """Views of the nodes in order of recording."""
        step = 0
        for i, kind in enumerate(self._kind):
            at = step if kind == 1 else None
            step += kind == 1
            yield Node(i, KINDS[kind], self._parent[i], self._agent[i], self._text[i], at, self._data.get(i, {}))

    def attempt_nodes(self, number: int) -> list[int]:
        """Nodes of one attempt in order of recording, those included that it shares; all of them, where it is alone."""
        fork = self.forks[number]
        begin = self.forks[number - 1].leaf + 1 if number else 0
        goes_on = not self.ended and number == len(self.forks) - 1
        own = range(begin, self.n_nodes if goes_on else fork.leaf + 1)
        shared = [] if fork.of is None else [n for n in self.attempt_nodes(fork.of) if n <= fork.after]
        return [*shared, *own]

    def branch(self, node: int) -> list[int]:
        """Node indices from the root down to ``node``."""
        self._check_index(node, "Episode.branch")
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self._parent[node]
        return path[::-1]

    def _take(self, other: Record, nodes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Become a copy of some nodes of ``other``; the indices there of the decisions ``[T]`` and tokens ``[K]``."""
        place = {node: i for i, node in enumerate(nodes)} | {-1: -1}
        self._kind = array("b", [other._kind[n] for n in nodes])
        self._parent = array("i", [place[other._parent[n]] for n in nodes])
        self._agent, self._text = [other._agent[n] for n in nodes], [other._text[n] for n in nodes]
        self._data = {place[n]: other._data[n] for n in nodes if n in other._data}
        steps = np.flatnonzero([node in place for node in other._step_node])
        self._step_node = array("i", [place[other._step_node[s]] for s in steps])
        self._reward = array("d", [other._reward[s] for s in steps])
        self._finish = array("b", [other._finish[s] for s in steps])
        self._turn = array("i", [other._turn[s] for s in steps])
        self._token_end = array("q", np.cumsum(other.tokens_per_step_T[steps]).tolist())
        tokens = np.flatnonzero(np.isin(other.token_step, steps))
        self._token_ids.frombytes(other.token_ids[tokens].tobytes())
        self._logp.frombytes(other.logp[tokens].tobytes())
        self._notes = {name: column[tokens] for name, column in other._notes.items()}
        for n in nodes:
            if n in other._seen_span:
                start = len(self._seen_ids)
                self._seen_ids.extend(other._seen_ids[slice(*other._seen_span[n])])
                self._seen_span[place[n]] = start, len(self._seen_ids)
        return steps, tokens

    def _own_tokens(self, node: int) -> array[int]:
        """The tokens that ``node`` adds to the context."""
        if self._kind[node] == 1:
            step = bisect_left(self._step_node, node)
            return self._token_ids[self._token_end[step - 1] if step else 0 : self._token_end[step]]
        return self._seen_ids[slice(*self._seen_span.get(node, (0, 0)))]

    def _check_index(self, node: int, where: str) -> None:
        if not 0 <= node < len(self._text):
            raise BadInput("no such node", got=node, expected=f"0 … {len(self._text) - 1}", where=where)
