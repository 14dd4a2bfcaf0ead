"""The verbs that write an ``Episode`` while it happens; each returns the index of the new node."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.checks import check_text, choices_of, finite, tokens
from evolvent.core.errors import BadInput
from evolvent.core.nodes import FINISH, KINDS, USAGE, End, Fork
from evolvent.core.record import Record
from evolvent.core.strict_json import plain


class Recording(Record):
    """A record that grows: nodes in order, ``end`` at the end, ``fork`` for another attempt from the middle."""

    def observe(self, text: str, *, agent: str = "agent", token_ids: ArrayLike = (), parent: int | None = None) -> int:
        """What ``agent`` saw; ``token_ids`` int ``[P]`` are the tokens that it added to the model's context.

        The context of a decision is the tokens on the way from the root to it (``context_ids``): ``parent=-1`` starts
        a new one, otherwise a conversation goes on, the sampled tokens of its decisions included.
        """
        ids, _ = tokens(token_ids, ())
        node = self._node(0, text, agent, parent)
        if len(ids):
            self._seen_span[node] = (len(self._seen_ids), len(self._seen_ids) + len(ids))
            self._seen_ids.frombytes(ids.tobytes())
        return node

    def act(
        self,
        text: str,
        *,
        agent: str = "agent",
        token_ids: ArrayLike = (),
        logp: ArrayLike = (),
        reward: float = 0.0,
        choices: Sequence[ArrayLike] = (),
        finish: str = "",
        parent: int | None = None,
    ) -> int:
        """A decision, which is one step, of turn ``self.turn``.

        Args:
            text: the action as the environment received it.
            agent: who decided.
            token_ids: int ``[K]`` as sampled.
            logp: ``[K]`` natural log-probabilities as sampled, or empty where not known (stored as NaN).
            reward: what followed it, finite; more can come later by ``add_reward``.
            choices: token ids of every action that was allowed, the one taken among them; empty = any text was.
            finish: "stop", or "length" where the completion was cut off; empty where not known.
            parent: index of the node it follows; the last node by default.
        """
        ids, logps = tokens(token_ids, logp)
        value, options = finite(reward, "Episode.act"), choices_of(choices, ids)
        if finish not in FINISH:
            raise BadInput("unknown finish", got=finish, expected=FINISH, where="Episode.act")
        node = self._node(1, text, agent, parent)
        if options:
            self._data[node] = {"choices": options}
        self._step_node.append(node)
        self._reward.append(value)
        self._finish.append(FINISH.index(finish))
        self._turn.append(-1 if self.turn is None else self.turn)
        self._token_ids.frombytes(ids.tobytes())
        self._logp.frombytes(logps.tobytes())
        self._token_end.append(len(self._token_ids))
        return node

    def tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        result: str,
        *,
        outcome: str = "",
        agent: str = "agent",
        parent: int | None = None,
    ) -> int:
        """A tool that ``agent`` called, with JSON arguments and the text that came back.

        ``outcome`` says how the call went ("ok", "raised", "unknown", …); empty where nobody says.
        """
        data = {"name": name, "arguments": plain(arguments, f"Episode.tool({name!r})")}
        if outcome:
            data["outcome"] = outcome
        node = self._node(2, result, agent, parent)
        self._data[node] = data
        return node

    def recall(
        self,
        receipt: str,
        shown: Sequence[str],
        *,
        omitted: Sequence[str] = (),
        dropped: Sequence[str] = (),
        propensity: Mapping[str, float] | None = None,
        parent: int | None = None,
    ) -> int:
        """Memories that were read: ids that reached the prompt, and those that did not.

        Args:
            receipt: of the recall.
            shown: what reached the prompt.
            omitted: what was deliberately left out.
            dropped: what was handed out, and then had no place: by no chance, so that it is among those handed out.
            propensity: by id the probability, in (0, 1], of being handed out.
            parent: node that this one follows; default: the last one.
        """
        ids, odds = [*shown, *omitted, *dropped], dict(propensity or {})
        if len(set(ids)) != len(ids):
            raise BadInput("a memory stands twice in one recall", got=ids, expected="distinct ids", where=receipt)
        for name, p in odds.items():
            if name not in ids or not 0.0 < p <= 1.0:
                expected, where = f"a probability in (0, 1] for one of {ids}", f"Episode.recall({receipt!r})"
                raise BadInput(
                    "propensity does not fit the recall", got=f"{name}: {p!r}", expected=expected, where=where
                )
        node = self._node(3, receipt, "", parent)
        self._data[node] = {"shown": list(shown), "omitted": list(omitted), "propensity": plain(odds, receipt)}
        if dropped:
            self._data[node]["dropped"] = list(dropped)
        return node

    def component(self, name: str, *, implementation: str = "", agent: str = "agent", parent: int | None = None) -> int:
        """A part of the workflow that ran (a stage, a channel, a training example).

        ``implementation`` says which of several that can stand in this place it was: a model, a prompt, a function.
        """
        check_text(implementation, "implementation")
        node = self._node(4, name, agent, parent)
        if implementation:
            self._data[node] = {"implementation": implementation}
        return node

    def spend(self, node: int | None = None, **usage: float | None) -> None:
        """What the decision at ``node`` (default: the last one) took; ``None`` = not known, which is not 0.

        Args:
            node: index that ``act`` returned.
            usage: tokens of ``prompt``, ``cached`` (of the prompt) and ``completion``, ``seconds``, ``cost_usd``.
        """
        step = self._step_of(node, "account for")
        known = {name: finite(value, "Episode.spend") for name, value in usage.items() if value is not None}
        if not set(usage) <= set(USAGE) or min(known.values(), default=0.0) < 0:
            raise BadInput(
                "not what a decision takes", got=usage, expected=f"{USAGE}, at least 0", where="Episode.spend"
            )
        if known:
            self._data.setdefault(self._step_node[step], {})["usage"] = known

    def add_reward(self, value: float, node: int | None = None) -> None:
        """Add to the reward of the decision at ``node`` (default: the last decision); allowed after ``end`` too."""
        step = self._step_of(node, "reward")
        self._reward[step] = finite(self._reward[step] + value, "Episode.add_reward")

    def note(self, name: str, values: ArrayLike) -> None:
        """Store one number for every sampled token, such as ``"value"`` of a critic or ``"entropy"``: ``[K]``.

        Allowed after ``end``; a note of the same name is replaced. NaN = not known.
        """
        column = np.asarray(values, dtype=np.float32)
        if not name.isidentifier() or column.shape != (self.n_tokens,):
            got, expected = f"{name!r} {column.shape}", f"a name and ({self.n_tokens},)"
            raise BadInput(
                "not one number for every token", got=got, expected=expected, where=f"Episode {self.id}, note"
            )
        self._notes[name] = column.copy()

    def end(
        self,
        *,
        terminated: bool = False,
        truncated: bool = False,
        success: bool | None = None,
        source: str = "env",
        valid: bool = True,
        stop: str = "",
        answer: str | None = None,
        choices: Sequence[ArrayLike] = (),
    ) -> None:
        """Close the attempt.

        Args:
            terminated: by the task's own rules.
            truncated: by a limit.
            success: whether it succeeded; ``None`` = unknown.
            source: where ``success`` comes from.
            valid: False = not to be learned from.
            stop: why it stopped: the limit that was reached, or what the environment says; empty where not known.
            answer: the final answer; empty where none could be read, ``None`` = unknown.
            choices: token ids of every action that was allowed where it was cut off; empty = any text was.
        """
        if self.ended:
            raise BadInput("episode ended twice", where=f"Episode {self.id}", do="call end() once, after the last node")
        how = self.ends[-1]
        how.terminated, how.truncated, how.valid = bool(terminated), bool(truncated), bool(valid)
        how.success, how.source, how.stop = None if success is None else bool(success), source, stop
        how.answer, how.final_choices = answer, [tokens(ids, ())[0].tolist() for ids in choices]
        self.forks[-1] = self.forks[-1]._replace(leaf=self.n_nodes - 1)
        self.ended = True

    def fork(self, after: int, *, of: int = 0, seed: int | None = None) -> None:
        """Begin another attempt, which shares the nodes of attempt ``of`` up to ``after``; ``end`` closes it.

        Args:
            after: the last node that is shared; what is recorded next follows it.
            of: number of an attempt in this record, the first is 0.
            seed: what the environment needs to repeat it; ``None`` = that of the episode.
        """
        if not self.ended:
            raise BadInput("the attempt before has not ended", where=f"Episode {self.id}, fork", do="call end() first")
        if not 0 <= of < len(self.ends) or after not in self.attempt_nodes(of):
            raise BadInput(
                "nothing to part from", got=f"node {after} of attempt {of}", where=f"Episode {self.id}, fork"
            )
        self.ends.append(End())
        self.forks.append(Fork(of=of, after=after, seed=seed))
        self.ended = False

    def _step_of(self, node: int | None, what: str) -> int:
        """The decision at ``node``, by default the last one."""
        if not self._step_node:
            raise BadInput(f"no decision to {what}", where=f"Episode {self.id}", do="call act() first")
        step = self.n_steps - 1 if node is None else bisect_left(self._step_node, node)
        if step >= self.n_steps or (node is not None and self._step_node[step] != node):
            raise BadInput("node is not a decision", got=node, expected="an index that act() returned", where=self.id)
        return step

    def _node(self, kind: int, text: str, agent: str, parent: int | None) -> int:
        if self.ended:
            raise BadInput("node after the end", got=KINDS[kind], where=f"Episode {self.id}", do="record before end()")
        index = len(self._text)
        if parent is None:
            begins = len(self.forks) > 1 and index == self.forks[-2].leaf + 1
            parent = self.forks[-1].after if begins else index - 1
        elif parent != -1:
            self._check_index(parent, f"Episode, parent of a new {KINDS[kind]}")
            if len(self.forks) > 1 and parent not in self.attempt_nodes(len(self.forks) - 1):
                where = f"Episode {self.id}"
                raise BadInput("the parent belongs to another attempt", got=parent, where=where, do="see fork(after)")
        check_text(text, "text")
        check_text(agent, "agent")
        self._kind.append(kind)
        self._parent.append(parent)
        self._agent.append(agent)
        self._text.append(text)
        return index
