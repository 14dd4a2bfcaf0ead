"""What a run came to, in words: better or worse than each of its baselines, or no different, and what to try next.

The terminal, the report, the comparison and the index of runs all say what stands here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.core.jsonfile import shorten_home
from evolvent.evaluate.against import Against, State, own, sentence_of
from evolvent.evaluate.series import Row
from evolvent.evaluate.spent import EARLY

RANKED = 3
"""Outcomes below which a memory is not called one of the least valuable."""
FEW_SEEDS = 5
_EASY = 0.95
_OTHERS = "See whether other seeds say the same."
_CONTROL = "Run a memory on the same tasks, and compare the two (evolvent compare)."
_SEEDS = ("--seeds", "0", "1", "2", "3", "4")
_OWN = ("--seed", "--seeds", "--out", "--resume")  # flags that belong to a single run


@dataclass(frozen=True)
class Verdict:
    """``sentence`` first; ``against`` has the numbers; ``advice`` and ``command`` say what to try next.

    ``note`` says what the sentence rests on.
    """

    sentence: str
    note: str = ""
    against: tuple[Against, ...] = ()
    advice: str = ""
    command: str = ""

    @property
    def state(self) -> State:
        """Of all comparisons together: a colour says better or worse only where none of them says otherwise."""
        states = {one.state for one in self.against}
        if states == {"better"}:
            return "better"
        if "worse" in states and "better" not in states:
            return "worse"
        return "unknown" if states <= {"unknown"} else "same"

    def lines(self) -> list[str]:
        """The numbers, one line a comparison, each with what it is compared with."""
        return [f"{one.subject} against {one.name}: {one.numbers}".strip() for one in self.against]


def of_run(manifest: Mapping[str, Any], summary: Mapping[str, Any], rows: Sequence[Row], folder: Path) -> Verdict:
    """The verdict on one run.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        rows: its lines of metrics.
        folder: where it is, for the command that goes on.
    """
    if not summary:
        done = max((int(row["step"]) for row in rows), default=0)
        return Verdict(f"No verdict yet: the run has not ended (step {done:,}).", command=_again(manifest, folder))
    if (summary.get("score") or {}).get("value") is None:
        return Verdict("No verdict: the run has no score.")
    if manifest.get("algo") == "no_memory":
        return Verdict("No verdict: this is the control, which learns nothing.", advice=_CONTROL)
    found = own(_kind(manifest, summary), [summary], rows)
    if len(seeds := seeds_of(manifest)) > 1:
        told = ", ".join(map(str, seeds))
        next_ = "See what all seeds say together.", _line("evolvent", "compare", _place(folder.parent))
        return Verdict(sentence_of(found), f"This is one of the seeds {told}.", found, *next_)
    note = "One seed: another one may come out otherwise." if found else ""
    return Verdict(sentence_of(found), note, found, *_next(manifest, summary, found, folder))


def of_seeds(
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    found: tuple[Against, ...],
    seeds: Sequence[int],
    folder: Path,
) -> Verdict:
    """The verdict on the seeds of one setting: ``found`` says how they came out together.

    Args:
        manifest: content of ``config.json`` of one of them.
        summary: content of its ``summary.json``.
        found: what ``own`` says of all of them.
        seeds: all of them.
        folder: of the one.
    """
    if len(seeds) == 1:
        return Verdict(sentence_of(found), "", found)
    advice, command = _next(manifest, summary, found, folder)
    if len(seeds) >= FEW_SEEDS and advice == _OTHERS:
        advice = command = ""
    elif "--resume" in command:  # the folder of all of them, where one command began them
        together = list(seeds) == seeds_of(manifest)
        command = _next(manifest, summary, found, folder.parent)[1] if together else ""
        command += f" --seeds {' '.join(map(str, seeds))}" if command else ""
    return Verdict(sentence_of(found), f"{len(seeds)} seeds together.", found, advice, command)


def seeds_of(manifest: Mapping[str, Any]) -> list[int]:
    """The seeds that the run was begun with by one command; one seed or none for a run of its own."""
    told = re.search(r"--seeds((?: \d+)+)|\bseeds=[(\[]([\d, ]+)", str(manifest.get("command", "")))
    return [int(seed) for seed in re.findall(r"\d+", told[0])] if told else []


# ------------------------------------------------------------------------------------------- what next
def _next(
    manifest: Mapping[str, Any], summary: Mapping[str, Any], found: Sequence[Against], folder: Path
) -> tuple[str, str]:
    """What to try, and the command for it."""
    kind = _kind(manifest, summary)
    if found and all(one.state == "better" for one in found) and kind != "programs":
        return _OTHERS, _with(manifest, *_SEEDS)
    if any(one.state == "unknown" for one in found):
        return "Judge it on more tasks or attempts.", ""
    return _HINTS.get(kind, _any)(manifest, summary, folder)


def _kind(manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    if manifest.get("kind"):
        return str(manifest["kind"])
    return "memory" if "passes" in summary else "language" if "before" in summary else "team"


def _any(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    return _OTHERS, _with(manifest, *_SEEDS)


def _memory(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    baseline = (summary.get("baseline") or {}).get("value")
    if baseline is not None and baseline >= _EASY:
        return "Without memory nearly every task is solved already: choose harder tasks.", ""
    page = _line("evolvent", "memory", "audit", _place(folder), "--html", "audit.html")
    return "See which memories help, which do harm, and whether any was shown at all; then try more passes.", page


def _language(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    if summary.get("policy_updates") == 0:
        return "Nothing was learned from: attempts of a group all earned the same (docs/when-it-does-not-learn.md).", ""
    words = "Train longer; signs that it cannot learn are in docs/when-it-does-not-learn.md."
    return words, _more(manifest, summary, folder, "updates")


def _team(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    greedy, sampled = (summary.get("greedy") or {}).get("value"), (summary.get("sampled") or {}).get("value")
    words = "Train longer: most teams need far more steps than this."
    if greedy is not None and sampled is not None and sampled > greedy:
        words = "Train longer: with sampled actions it earns more than greedily, so that it has not settled yet."
    return words, _more(manifest, summary, folder, "steps")


def _search(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """Twice the budget that ended the first search: of tokens and calls the one of which it spent the larger share."""
    arm, shares = (summary.get("arms") or [{}])[0], dict[str, float]()
    for name, spent in (
        ("tokens", (arm.get("tokens") or 0.0) + (arm.get("judge_tokens") or 0.0)),
        ("calls", arm.get("calls") or 0.0),
    ):
        if limit := summary.get(f"budget_{name}"):
            shares[name] = spent / limit
    most = max(shares, key=lambda name: shares[name], default="")
    if summary.get("budget_seconds") and shares.get(most, 0.0) <= 1.0 - EARLY:
        most = "seconds"
    elif arm.get("wider") and shares.get(most, 1.0) <= 1.0 - EARLY:
        return f"It came to nothing new before its budget was spent: set {arm['wider']}, or search more tasks.", ""
    more = (f"--budget-{most}", f"{2 * summary[f'budget_{most}']:g}") if most else ()
    return "Search with a larger budget, or on more tasks.", _with(manifest, *more) if more else ""


def _programs(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """More attempts find more: the control is as many without memory, drafts where there is something to draft."""
    given = str(manifest["env"]).startswith("kernels:faster")
    if summary.get("select") == "none" and (given or not summary.get("refine", True)):
        return _any(manifest, summary, folder)
    words = "See what as many {} without memory come to; then compare both (evolvent compare)."
    if given:
        return words.format("attempts"), _with(manifest, "--select", "none")
    return words.format("drafts"), _with(manifest, "--select", "none", "--no-refine")


_HINTS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Path], tuple[str, str]]] = {
    "memory": _memory,
    "language": _language,
    "team": _team,
    "search": _search,
    "programs": _programs,
}


def _again(manifest: Mapping[str, Any], folder: Path) -> str:
    """The command that goes on with a run."""
    system = _words(manifest)[2:3] or [str(manifest["algo"])]
    return _line("evolvent", "run", *system, "--resume", _place(folder))


def _more(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path, what: str) -> str:
    """The command that goes on with twice the updates or steps."""
    done = summary.get(what)
    return f"{_again(manifest, folder)} --{what} {2 * done}" if done else ""


def _with(manifest: Mapping[str, Any], *flags: str) -> str:
    """The run's own command with other flags, without those that belong to a single run."""
    words = _words(manifest) or ["evolvent", "run", str(manifest["algo"]), "--env", str(manifest["env"])]
    kept, skipped = list[str](), False
    drop = (*_OWN, *(flag for flag in flags if flag.startswith("--")))
    for word in words:
        if word.startswith("--"):
            skipped = word.partition("=")[0] in drop
        if not skipped:
            kept.append(word)
    return _line(*kept, *flags)


def _words(manifest: Mapping[str, Any]) -> list[str]:
    """The words of the command line that began the run; none where it was begun otherwise."""
    command = str(manifest.get("command", ""))
    return shlex.split(command) if command.startswith("evolvent run ") and "--resume" not in command else []


def _place(folder: Path) -> str:
    return str(shorten_home(str(folder)))


def _line(*words: str) -> str:
    """A command line; what stands in the home folder keeps its ``~/``, which a shell reads outside of quotes only."""
    return " ".join(f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word) for word in words)
