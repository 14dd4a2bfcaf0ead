"""What a run came to, in words: better or worse than each of its baselines, or no different, and what to try next.

The terminal, the report, the comparison and the index of runs all say what stands here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.core.jsonfile import shorten_home
from evolvent.evaluate.against import Against, State, own, sentence_of
from evolvent.evaluate.blocks import Hint, Page

FEW_SEEDS = 5
_OTHERS = "See whether other seeds say the same."
_SEEDS = ("--seeds", "0", "1", "2", "3", "4")
_OWN = ("--seed", "--seeds", "--out", "--resume")  # flags that belong to a single run


@dataclass(frozen=True)
class Verdict:
    """``sentence`` first; ``against`` has the numbers; ``advice`` and ``command`` say what to try next.

    ``note`` says what the sentence rests on. ``besides``: comparisons that it does not name, which no colour may hide.
    """

    sentence: str
    note: str = ""
    against: tuple[Against, ...] = ()
    advice: str = ""
    command: str = ""
    besides: tuple[Against, ...] = ()

    @property
    def state(self) -> State:
        """Of all comparisons together: a colour says better or worse only where none of them says otherwise."""
        states = {one.state for one in self.against}
        if states == {"better"}:
            return "same" if {one.state for one in self.besides} & {"worse", "same"} else "better"
        if "worse" in states and "better" not in states:
            return "worse"
        return "unknown" if states <= {"unknown"} else "same"

    def lines(self) -> list[str]:
        """The numbers, one line a comparison, each with what it is compared with."""
        return [f"{one.subject} against {one.name}: {one.numbers}".strip() for one in self.against]

    def told(self, *, advice: bool = True) -> list[str]:
        """All of it as lines for a terminal; nothing where there is no sentence."""
        told = (
            [f"\n{self.sentence} {self.note}".rstrip(), *(f"  {line}" for line in self.lines())]
            if self.sentence
            else []
        )
        if advice and self.advice:
            told.append(f"  next: {self.advice}" + (f"\n        {self.command}" if self.command else ""))
        return told


def of_run(manifest: Mapping[str, Any], page: Page, folder: Path, *, ended: bool = True, step: int = 0) -> Verdict:
    """The verdict on one run, from its ``config.json`` and its page; ``step``: how far it is until it ends."""
    if not ended:
        return Verdict(f"No verdict yet: the run has not ended (step {step:,}).", command=_again(manifest, folder))
    if page.score is None or page.score.value is None:
        return Verdict("No verdict: the run has no score.")
    if page.hint.verdict:
        return Verdict(page.hint.verdict, advice=page.hint.words)
    found = own([page])
    if len(seeds := seeds_of(manifest)) > 1:
        listed = ", ".join(map(str, seeds))
        next_ = "See what all seeds say together.", _line("evolvent", "compare", _place(folder.parent))
        return Verdict(sentence_of(found), f"This is one of the seeds {listed}.", found, *next_)
    note = "One seed: another one may come out otherwise." if found else ""
    return Verdict(sentence_of(found), note, found, *_next(manifest, page.hint, found, folder))


def of_seeds(manifest: Mapping[str, Any], pages: Sequence[Page], seeds: Sequence[int], folder: Path) -> Verdict:
    """The verdict on the seeds of one setting together; manifest and folder are those of one of them."""
    found, hint = own(pages), pages[0].hint
    if hint.verdict:
        return Verdict(hint.verdict)
    if len(seeds) == 1:
        return Verdict(sentence_of(found), "", found)
    advice, command = _next(manifest, hint, found, folder)
    if len(seeds) >= FEW_SEEDS and advice == _OTHERS:
        advice = command = ""
    elif "--resume" in command:  # the folder of all of them, where one command began them
        together = list(seeds) == seeds_of(manifest)
        command = _next(manifest, hint, found, folder.parent)[1] if together else ""
        command += f" --seeds {' '.join(map(str, seeds))}" if command else ""
    return Verdict(sentence_of(found), f"{len(seeds)} seeds together.", found, advice, command)


def seeds_of(manifest: Mapping[str, Any]) -> list[int]:
    """The seeds that the run was begun with by one command; one seed or none for a run of its own."""
    match = re.search(r"--seeds((?: \d+)+)|\bseeds=[(\[]([\d, ]+)", str(manifest.get("command", "")))
    return [int(seed) for seed in re.findall(r"\d+", match[0])] if match else []


# ------------------------------------------------------------------------------------------- what next
def _next(manifest: Mapping[str, Any], hint: Hint, found: Sequence[Against], folder: Path) -> tuple[str, str]:
    """What to try, and the command for it."""
    if any(one.state == "unknown" for one in found):
        return "Judge it on more tasks or attempts.", ""
    better = bool(found) and all(one.state == "better" for one in found)
    if not hint.words or (better and not hint.always):
        return _OTHERS, _with(manifest, *_SEEDS)
    if hint.command[:1] == ("evolvent",):  # a page is data: it has nobody run anything else
        return hint.words, _line(*(_place(folder) if word == "DIR" else word for word in hint.command))
    if hint.resume:
        return hint.words, " ".join([_again(manifest, folder), *map(shlex.quote, hint.flags)])
    return hint.words, _with(manifest, *hint.flags) if hint.flags else ""


def _again(manifest: Mapping[str, Any], folder: Path) -> str:
    """The command that goes on with a run."""
    system = _arguments(manifest)[2:3] or [str(manifest["algo"])]
    return _line("evolvent", "run", *system, "--resume", _place(folder))


def _with(manifest: Mapping[str, Any], *flags: str) -> str:
    """The run's own command with other flags, without those that belong to a single run."""
    arguments = _arguments(manifest) or ["evolvent", "run", str(manifest["algo"]), "--env", str(manifest["env"])]
    remaining, skipped = list[str](), False
    drop = (*_OWN, *(flag for flag in flags if flag.startswith("--")))
    for word in arguments:
        if word.startswith("--"):
            skipped = word.partition("=")[0] in drop
        if not skipped:
            remaining.append(word)
    return _line(*remaining, *flags)


def _arguments(manifest: Mapping[str, Any]) -> list[str]:
    """The arguments of the command line that began the run; none where it was begun otherwise."""
    command = str(manifest.get("command", ""))
    return shlex.split(command) if command.startswith("evolvent run ") and "--resume" not in command else []


def _place(folder: Path) -> str:
    return str(shorten_home(str(folder)))


def _line(*arguments: str) -> str:
    """A command line; what stands in the home folder keeps its ``~/``, which a shell reads outside of quotes only."""
    return " ".join(f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word) for word in arguments)
