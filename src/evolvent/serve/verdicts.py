"""What follows from evidence: a pure function of it and the clock, so that it can be replayed and revised.

The highest rank decides; within a rank the newest. A test run says something only beside the run before it.

| rank | kinds | settles |
|---|---|---|
| 6 | ``person``, ``reverted``, ``reward`` of the environment or a person | at once |
| 5 | ``tests`` one by one, ``command`` (a check that was watched), ``reward`` of tests | at once |
| 2 | ``exit`` of a check that an agent ran, ``reward`` by proxy | with a quarter of the weight, when all is quiet |
| 0 | ``claim`` of the model itself, ``reward`` of a judge | never |
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

RUNS = ("tests", "command", "exit")
"""Kinds that are compared with the run before."""
KINDS = {"person": "human", "tests": "tests", "command": "tests", "exit": "proxy", "claim": "proxy"}
"""Kinds that can be said, with the source that a token must allow for it; reverts are read from git."""
IDLE_S = 30 * 60.0
"""A weak verdict waits until the attempt has been quiet for so long."""
LAPSE_S = 14 * 86_400.0
"""Then nobody will say any more what came of it."""
_CONFLICT_S = 60.0
_HASH = 8  # hexadecimal digits that stand for a test
_RANK_6, _RANK_5, _RANK_2 = 6, 5, 2
_OF_REWARD = {"env": 6, "human": 6, "tests": 5, "proxy": 2, "judge": 0}
_RANKS = {"person": 6, "reverted": 6, "reapplied": 6, "tests": 5, "command": 5, "exit": 2, "claim": 0}
_NOTHING = {124, 126, 127}  # ran out of time, cannot be run, is not there; above 127: a signal


@dataclass(frozen=True)
class Evidence:
    """A statement about an attempt.

    Args:
        id: its number: their order.
        attempt: which, if it is known.
        kind: what kind of statement; ``reward`` where a client settled a receipt itself.
        source: who says so, as outcomes have it.
        who: the token that said it.
        reward: what it says, where it says that itself: a truth value, or a number in the range of the memory; None:
            that nothing can be said.
        run: the run that it reports; a command and the tests that ran in it have the same.
        detail: of tests ``passed`` and ``failed`` (8 hexadecimal digits a test), of commands ``command`` and ``code``.
        at: when it was said, seconds since 1970.
    """

    id: int
    attempt: str | None
    kind: str
    source: str
    who: str
    reward: bool | float | None
    run: str = ""
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    at: float = 0.0

    @property
    def rank(self) -> int:
        """Whose word counts more."""
        return _OF_REWARD[self.source] if self.kind == "reward" else _RANKS[self.kind]


@dataclass(frozen=True)
class Verdict:
    """What the memory is told of an attempt.

    Args:
        state: ``open`` nothing was said that decides; ``waiting`` for the attempt to be quiet; ``conflict`` two that
            count alike contradict each other, so a person must say; ``settled``.
        reward: None where the outcome is invalid: it says nothing about the notes.
        weight, source: as of an outcome.
        evidence: numbers of what decided.
        words: why, in a sentence.
    """

    state: Literal["open", "waiting", "conflict", "settled"] = "open"
    reward: bool | float | None = None
    weight: float = 1.0
    source: str = "env"
    evidence: tuple[int, ...] = ()
    words: str = "nobody has said yet what came of it"


def resolve(own: Iterable[Evidence], before: Iterable[Evidence], last: float, now: float) -> Verdict:
    """The verdict. The order in which evidence is passed, and how often, changes nothing.

    Args:
        own: evidence about the attempt.
        before: test runs of the same repository that came before its first one.
        last: the attempt's last activity.
        now: seconds since 1970.
    """
    said = [one for _, one in sorted({one.id: one for one in own}.items())]
    earlier = [one for _, one in sorted({one.id: one for one in before}.items())]
    if highest := _highest([one for one in said if one.rank == _RANK_6]):
        return highest
    if judged := _judged([one for one in said if one.rank == _RANK_5], [one for one in earlier if one.rank == _RANK_5]):
        return judged
    weak = _judged([one for one in said if one.rank == _RANK_2], [one for one in earlier if one.rank == _RANK_2])
    if weak:
        quiet = now - last >= IDLE_S
        words = weak.words if quiet else f"{weak.words}; it counts when nothing has happened for 30 minutes"
        state = "settled" if quiet else "waiting"
        return Verdict(state, weak.reward, weak.weight / 4, weak.source, weak.evidence, words)
    if now - last >= LAPSE_S:
        return Verdict("settled", words="nobody said within 14 days what came of it")
    if claims := [one for one in said if one.kind == "claim"]:
        words = "the model says so itself, which moves nothing; no test, command or person has spoken"
        return Verdict(evidence=tuple(one.id for one in claims), words=words)
    return Verdict()


def _highest(said: Sequence[Evidence]) -> Verdict | None:
    """By a person, a revert, the environment; what was reverted and brought back was not reverted."""
    back = {one.detail["of"]: one.id for one in said if one.kind == "reapplied"}
    said = [
        one
        for one in said
        if one.kind != "reapplied" and not (one.kind == "reverted" and one.id < back.get(one.detail["of"], 0))
    ]
    if not said:
        return None
    one = said[-1]
    last = {(other.kind, other.who): other for other in said}  # whoever thinks again does not contradict
    for other in last.values():
        if one.at - other.at <= _CONFLICT_S and None not in (one.reward, other.reward) and one.reward != other.reward:
            words = f"{_said(other)} and {_said(one)} contradict each other; a person must say"
            return Verdict("conflict", evidence=(other.id, one.id), words=words)
    return _by_word(one)


def _by_word(one: Evidence) -> Verdict:
    return Verdict("settled", one.reward, float(one.detail.get("weight", 1.0)), one.source, (one.id,), _said(one))


def _said(one: Evidence) -> str:
    by = {"reverted": f"commit {str(one.detail.get('commit', ''))[:10]} reverts it", "person": "a person"}.get(
        one.kind, f"{one.who} ({one.source})"
    )
    if one.kind == "reverted":
        return f"{by} (evidence {one.id})"
    word = {None: "cannot tell", True: "right", False: "wrong"}.get(one.reward, f"reward {one.reward}")
    return f"{by} said: {word} (evidence {one.id})"


# ------------------------------------------------------------------------------------------------------- test runs
def passed(command: str, code: int) -> bool | None:
    """Whether a check passed by its exit code; None where that tells nothing (no tests, a signal, no such command)."""
    if code < 0 or code > 127 or code in _NOTHING or (code > 1 and _is_pytest(command)):
        return None
    return code == 0


def _is_pytest(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return any(word.rpartition("/")[2] in ("pytest", "py.test") for word in words)


def _statuses(runs: Iterable[Evidence]) -> list[tuple[int, str, dict[str, bool]]]:
    """By run, in order, which tests passed; a command is a test of its own unless its tests are told one by one."""
    runs = list(runs)
    told = {one.run for one in runs if one.kind == "tests" and one.run}
    found = list[tuple[int, str, dict[str, bool]]]()
    for one in runs:
        if one.kind == "tests":
            good, bad = (_tests(str(one.detail.get(name, ""))) for name in ("passed", "failed"))
            status = dict.fromkeys(good, True) | dict.fromkeys(bad, False)
            found.append((one.id, one.source, status))
        elif one.kind != "reward" and one.run not in told:
            command = str(one.detail.get("command", ""))
            ok = passed(command, int(one.detail.get("code", 127)))
            if ok is not None:
                found.append((one.id, one.source, {f"$ {command}": ok}))
    return found


def _tests(text: str) -> list[str]:
    return [text[i : i + _HASH] for i in range(0, len(text), _HASH)]


def _judged(said: Sequence[Evidence], before: Sequence[Evidence]) -> Verdict | None:
    """By test runs: each test as it ended in the attempt, beside how it was before, or in the attempt's first run."""
    if said and said[-1].kind == "reward":
        return _by_word(said[-1])
    runs, earlier = _statuses(said), _statuses(before)
    if not runs:
        return None
    was = dict[str, bool]()
    for _, _, status in earlier:
        was |= status
    first, end = dict[str, bool](), dict[str, bool]()
    for _, _, status in runs:
        first = {**status, **first}
        end |= status
    start = {test: was.get(test, first[test]) for test in end}
    broken = sum(start[test] and not end[test] for test in end)
    fixed = sum(end[test] and not start[test] for test in end)
    still = sum(not end[test] and not start[test] for test in end)
    good = len(end) - broken - fixed - still
    unseen = [test for test, ok in (earlier[-1][2] if earlier else {}).items() if not ok and test not in end]
    number, source, _ = runs[-1]
    return _verdict(source, number, {"broken": broken, "fixed": fixed, "still": still, "good": good}, len(unseen))


def _verdict(source: str, number: int, counts: Mapping[str, int], unseen: int) -> Verdict | None:
    words = {
        "broken": "passed before and fails now",
        "fixed": "failed before and passes now",
        "still": "fails as before",
        "good": "passes as before",
    }
    told = ", ".join(f"{n} {words[name]}" for name, n in counts.items() if n)
    told = f"of what was tested {told}" + (f", {unseen} that failed before was not run" if unseen else "")
    told += f" (evidence {number})"

    def settled(reward: bool, weight: float) -> Verdict:
        return Verdict("settled", reward, weight, source, (number,), told)

    if counts["broken"]:
        return settled(False, 1.0)
    if counts["fixed"]:
        return settled(True, 0.5 if counts["still"] or unseen else 1.0)
    if counts["still"] or unseen:
        return None  # it was so before: nothing follows
    return settled(True, 0.5) if counts["good"] else None
