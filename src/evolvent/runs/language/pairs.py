"""Recorded attempts to learn from: the episodes of a run, a search's trees among them, or preferences in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.branches import linear
from evolvent.core.codec import load_episodes
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.rounding import differ
from evolvent.core.seeding import rng
from evolvent.credit._shared import Shared
from evolvent.credit.step_search_return import to_go
from evolvent.runs.language.examples import by_template, ending
from evolvent.runs.language.rows import in_words, json_lines
from evolvent.runs.language.run import LanguageRun

if TYPE_CHECKING:
    from evolvent.models.language.model import LanguageModel

FIELDS = ("prompt", "chosen", "rejected")
_EXPECTED = ", ".join(FIELDS)
Compare = Literal["attempts", "siblings"]


class Recorded:
    """Groups of attempts that are compared with one another, ``n`` in each update, in an order drawn anew for every
    pass.
    """

    def __init__(self, groups: Sequence[list[Episode]], n: int, seed: int) -> None:
        self.groups, self.n, self.seed = list(groups), n, seed

    def __call__(self, update: int) -> tuple[list[Episode], dict[str, float]]:
        """The attempts of an update, the same for the same number; of how they came there is nothing to log."""
        out = [e for _, place in self.places(update) for e in self.groups[place]]
        return list({id(e): e for e in out}.values()), {}  # fewer groups than an update takes: each once

    def places(self, update: int) -> list[tuple[int, int]]:
        """Of each group of an update the number of the pass over all groups, 0-based, and its place among them."""
        size = len(self.groups)
        found = [divmod(at, size) for at in range(update * self.n, (update + 1) * self.n)]
        order = {epoch: rng(self.seed, "pairs", epoch).permutation(size) for epoch, _ in found}
        return [(epoch, int(order[epoch][place])) for epoch, place in found]


@dataclass(frozen=True)
class Pairs:
    """What stands in a file of preferences, before any model has read it: pairs in words, or groups of attempts."""

    path: Path
    texts: tuple[tuple[int, dict[str, Any]], ...] = ()
    groups: tuple[list[Episode], ...] = ()


def find_pairs(place: str, compare: Compare = "attempts") -> Pairs | None:
    """The preferences in the file or folder ``place``; ``None`` where none is named: attempts are collected.

    Raises:
        BadInput: no such file, a line that cannot be read, or nothing to compare.
    """
    if not place:
        if compare == "siblings":
            raise BadInput(
                "siblings are decisions of recorded attempts",
                got="no --pairs",
                where="--compare siblings",
                expected="--pairs with the folder of a run that recorded trees, such as a search",
            )
        return None
    path = _file(place, "--pairs")
    as_texts = any("chosen" in row for _, row in json_lines(path, _EXPECTED, first=True))
    if as_texts and compare == "siblings":
        raise BadInput("pairs in words are compared as they are", got=str(path), where="--compare siblings")
    groups = () if as_texts else _groups(path)
    telling = siblings(groups) if compare == "siblings" else (g for g in groups if differ([e.total_reward for e in g]))
    texts = (
        [(number, _pair(row, f"{path}:{number}")) for number, row in json_lines(path, _EXPECTED)] if as_texts else []
    )
    found = Pairs(path, texts=tuple(texts), groups=tuple(telling))
    if not found.texts and not groups and load_episodes(path):
        raise BadInput(
            "no attempt with tokens", got=str(path), expected="attempts of a model in torch (train:…)", where="--pairs"
        )
    if not found.texts and not found.groups:
        expected = {
            "attempts": "groups of two attempts or more whose returns differ",
            "siblings": "attempts that went apart in one state, and whose returns differ",
        }[compare]
        raise BadInput(
            "nothing to compare",
            got=str(path),
            expected=expected,
            where="--pairs",
            do="record more attempts: --record 32 in the run that writes them; of a search, more --paths or --tasks",
        )
    return found


def find_attempts(place: str) -> Pairs | None:
    """All recorded attempts in the file or folder ``place``; ``None`` where none is named.

    Raises:
        BadInput: no such file, or nothing in it that a policy gradient can learn from.
    """
    if not place:
        return None
    path = _file(place, "--recorded")
    as_texts = any("chosen" in row for _, row in json_lines(path, _EXPECTED, first=True))
    found = Pairs(path, groups=() if as_texts else _groups(path))
    if not found.groups:
        raise BadInput(
            "no attempts to learn from",
            got=f"{path}: {'pairs in words' if as_texts else 'no attempt with tokens'}",
            expected="episodes.jsonl of a run with a model in torch (train:…)",
            where="--recorded",
            do="search training tasks first: evolvent run search --split train --model train:MODEL",
        )
    return found


def siblings(groups: Sequence[Sequence[Episode]]) -> list[list[Episode]]:
    """The best and the worst decision of each state in which recorded attempts went apart, as attempts of one decision.

    What a decision is worth is the mean return of the attempts that made it (``credit.step_search_return``); those of a
    tree share what they have in common (``core.branches.linear``).

    Returns:
        Groups of two, chosen and rejected, with rewards 1 and 0.
    """
    attempts = [one for group in groups for one in group]
    shared = Shared(attempts)
    worth_D = shared.mean(to_go(shared))
    states: dict[int, list[int]] = {}
    step_D = [t for i in shared.rows for t in range(attempts[i].n_steps)]
    for place, state in enumerate(shared.above_D.tolist()):
        states.setdefault(state, []).append(place)
    out: list[list[Episode]] = []
    for state, places in states.items():
        best, worst = max(places, key=lambda i: worth_D[i]), min(places, key=lambda i: worth_D[i])
        if differ([worth_D[best], worth_D[worst]]):
            pair = [(attempts[shared.rows[shared.row_D[i]]], step_D[i]) for i in (best, worst)]
            name = f"siblings-{state}"
            out.append([_decision(*pair[0], name, good=True), _decision(*pair[1], name, good=False)])
    return out


def _decision(attempt: Episode, step: int, name: str, *, good: bool) -> Episode:
    """One decision of an attempt, with all that was read before it, as an attempt of its own."""
    (said,) = (node for node in attempt.nodes if node.step == step)
    episode = Episode(attempt.task_id, env=attempt.env, group=name, id=f"{name}.{'chosen' if good else 'rejected'}")
    episode.observe("", token_ids=attempt.context_ids(step), parent=-1)
    episode.act(
        said.text,
        agent=said.agent,
        token_ids=attempt.step_tokens(step),
        choices=attempt.choices(step),
        reward=float(good),
        finish=attempt.finish_T[step],
    )
    episode.end(terminated=True, success=good, source="search")
    return episode


def _file(place: str, flag: str) -> Path:
    path = Path(place).expanduser()
    path = path / "episodes.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise BadInput("no such file", got=str(path), expected="episodes.jsonl of a run, or lines of JSON", where=flag)
    return path


def attempts(run: LanguageRun, pairs: Pairs | None) -> Recorded | None:
    """The preferences as groups of attempts in the tokens of the run's model.

    Raises:
        BadInput: tokens of another model.
    """
    if pairs is None:
        return None
    style, groups = run.config.plan.style, None
    if pairs.texts:
        if style == "plain" and not isinstance(pairs.texts[0][1]["prompt"], str):
            run.live.note("pairs of messages are read by the chat template; attempts are plain (--style chat: both)")
        task = run.heldout[0]
        listed = run.env.reset(task, task.seed).admissible is not None  # a command on a list is said without an end
        stop = None if listed else run.env.stop
        groups = read_pairs(pairs, run.model, chat=style == "chat", stop=stop)
    return Recorded(groups or read_groups(pairs, run.model), run.config.prompts, run.config.seed)


def sampled(run: LanguageRun, found: Pairs | None) -> Recorded | None:
    """Recorded attempts as they were sampled, for a policy gradient; ``None`` where none were asked for.

    Raises:
        BadInput: tokens of another model.
    """
    if found is None:
        return None
    return Recorded(read_groups(found, run.model, sampled=True), run.config.prompts, run.config.seed)


def read_pairs(
    pairs: Pairs, model: LanguageModel, *, chat: bool, stop: Sequence[str] | None = None
) -> list[list[Episode]]:
    """Pairs in words as groups of two attempts of one decision.

    Texts are continued as they stand. With ``stop`` answers end as attempts do: with the first of these texts that
    stands inside none of them, or else with the model's token for the end. Messages, and with ``chat`` texts, too, are
    read by the chat template: the prompt is the user's message, and answers end as the template ends them.
    """
    groups: list[list[Episode]] = []
    said = [str(row[name]) for _, row in pairs.texts for name in FIELDS[1:]]
    end = ending(model, said, stop)
    for number, row in pairs.texts:
        prompt = row["prompt"]
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        context = model.encode(prompt, start=True) if isinstance(prompt, str) and not chat else None
        pair: list[Episode] = []
        for name in FIELDS[1:]:
            good, text = name == "chosen", str(row[name])
            answer = {"role": "assistant", "content": text}
            seen, ids = by_template(model, model.chat, messages, answer) if context is None else (context, end(text))
            episode = Episode(f"pair-{number}", group=f"pair-{number}", id=f"{number}.{name}")
            episode.observe("\n".join(message["content"] for message in messages), token_ids=seen, parent=-1)
            episode.act(text, token_ids=ids, reward=float(good), finish="stop")
            episode.end(terminated=True, success=good, source="preference")
            pair.append(episode)
        groups.append(pair)
    return groups


def read_groups(pairs: Pairs, model: LanguageModel, *, sampled: bool = False) -> list[list[Episode]]:
    """Groups of recorded attempts as this model's; ``sampled`` keeps the log-probabilities of sampling, for ratios.

    Raises:
        BadInput: they were recorded with another model's tokens.
    """
    for group in pairs.groups[:8]:
        _check_tokens(group[0], model, pairs.path)
    if sampled:
        return [list(group) for group in pairs.groups]
    return [[_without_logp(episode) for episode in group] for group in pairs.groups]


def _pair(row: dict[str, Any], where: str) -> dict[str, Any]:
    """Texts as they are; of messages, as TRL's data sets have them, the prompt, and what the last ones say.

    There each side is the answer alone, or the whole conversation; the prompt may be left out where both begin alike.
    """
    row = {name: in_words(row[name]) for name in FIELDS if name in row}
    if "prompt" not in row and all(isinstance(row.get(name), str) for name in FIELDS[1:]):
        row = _common(row)
    if all(isinstance(row.get(name), str) and row[name] for name in FIELDS):
        return row
    prompt = row.get("prompt", [])
    prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) and prompt else prompt
    sides: list[Any] = [row.get(name) for name in FIELDS[1:]]
    if not all(_is_said(messages) for messages in (prompt, *sides)) or not all(sides):
        raise BadInput(
            "not a pair",
            got=sorted(row),
            where=where,
            expected=f'{", ".join(FIELDS)}: texts, or lists of {{"role": …, "content": text}}',
        )
    before = prompt or sides[0][:-1]
    answers = [messages[len(before) :] if messages[: len(before)] == before else messages for messages in sides]
    if not before or not all(len(one) == 1 and one[0]["role"] == "assistant" for one in answers):
        raise BadInput(
            "not one answer each to the same messages",
            got=[[one["role"] for one in side] for side in sides],
            expected="the assistant's answer last, what was said before it equal",
            where=where,
        )
    return {"prompt": before, **{name: one[0]["content"] for name, one in zip(FIELDS[1:], answers, strict=True)}}


def _common(row: dict[str, Any]) -> dict[str, Any]:
    """Texts that hold their prompt, as some data sets have them: it is what both begin with, up to a whole word."""
    sides = [row[name] for name in FIELDS[1:]]
    apart = (i for i, (one, other) in enumerate(zip(*sides, strict=False)) if one != other)
    same = next(apart, min(len(text) for text in sides))
    while same and (any(text[same - 1 : same + 1].isalnum() for text in sides) or sides[0][same - 1] == " "):
        same -= 1  # a space belongs to the word behind it
    return {"prompt": sides[0][:same], **{name: row[name][same:] for name in FIELDS[1:]}}


def _is_said(messages: Any) -> bool:
    """Whether it is a list of messages in words."""
    return isinstance(messages, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("role", "content"))
        for one in messages
    )


def _groups(path: Path) -> tuple[list[Episode], ...]:
    """A run's recorded attempts by group."""
    groups: dict[str, list[Episode]] = {}
    for episode in linear(load_episodes(path)):
        if episode.valid and episode.n_tokens:
            groups.setdefault(episode.group or episode.task_id, []).append(episode)
    return tuple(groups.values())


def _without_logp(episode: Episode) -> Episode:
    """The attempt without its recorded log-probabilities: it was not sampled by an earlier version of this policy."""
    record = episode.to_dict()
    nodes = [{key: value for key, value in row.items() if key != "logp"} for row in record["nodes"]]
    return Episode.from_dict({**record, "nodes": nodes})


def _check_tokens(episode: Episode, model: LanguageModel, path: Path) -> None:
    """What was said must be what its tokens say in this model's vocabulary."""
    said = next(node.text for node in episode.nodes if node.step is not None)
    ids = episode.token_ids[: int(episode.tokens_per_step_T[0])]
    if len(ids) and int(ids.max()) < model.n_vocab and said.strip() in model.decode(ids):
        return
    raise BadInput(
        "the attempts were recorded with another model",
        got=f"tokens of {said!r} read otherwise here",
        expected=f"tokens of {model.name}",
        where=str(path),
        do="train the model that recorded them (--model)",
    )
