"""``TokenBatch``: what a policy gradient trains on, made from the record and a ledger; turns are rows.

Every decision that is trained on is a row: its context, its tokens *as sampled*, the actions that were allowed. The
units are its tokens, or the decision as a whole where it was chosen from a list. Nothing is tokenised again: rows are
the tokens of the record. A unit without credit (NaN) is not there at all; one with credit 0 is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.units import Units
from evolvent.models.language.choices import Choices
from evolvent.models.language.model import Row

Unit = Literal["token", "action"]
Truncated = Literal["count", "leave_out", "leave_out_episode"]


class Logprobs(Protocol):
    """What a model says of rows: float ``[K]`` each, flat over their tokens (or one entry a row for whole actions)."""

    @property
    def logp_K(self) -> Tensor: ...  # noqa: D102
    @property
    def entropy_K(self) -> Tensor: ...  # noqa: D102


LogprobFn = Callable[[Sequence[Row]], Logprobs]


@runtime_checkable
class Packing(Protocol):
    """A function that also says which rows share work in one pass, such as ``learn.tokens.logprobs.TokenLogprobs``."""

    def portions(self, rows: Sequence[Row], max_tokens: int) -> list[list[int]]:
        """Indices of all rows, in portions of at most ``max_tokens`` tokens."""
        ...


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Rows and the units in them.

    Attributes:
        rows: decisions.
        sizes: entries that ``LogprobFn`` returns for each row: its tokens, or 1 for a whole action.
        units: columns over what is trained on.
        agents: names; ``units.agent`` indexes them.
        sampled: units that were sampled in all the episodes, trained on or not.
    """

    rows: tuple[Row, ...]
    sizes: tuple[int, ...]
    units: Units
    agents: tuple[str, ...]
    sampled: int

    def select(self, rows: Sequence[int]) -> TokenBatch:
        """The batch of these rows, in this order; ids of trajectories and groups stay."""
        index = self.units_in(rows)
        where = self._place_of(rows)[self.units.row[index]]
        units = replace(self.units[index], row=where)
        return replace(
            self, rows=tuple(self.rows[i] for i in rows), sizes=tuple(self.sizes[i] for i in rows), units=units
        )

    def of_agent(self, name: str) -> TokenBatch:
        """The rows in which ``name`` decided."""
        if name not in self.agents:
            raise BadInput("no such agent in the batch", got=name, expected=self.agents, where="TokenBatch.of_agent")
        mine = self.units.row[self.units.agent == self.agents.index(name)]
        return self.select(torch.unique(mine).tolist())

    def where(self) -> Tensor:
        """Place of each unit in what ``LogprobFn`` returns for all rows: int64 ``[U]``."""
        starts = torch.tensor((0, *self.sizes), dtype=torch.int64).cumsum(0)
        return starts[self.units.row] + self.units.at

    def logprobs(self, policy: LogprobFn) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy of every unit, ``[U]`` each, in at least float32, on the model's device.

        Raises:
            ModelError: another number of values.
        """
        found = policy(self.rows)
        n = sum(self.sizes)
        if len(found.logp_K) != n:
            raise ModelError(
                "the log-probabilities do not fit the batch",
                got=f"{len(found.logp_K)} log-probabilities",
                expected=f"{n} for {len(self.rows)} rows",
                where="TokenBatch.logprobs",
                do="those of tokens for unit='token', whole actions for unit='action'",
            )
        index = self.where().to(found.logp_K.device)
        wide = torch.promote_types(found.logp_K.dtype, torch.float32)
        return found.logp_K.to(wide)[index], found.entropy_K.to(wide)[index]

    @torch.no_grad()
    def looked_up(self, policy: LogprobFn, micro_tokens: int = 8192) -> tuple[Tensor, Tensor]:
        """``logprobs`` without gradient, some rows at a time, on the CPU: log-probability and entropy ``[U]``."""
        logp, entropy = torch.empty(len(self.units)), torch.empty(len(self.units))
        for index, part in self.passes(policy, micro_tokens):
            logp[index], entropy[index] = (x.float().cpu() for x in part.logprobs(policy))
        return logp, entropy

    def passes(self, policy: LogprobFn, micro_tokens: int) -> list[tuple[Tensor, TokenBatch]]:
        """The batch in parts that go through the model together, and which units each has: int64 ``[U']``.

        Learning and looking up use the same parts: in bfloat16 a token's log-probability depends on the rows that are
        computed with it, so only equal parts give equal numbers. A batch that fits as a whole is one part.
        """
        found = portions(self, range(len(self.rows)), policy, micro_tokens)
        if len(found) == 1:
            return [(torch.arange(len(self.units)), self)]
        return [(self.units_in(rows), self.select(rows)) for rows in found]

    def with_reference(self, policy: LogprobFn, micro_tokens: int = 8192) -> TokenBatch:
        """The batch with log-probabilities of a reference."""
        return replace(self, units=replace(self.units, ref_logp=self.looked_up(policy, micro_tokens)[0]))

    def with_old(self, policy: LogprobFn, micro_tokens: int = 8192) -> TokenBatch:
        """The batch with log-probabilities (and entropies) of the policy as it is now in place of the recorded ones."""
        logp, entropy = self.looked_up(policy, micro_tokens)
        return replace(self, units=replace(self.units, old_logp=logp, entropy=entropy))

    def fresh_until(self, trajectories: int) -> TokenBatch:
        """The batch, its first trajectories marked as sampled by the policy that is trained; see ``Units.fresh``."""
        return replace(self, units=replace(self.units, fresh=self.units.trajectory < trajectories))

    def units_in(self, rows: Sequence[int]) -> Tensor:
        """Places of the units of ``rows``, row by row: int64 ``[U']``."""
        where = self._place_of(rows)[self.units.row]
        index = torch.nonzero(where >= 0).squeeze(-1)
        return index[torch.argsort(where[index], stable=True)]

    def _place_of(self, rows: Sequence[int]) -> Tensor:
        """The place of each row of the batch among ``rows``, -1 of the others: int64 ``[R]``."""
        place = torch.full((len(self.rows),), -1, dtype=torch.int64)
        place[torch.tensor(list(rows), dtype=torch.int64)] = torch.arange(len(rows))
        return place


def token_batch(
    episodes: Sequence[Episode],
    ledger: Ledger,
    *,
    level: str,
    unit: Unit = "token",
    constrained: bool = False,
    truncated: Truncated = "count",
) -> TokenBatch:
    """What to train on: every unit of a valid episode that has credit.

    Credit of a ``step`` or an ``agent`` goes to every token of its decisions undivided, as it weights grad log pi of
    the whole decision.

    Args:
        episodes: those of the ledger, in order.
        ledger: their credit.
        level: "token", "step" or "agent".
        unit: "token"; or "action", one unit for each decision, whose log-probability when it was taken is the note
            ``action_logp`` (the same at each of its tokens) or else the sum over its tokens.
        constrained: rows carry the actions that were allowed, so that tokens are scored among those that continue one
            (whole actions always carry them).
        truncated: completions that were cut off for length (``Episode.finish_T``) are trained on like others
            ("count"), are left out ("leave_out"), or their whole episode is, and any episode that was cut off
            ("leave_out_episode"). What is left out counts in no denominator.

    Raises:
        BadInput: a ledger of other episodes, a level that does not fit, a decision with credit but without tokens.
    """
    if tuple(episodes) != ledger.episodes:
        raise BadInput("the ledger is about other episodes", got=len(ledger.episodes), where="token_batch")
    if unit not in ("token", "action") or level not in ("token", "step", "agent"):
        raise BadInput(
            "unknown unit or level",
            got=f"unit={unit}, level={level}",
            where="token_batch",
            expected="unit token or action, level token, step or agent",
        )
    if unit == "action" and level == "token":
        raise BadInput(
            "a whole action has no credit per token", got=level, expected="step or agent", where="token_batch"
        )
    credit_K = _per_token(ledger, level)
    agents = tuple(dict.fromkeys(name for episode in episodes for name in episode.agents_T))
    groups: dict[str, int] = {}
    rows: list[Row] = []
    parts: list[_Part] = []
    at = sampled = 0
    for i, episode in enumerate(episodes):
        mine = credit_K[at : at + episode.n_tokens]
        at += episode.n_tokens
        group = groups.setdefault(episode.group or episode.task_id, len(groups))
        sampled += episode.n_tokens if unit == "token" else episode.n_steps
        if episode.valid:
            _check_tokens(episode, ledger, level, i)
            for part in _parts(episode, mine, unit, truncated):
                row = _row(episode, part.step, constrained or unit == "action")
                rows.append(row)
                ids = (i, group, agents.index(episode.agents_T[part.step]))
                parts.append(part._replace(ids=ids, free=_free(row, unit)[part.at]))
    return TokenBatch(
        tuple(rows), tuple(len(r.tokens) if unit == "token" else 1 for r in rows), _columns(parts), agents, sampled
    )


def portions(batch: TokenBatch, rows: Sequence[int], policy: LogprobFn, micro_tokens: int) -> list[list[int]]:
    """``rows`` in portions for one forward and backward pass: those of a ``Packing``, or ``micro_batches``."""
    if isinstance(policy, Packing):
        rows = list(rows)
        return [[rows[i] for i in some] for some in policy.portions([batch.rows[i] for i in rows], micro_tokens)]
    return micro_batches(batch, rows, micro_tokens)


def micro_batches(batch: TokenBatch, rows: Sequence[int], micro_tokens: int) -> list[list[int]]:
    """``rows`` in portions of at most ``micro_tokens`` tokens; what several rows share is counted once.

    Rows with the same context are adjacent, and among them those with the same allowed actions (or tokens), so that a
    packed forward pass computes what they share once. A row that is larger stands alone.
    """
    alike: dict[bytes, dict[tuple[bytes, ...], list[int]]] = {}
    for i in rows:
        row = batch.rows[i]
        same = alike.setdefault(_key(row.context), {})
        same.setdefault(tuple(map(_key, _judged(batch, i))), []).append(i)
    found: list[list[int]] = []
    used = micro_tokens + 1
    for by_words in alike.values():
        opened = False
        for members in by_words.values():
            row = batch.rows[members[0]]
            tokens = sum(len(ids) for ids in _judged(batch, members[0]))
            cost = tokens + (0 if opened else len(row.context))
            if used + cost > micro_tokens:
                found.append([])
                used, cost = 0, tokens + len(row.context)
            found[-1] += members
            used += cost
            opened = True
    return found


def _judged(batch: TokenBatch, i: int) -> tuple[np.ndarray, ...]:
    """The tokens behind a row's context that go through the model: all allowed actions, or the row's own tokens."""
    row = batch.rows[i]
    return row.choices if batch.sizes[i] == 1 and row.choices else (row.tokens,)


def _key(ids: np.ndarray) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()


class _Part(NamedTuple):
    """A decision: which of its units are trained on, with what."""

    step: int
    at: np.ndarray
    adv: np.ndarray
    old_logp: np.ndarray
    entropy: np.ndarray
    ids: tuple[int, int, int] = (0, 0, 0)  # trajectory, group, agent
    free: np.ndarray = np.empty(0, np.bool_)


def _parts(episode: Episode, credit_K: np.ndarray, unit: str, truncated: str) -> list[_Part]:
    """The decisions of one episode that have something to train on."""
    out = _left_out(episode, truncated)
    notes, logp = episode.notes, episode.logp
    entropy = notes.get("entropy", np.full(len(logp), np.nan, np.float32))
    starts = np.concatenate([[0], np.cumsum(episode.tokens_per_step_T)])
    parts: list[_Part] = []
    for t in range(episode.n_steps):
        span = slice(int(starts[t]), int(starts[t + 1]))
        adv = credit_K[span]
        known = np.flatnonzero(~np.isnan(adv))
        if out[t] or not len(known):
            continue
        if unit == "token":
            parts.append(_Part(t, known, adv[known], logp[span][known], entropy[span][known]))
        else:
            taken = notes["action_logp"][span][0] if "action_logp" in notes else logp[span].sum()
            parts.append(_Part(t, np.zeros(1, np.int64), adv[:1], np.array([taken]), np.array([np.nan])))
    return parts


def _left_out(episode: Episode, truncated: str) -> np.ndarray:
    """Which decisions are not trained on because something was cut off: bool ``[T]``."""
    if truncated == "count":
        return np.zeros(episode.n_steps, dtype=bool)
    if truncated not in ("leave_out", "leave_out_episode"):
        raise BadInput(
            "unknown way with truncated completions",
            got=truncated,
            expected="count, leave_out or leave_out_episode",
            where="token_batch",
        )
    finish = episode.finish_T
    if "" in finish:
        raise BadInput(
            "the record does not say how its completions ended",
            got=finish,
            where=f"episode {episode.id}",
            expected="Episode.act(finish=…), stop or length",
            do="use truncated='count'",
        )
    cut = np.array([how == "length" for how in finish], dtype=bool)
    return cut if truncated == "leave_out" else np.full(len(cut), bool(cut.any()) or episode.truncated)


def _per_token(ledger: Ledger, level: str) -> np.ndarray:
    """The credit of each token, the weight of its grad log pi: float64 ``[K]``; NaN = not trained on."""
    values = ledger.values(level)
    return values if level == "token" else values[ledger.parent_index("token", level)]


def _check_tokens(episode: Episode, ledger: Ledger, level: str, i: int) -> None:
    """A decision that has credit must have tokens to give it to."""
    if level == "token":
        return
    mine = ledger.episode_index("step") == i
    values = ledger.values(level)
    credit = values[mine] if level == "step" else values[ledger.parent_index("step", "agent")[mine]]
    empty = np.flatnonzero((episode.tokens_per_step_T == 0) & ~np.isnan(credit))
    if len(empty):
        raise BadInput(
            "a decision has credit but no tokens",
            got=f"decision {int(empty[0])}",
            where=f"episode {episode.id}",
            expected="token ids as sampled",
            do="record them (Episode.act(token_ids=…)), or leave it without credit",
        )


def _row(episode: Episode, step: int, with_choices: bool) -> Row:
    choices = tuple(np.array(c, dtype=np.int32) for c in episode.choices(step)) if with_choices else ()
    return Row(episode.context_ids(step), episode.step_tokens(step), choices)


def _free(row: Row, unit: str) -> np.ndarray:
    """Which units of a decision had an alternative: bool, one a token (or one); free text has them everywhere."""
    if unit == "action":
        return np.array([len(row.choices) != 1])
    if not row.choices:
        return np.ones(len(row.tokens), np.bool_)
    tree = Choices(row.choices)
    return np.array([tree.is_open(node) for node in tree.path(row.tokens)])


def _columns(parts: Sequence[_Part]) -> Units:
    """The units of all decisions, one after another."""
    counts = [len(part.at) for part in parts]

    def flat(arrays: list[np.ndarray], dtype: torch.dtype) -> Tensor:
        return torch.as_tensor(np.concatenate([np.empty(0), *arrays]), dtype=dtype)

    def ids(values: list[int]) -> Tensor:
        return torch.repeat_interleave(torch.tensor(values, dtype=torch.int64), torch.tensor(counts, dtype=torch.int64))

    entropy = flat([part.entropy for part in parts], torch.float32)
    return Units(
        row=ids(list(range(len(parts)))),
        at=flat([part.at for part in parts], torch.int64),
        step=ids([part.step for part in parts]),
        trajectory=ids([part.ids[0] for part in parts]),
        group=ids([part.ids[1] for part in parts]),
        agent=ids([part.ids[2] for part in parts]),
        adv=flat([part.adv for part in parts], torch.float32),
        old_logp=flat([part.old_logp for part in parts], torch.float32),
        entropy=None if bool(entropy.isnan().any()) else entropy,
        free=flat([part.free for part in parts], torch.bool),
    )
