"""Batched sampling with a key/value cache: a prompt is evaluated once, however many completions it gets.

The prompts of a call go through the model as one packed row. Then every completion adds one token a step; those that
have ended leave. Each draws from its own generator, by inverting the distribution function at one uniform number a
token, so that which others are in the batch does not change what it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evolvent.core.protocols import cut
from evolvent.models.language.attention import Packed, Shared
from evolvent.models.language.choices import Choices
from evolvent.models.language.logprobs import Head, tensor_on
from evolvent.models.language.pack import Pack, pack
from evolvent.models.language.retained import Retained, Step
from evolvent.models.sampling import nucleus


@dataclass(frozen=True, eq=False)
class Sampled:
    """One completion, token by token as drawn.

    ``token_ids`` int32 ``[K]``, the end token and the tokens of a stop string included; ``logp`` float32 ``[K]`` under
    the distribution they were drawn from (at temperature 0: under the model's own at temperature 1) and its
    ``entropy`` float32 ``[K]``, nats; ``text`` ends before the end token or the stop string; ``finish`` is "stop"
    (end token, stop string, or a choice is complete) or "length"; ``stopped`` is that stop string, if one was met.
    ``cached``: tokens of its prompt that were known already, by another completion or an earlier call.
    """

    token_ids: np.ndarray
    logp: np.ndarray
    entropy: np.ndarray
    text: str
    finish: str
    stopped: str = ""
    cached: int = 0


@dataclass(frozen=True)
class TemperatureSchedule:
    """A temperature that follows the entropy H of each token (HAPO, arXiv 2509.16591): times ``1 + strength h``.

    ``h = (log H - pivot) / above`` where that is positive, ``/ below`` where it is not, in [-1, 1]. What is recorded
    is the distribution without it.
    """

    strength: float
    pivot: float
    above: float
    below: float

    def warmed(self, z: Tensor) -> Tensor:
        """Logits ``[R, V]`` to draw from."""
        log_p = z.log_softmax(-1)
        entropy = -torch.linalg.vecdot(log_p.exp(), log_p.clamp(min=-1e30))
        away = entropy.clamp(min=1e-8).log() - self.pivot
        h = (away / torch.where(away > 0, self.above, self.below)).clamp(-1.0, 1.0)
        return z / (1.0 + self.strength * h)[:, None]


@dataclass(frozen=True)
class SamplingParams:
    """Sampling parameters. ``plain`` records log-probabilities and entropies before temperature, top-k and top-p."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    end_ids: frozenset[int] = frozenset()
    plain: bool = False
    temperature_schedule: TemperatureSchedule | None = None


@dataclass
class _Writing:
    """A completion that is being sampled."""

    index: int
    limit: int
    tree: Choices | None
    uniforms: np.ndarray
    cached: int = 0
    behind: int = -1
    """The slot of its prompt's last token, where keys and values are kept."""
    node: int = 0
    ids: list[int] = field(default_factory=list[int])
    logp: list[float] = field(default_factory=list[float])
    entropy: list[float] = field(default_factory=list[float])
    finish: str = ""

    def take(self, token: int, logp: float, entropy: float) -> None:
        self.ids.append(token)
        self.logp.append(logp)
        self.entropy.append(entropy)
        if self.tree is None:
            return
        self.node = self.tree.after(self.node, token)
        ahead = self.tree.forced(self.node)
        if ahead is not None and len(self.ids) + len(ahead) <= self.limit:  # nothing is left to decide
            self.ids += ahead
            self.logp += [0.0] * len(ahead)
            self.entropy += [0.0] * len(ahead)
            self.finish = "stop"


@torch.inference_mode()
def sample_batch(
    prompts: Sequence[np.ndarray],
    counts: int,
    trees: Sequence[Choices | None],
    seeds: Sequence[int],
    limits: Sequence[int],
    settings: SamplingParams,
    machine: tuple[Step, Head, Callable[[Sequence[int]], str]],
    retained: Retained | None = None,
) -> list[Sampled]:
    """``counts`` completions of each prompt, prompt-major; see ``LanguageModel.sample``.

    One tree of allowed choices and one limit of tokens a prompt, one seed a completion. ``machine`` is the model's
    step, its head, and what decodes tokens; ``retained`` what earlier calls have left, for this one to use and to add
    to.
    """
    step, head, decode = machine
    device = head.weight.device
    writing = [
        _Writing(i, limits[i // counts], trees[i // counts], np.random.default_rng(seed).random(limits[i // counts]))
        for i, seed in enumerate(seeds)
    ]
    cache, hidden, alive = _prefill(prompts, writing, step, device, retained)
    while alive:
        _draw(hidden, head, alive, settings)
        for one in alive:
            _end(one, settings, decode)
        if retained is not None and cache.steps:
            ended = [j for j, one in enumerate(alive) if one.finish]
            retained.add(cache, ended, [alive[j].behind for j in ended], [alive[j].ids for j in ended])
        stay = [j for j, one in enumerate(alive) if not one.finish]
        if not stay:
            break
        if len(stay) < len(alive):
            cache.keep(torch.tensor(stay, device=device))
            alive = [alive[j] for j in stay]
        cache.step()
        ids = torch.tensor([one.ids[-1] for one in alive], device=device)
        positions = cache.lengths[cache.owner] + cache.steps - 1
        hidden = step(ids, positions, cache)
    if retained is not None:
        retained.trim()
    return [_finished(one, settings, decode) for one in writing]


def waves(prompts: Sequence[np.ndarray], limits: Sequence[int], n: int, most: int) -> list[list[int]]:
    """Prompts that go together: alike in length, and with room for the keys and values of at most so many tokens."""
    out: list[list[int]] = []
    size = 0
    for i in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
        need = len(prompts[i]) + n * limits[i]
        if not out or size + need > most:
            out.append([])
            size = 0
        out[-1].append(i)
        size += need
    return out


def _prefill(
    prompts: Sequence[np.ndarray],
    writing: Sequence[_Writing],
    step: Step,
    device: torch.device,
    retained: Retained | None,
) -> tuple[Shared, Tensor, list[_Writing]]:
    """Evaluate the prompts once, or what is not kept of them: the cache for their completions, the hidden state each
    starts from ``[R, D]``, and the completions in the order of both (those of equal prompts stand together).
    """
    distinct: dict[bytes, int] = {}
    which = [distinct.setdefault(np.asarray(p, np.int32).tobytes(), len(distinct)) for p in prompts]
    unique = [prompts[which.index(u)] for u in range(len(distinct))]
    if retained is None:
        packed = pack(unique)
        layout = Packed(packed, device, retain=True)
        hidden = step(tensor_on(packed.token_ids, device), tensor_on(packed.positions, device), layout)
        places, evaluated = [packed.where(u) for u in range(len(unique))], _first_seen(packed)
        hidden = hidden[tensor_on(np.array([at[-1] for at in places]), device)]
        pools = (layout.retained.pop(layer) for layer in sorted(layout.retained))
    else:
        places, hidden, evaluated = retained.read(unique, step, device)
        pools = iter(retained.layers)
    lengths = np.array([len(p) for p in places])
    table = np.zeros((len(unique), lengths.max()), np.int64)
    for u, at in enumerate(places):
        table[u, : len(at)] = at
    index = tensor_on(table.reshape(-1), device)

    def spread(pool: Tensor) -> Tensor:
        rows = pool[:, index].view(pool.shape[0], len(unique), -1, pool.shape[2])
        return rows.transpose(0, 1).contiguous()

    layers = [(spread(key), spread(value)) for key, value in pools]
    owner = np.repeat(np.array(which), len(writing) // len(prompts))
    order = np.argsort(owner, kind="stable")
    alive = [writing[i] for i in order.tolist()]
    for one, u in zip(alive, owner[order].tolist(), strict=True):
        one.cached, one.behind = len(places[u]) - evaluated[u], int(places[u][-1])
        evaluated[u] = 0  # the others of this prompt find all of it
    at = tensor_on(owner[order], device)
    return Shared(layers, tensor_on(lengths, device), at), hidden[at], alive


def _first_seen(packed: Pack) -> list[int]:
    """How many tokens of each sequence of a packed row no sequence before it has."""
    seen, out = np.zeros(len(packed.token_ids), np.bool_), list[int]()
    for u in range(len(packed.places)):
        at = packed.where(u)
        out.append(int((~seen[at]).sum()))
        seen[at] = True
    return out


def _draw(hidden: Tensor, head: Head, alive: Sequence[_Writing], settings: SamplingParams) -> None:
    """Sample one more token for each completion."""
    free = [j for j, one in enumerate(alive) if one.tree is None]
    if free:
        rows = hidden if len(free) == len(alive) else hidden[torch.tensor(free, device=hidden.device)]
        uniforms = np.array([alive[j].uniforms[len(alive[j].ids)] for j in free])
        drawn = _draw_rows(head.logits(rows), uniforms, settings)
        for j, token, logp, entropy in zip(free, *drawn, strict=True):
            alive[j].take(token, logp, entropy)
    for j, one in enumerate(alive):
        if one.tree is None:
            continue
        allowed = one.tree.allowed[one.node]
        if len(allowed) == 1:
            one.take(int(allowed[0]), 0.0, 0.0)
            continue
        ids = torch.from_numpy(allowed).to(hidden.device)
        logits = (hidden[j].float() * head.weight[ids].float()).sum(-1)
        logits = logits if head.bias is None else logits + head.bias[ids].float()
        uniform = np.array([one.uniforms[len(one.ids)]])
        (which,), (logp,), (entropy,) = _draw_rows(logits[None], uniform, settings)
        one.take(int(allowed[which]), logp, entropy)


def _draw_rows(
    logits: Tensor, uniforms: np.ndarray, settings: SamplingParams
) -> tuple[list[int], list[float], list[float]]:
    """Tokens, log-probabilities and entropies of rows of logits float32 ``[R, V]``, one uniform number a row."""
    greedy = settings.temperature == 0.0
    z = logits if greedy or settings.temperature == 1.0 else logits / settings.temperature
    if not greedy and (settings.top_p < 1.0 or 0 < settings.top_k < z.shape[1]):
        z = _truncated(z, settings)
    even = z
    if settings.temperature_schedule is not None and not greedy:
        z = settings.temperature_schedule.warmed(z)
    p = torch.softmax(z, dim=-1)
    if greedy:
        token = z.argmax(-1)
    else:
        cumulative = p.cumsum(-1)
        target = torch.from_numpy(uniforms).to(z.device, p.dtype) * cumulative[:, -1]
        token = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0].clamp_(max=z.shape[1] - 1)
        # rounding can point behind the last token with any probability
        token = torch.where(p.gather(1, token[:, None])[:, 0] > 0, token, p.argmax(-1))
    recorded = logits if settings.plain else even
    if recorded is not z:
        z = recorded
        p = torch.softmax(z, dim=-1)
    log_p = z - z.logsumexp(-1, keepdim=True)
    entropy = -torch.linalg.vecdot(p, log_p.clamp(min=-1e30))
    return token.tolist(), log_p.gather(1, token[:, None])[:, 0].tolist(), entropy.tolist()


def _truncated(z: Tensor, settings: SamplingParams) -> Tensor:
    """Logits with -inf outside the ``top_k`` most probable and then outside the nucleus of mass ``top_p``."""
    out = torch.full_like(z, float("-inf"))
    if 0 < settings.top_k < z.shape[1]:
        top = torch.topk(z, settings.top_k, dim=-1).indices
        out.scatter_(1, top, z.gather(1, top))
        z = out.clone()
        out.fill_(float("-inf"))
    if settings.top_p >= 1.0:
        return z
    probabilities = torch.softmax(z.double(), dim=-1).cpu().numpy()
    for row, p in enumerate(probabilities):
        top = torch.from_numpy(nucleus(p, settings.top_p)).to(z.device)
        out[row, top] = z[row, top]
    return out


def _end(one: _Writing, settings: SamplingParams, decode: Callable[[Sequence[int]], str]) -> None:
    """Whether a completion has ended: end token, stop string, complete choice, or no room."""
    if one.finish:
        return
    if one.tree is None:
        if one.ids[-1] in settings.end_ids:
            one.finish = "stop"
        elif settings.stop:
            # a stop string of s characters has at most 4 s bytes, so as many tokens; some more for cut characters
            tail = decode(one.ids[-(4 * max(len(s) for s in settings.stop) + 4) :])
            if any(s in tail for s in settings.stop):
                one.finish = "stop"
    if not one.finish and len(one.ids) >= one.limit:
        one.finish = "length"


def _finished(one: _Writing, settings: SamplingParams, decode: Callable[[Sequence[int]], str]) -> Sampled:
    ids = one.ids
    if one.tree is None and ids[-1] in settings.end_ids:
        ids = ids[:-1]
    text = decode(ids)
    text, stopped = cut(text, settings.stop if one.tree is None else ())
    numbers = (np.array(one.ids, np.int32), np.array(one.logp, np.float32), np.array(one.entropy, np.float32))
    return Sampled(*numbers, text, one.finish, stopped, one.cached)
