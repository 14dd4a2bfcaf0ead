"""What every run does alike, whatever learns in it: clock, updates, log, evaluations, checkpoints, signals.

A new kind of run (offline, a population, a search) makes a shell; what is left to it is its loop:

    shell = Shell(folder, live, total=100, save_every=5, eval_every=10, resume=resume, evaluate=evaluate)
    shell.keep(policy=policy, optimizer=optimizer)             # what a checkpoint holds
    shell.restore(lambda state: state["update"])               # a resumed run stands where its newest checkpoint does
    for update in shell.updates():                             # evaluates, saves, stops where it is time
        with shell.clock("learn"):
            metrics = learn(update)
        shell.log(update + 1, {"return": gained}, metrics)     # ends the update
        shell.tell([f"return {gained:.3g}"])

Its ``Config`` says the kind (``KIND``); random streams follow from the number of the update, so that a resumed run has
the numbers of one that was never stopped. A run whose own store is its checkpoint (a memory) has no parts: it calls
``go_on`` (``runs/memory/cursor.py``), and counts ``update`` itself where its lines are no updates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.evaluate.live import Live, duration

if TYPE_CHECKING:
    import torch

Phase = Literal["act", "step", "credit", "learn"]
PHASES: tuple[Phase, ...] = ("act", "step", "credit", "learn")
_PLAIN_S, _LIVE_S = 30.0, 0.25  # between two lines of progress


@dataclass
class Shell:
    """See the module; made once for a run.

    Attributes:
        update: updates finished; ``first``: of them, before this process.
        seconds: of each part of the loop in the current update.
    """

    folder: RunFolder
    live: Live
    total: int
    """Updates in all."""
    save_every: int = 1
    """Updates between checkpoints; a run that ends or is stopped writes one, too."""
    eval_every: int = 0
    """Updates between evaluations; 0 = none while learning."""
    resume: bool = False
    unit: str = "update"
    """What is counted, in words."""
    evaluate: Callable[[], object] = lambda: None
    state: Callable[[], Mapping[str, Any]] = dict
    """Plain data for a checkpoint besides the number of the update."""
    spent: Callable[[], float] = lambda: 0.0
    """Share of other limits (minutes, tokens) that is used up; at 1 the run ends."""
    signs: Callable[[Mapping[str, Any]], Sequence[str]] = lambda row: ()
    """Warnings about the line of an update, as text."""

    update: int = field(default=0, init=False)
    first: int = field(default=0, init=False)
    seconds: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0), init=False)
    _parts: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    _saved: int = field(default=0, init=False)
    _last_shown_s: float = field(default=-math.inf, init=False)
    _begun: tuple[float, float] = field(default=(0.0, 0.0), init=False)

    # ---------------------------------------------------------------------------------------------- the loop
    @property
    def done(self) -> float:
        """Share of the run that is over, 0..1."""
        return 1.0 if self.update >= self.total else min(1.0, max(self.update / self.total, self.spent()))

    @property
    def left(self) -> float:
        """Seconds to the end, as it went so far in this process."""
        before, since = self._begun
        return (time.monotonic() - since) * (1.0 - self.done) / max(self.done - before, 1e-9)

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do, 0-based; after each it evaluates and saves where it is time.

        Raises:
            Interrupted: Ctrl-C or SIGTERM; what was done is saved, and the run can be resumed.
        """
        self._begun = self.done, time.monotonic()
        with self.folder.interrupt as interrupt:
            while self.done < 1.0:
                yield self.update
                if self.eval_every and self.update % self.eval_every == 0 and self.update < self.total:
                    self.evaluate()
                if self.update % self.save_every == 0:
                    self.save()
                if interrupt.requested and self.update < self.total:
                    self.save()
                    self.live.note(
                        f"stopped after {self.unit} {self.update}, which is saved: a resumed run goes on from here, "
                        "as one that was never stopped"
                    )
                    raise Interrupted
            self.save()

    @contextmanager
    def clock(self, phase: Phase) -> Iterator[None]:
        """Count the seconds of a part of the loop."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start

    def log(self, step: int, row: Mapping[str, Any], learned: Mapping[str, float]) -> dict[str, Any]:
        """End an update: write its line, with the seconds of each part of the loop, and say what it warns of.

        ``step`` is what the metrics count (environment steps, attempts), ``row`` columns of the update, ``learned``
        losses and diagnostics.

        Returns:
            The whole line.

        Raises:
            ModelError: one of ``learned`` is not finite: the run stops with its last checkpoint.
        """
        if bad := [f"{name} = {value}" for name, value in learned.items() if not math.isfinite(value)]:
            raise ModelError(
                "learning diverged",
                got=", ".join(bad),
                expected="finite",
                where=f"update {self.update}",
                do="lower lr or clip; the last checkpoint is kept in checkpoints/",
            )
        self.update += 1
        clock = {f"{name}_s": round(spent, 4) for name, spent in self.seconds.items()}
        line: dict[str, Any] = {"update": self.update, **row, **clock, **learned}
        if warnings := list(self.signs(line)):
            line["warnings"] = warnings
        self.folder.log(step, **line)
        for warning in warnings:
            self.live.note(f"! {warning}")
        self.seconds = dict.fromkeys(PHASES, 0.0)
        return line

    def tell(self, facts: Sequence[str]) -> None:
        """Say how far the run is, not too often; ``facts`` are about this update, the most important first."""
        done, now = self.done, time.monotonic()
        if now - self._last_shown_s < (_PLAIN_S if self.live.plain else _LIVE_S) and done < 1.0:
            return
        self._last_shown_s = now
        ahead = [f"{duration(self.left)} left"] if done < 1.0 else []
        self.live.progress(done, [f"{self.unit} {self.update}/{self.total}", *facts[:1], *ahead, *facts[1:]])

    def judged(self, step: int) -> dict[str, Any]:
        """The evaluation after the last update; made now if the log does not end with one."""
        last = self.folder.read_metrics()[-1]
        if last.get("phase") != "eval" or last["step"] != step:
            self.evaluate()
            last = self.folder.read_metrics()[-1]
        return {name: value for name, value in last.items() if name not in ("t", "step", "phase")}

    # ---------------------------------------------------------------------------------------------- checkpoints
    def keep(self, **parts: Any) -> None:
        """Add objects with ``state_dict`` and ``load_state_dict`` to the checkpoints."""
        self._parts |= parts

    def restore(self, step: Callable[[Mapping[str, Any]], int]) -> dict[str, Any]:
        """Load the newest checkpoint of a resumed run; returns its plain data, empty where the run begins.

        ``step`` tells from that data the last step of the metrics; later lines are dropped.
        """
        if not self.resume:
            return {}
        from evolvent.learn import checkpoint

        newest = checkpoint.latest(self._checkpoints)
        state = {} if newest is None else checkpoint.load(newest, self._parts)
        self.go_on(int(state.get("update", 0)), step(state) if state else -1)
        return state

    def go_on(self, update: int, step: int) -> None:
        """Go on after an update that is saved; lines of the log after ``step`` are dropped."""
        self.update = self.first = self._saved = update
        self.folder.truncate(step)
        self.live.note(f"continuing after {self.unit} {update} of {self.total}")

    def save(self) -> None:
        """Write a checkpoint, unless there is one of this update."""
        if self._parts and self._saved < self.update:
            from evolvent.learn import checkpoint

            checkpoint.save(self._checkpoints, self.update, self._parts, {"update": self.update, **self.state()})
        self._saved = self.update

    @property
    def _checkpoints(self) -> Path:
        return self.folder.path / "checkpoints"


def tell_fewer(live: Live, name: str, of: str, wanted: int, found: int) -> None:
    """Say that there are fewer tasks than asked for, where it is so."""
    if found < wanted:
        live.note(f"{name} has fewer {of} than the {wanted} asked for: {found}")


def device(name: str) -> torch.device:
    """The device of that name.

    Raises:
        BadInput: there is none.
    """
    import torch

    try:
        found = torch.device(name)
    except RuntimeError as error:
        raise BadInput("no such device", got=name, expected="cpu, cuda, cuda:1, …", where="--device") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("no GPU is at hand", got=name, expected="cpu", where="--device")
    return found


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Inside, torch has ``n`` threads; 0 leaves it what it has."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
