"""Gates three and four of the world of kernels: right at sizes that nobody is shown, and faster by clocks outside.

A kernel runs in a jailed process that has nothing but its inputs. Inputs and outputs lie in sealed shared memory; out
here they are filled with fresh values, outputs with no numbers, and compared afterwards. Time is the processor time of
the whole process, read from outside, from the end of one sample to the end of the next: threads, work before the call
and work after it count. All inputs of every sample are drawn anew, so nothing that was seen is worth remembering.

The reference runs beside it in a process of its own, in turns. A gain counts from ``GAIN`` on, a loss from its inverse,
and only where a second pair of fresh processes confirms it; the smaller of both differences is taken. Of the same
machine code no clock is believed: that of a busy machine finds it faster than itself.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import EnvError
from evolvent.envs.text import kernels_guest
from evolvent.envs.text.kernels_operator import TYPES, VALUE, Arrays, Operator, Quick, Sizes
from evolvent.envs.text.kernels_regimes import REGIMES, USUAL, WORDS, floors
from evolvent.sandbox import Guest, GuestError, Limits, Sandbox

GAIN = 1.15
"""Below it two kernels are equally fast: of the same kernel the clock finds up to that."""
ROUNDS, SAMPLE_S, MOST_SETS, MOST_BYTES = 15, 0.004, 16, 48 << 20
TOGETHER_S = 20
"""Seconds by the wall that all calls in one process may take together; or ten times what the reference takes."""
_LIMITS = Limits(wall=10, cpu=90, memory=2048 << 20, disk=64 << 20, threads=1)
_GUARD, _PAGE = 64, 4096
_AROUND_INPUTS, _AROUND_OUTPUTS = 0xFF, 0xA5
"""Bytes of the space around arrays. What is read beyond an input is no number; and the two differ, so that it is seen
where one is copied onto the other."""
_SEALS = 1 | 2 | 4  # no more seals, no shrinking, no growing
_GUEST = open(kernels_guest.__file__, encoding="utf-8").read()  # noqa: SIM115
Case = tuple[Sizes, Arrays]


class Wrong(Exception):
    """A kernel that is not right; ``words`` may be shown to whoever wrote it."""

    def __init__(self, text: str, *, harness: bool = False) -> None:
        super().__init__(text)
        self.words, self.harness = text, harness


@dataclass(frozen=True)
class Speed:
    """How fast a kernel is beside the reference."""

    ratio: float
    """The reference's time over its own, as counted: 1 where no difference is certain, of two pairs the nearer one."""
    low: float
    """Ends of the 95 % interval by resampling rounds, the widest of the pairs."""
    high: float
    microseconds: float
    """Processor time of a call, in the best quarter of the rounds."""


class Worker:
    """One jailed process with a kernel, and memory shared with it: all its sets of inputs and outputs."""

    def __init__(self, sandbox: Sandbox, library: bytes, operator: Operator, sizes: Sequence[Sizes]) -> None:
        self.operator, self.sizes = operator, list(sizes)
        self._places: list[list[tuple[str, int, tuple[int, ...], type, bool]]] = []
        calls, blank, at = [], list[tuple[int, int, int]](), _PAGE
        for one in self.sizes:
            arguments, places = [], []
            for name, kind, role in operator.parameters:
                if role == "value":
                    arguments.append(["i", one[name]] if kind == "int" else ["f", one.get(name, VALUE)])
                    continue
                shape = operator.shape(name, one)
                places.append((name, at, shape, TYPES[kind], role == "out"))
                arguments.append(["p", at])
                size = int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize
                blank.append((at - _GUARD, at + size + _GUARD, _AROUND_OUTPUTS if role == "out" else _AROUND_INPUTS))
                at = (at + size + 3 * _GUARD - 1) // _GUARD * _GUARD
            calls.append(arguments)
            self._places.append(places)
        self._fd = os.memfd_create("kernel", os.MFD_ALLOW_SEALING)
        os.ftruncate(self._fd, at + _PAGE)
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)
        self._memory = np.frombuffer(mmap.mmap(self._fd, at + _PAGE), np.uint8)
        self._blank = np.full(at + _PAGE, _AROUND_INPUTS, np.uint8)
        for begin, end, byte in blank:
            self._blank[begin:end] = byte
        edges = [0, *(edge for begin, end, _ in blank for edge in (begin + _GUARD, end - _GUARD)), at + _PAGE]
        self._between = list(zip(edges[::2], edges[1::2], strict=True))
        self._given: list[Arrays] = []
        self.waited = 0.0
        try:
            self._guest: Guest = sandbox.open(
                {"worker.py": _GUEST, "k.so": library}, "worker", _LIMITS, shared=[self._fd]
            )
            self._asked("place", calls)
            self._clock = (~self._guest.pid << 3) | 2
            self._before = time.clock_gettime_ns(self._clock)
        except BaseException:
            os.close(self._fd)
            raise

    def fill(self, inputs: Sequence[Arrays]) -> None:
        """Give every set its inputs; outputs and the space between hold no numbers."""
        self._given = list(inputs)
        for begin, end in self._between:
            self._memory[begin:end] = self._blank[begin:end]
        for places, given in zip(self._places, inputs, strict=True):
            for name, at, shape, kind, out in places:
                view = self._view(at, shape, kind)
                if out:
                    view[...] = np.nan if kind is np.float32 else -77
                else:
                    view[...] = given[name]

    def run(self, which: int = -1) -> float:
        """Call the kernel on all sets, or on one; seconds of processor since the last call, this one included.

        The clock stops after the outputs were taken: what goes on behind the answer counts, too.

        Raises:
            Wrong: it crashed, or did not come to an end.
        """
        began = time.monotonic()
        self._asked("run", which)
        self.waited += time.monotonic() - began
        self.outputs = [
            [self._view(at, shape, kind).copy() for _, at, shape, kind, out in places if out] for places in self._places
        ]
        try:
            now = time.clock_gettime_ns(self._clock)
        except OSError:
            raise Wrong("it ended the process that ran it") from None
        spent, self._before = (now - self._before) / 1e9, now
        return spent

    def in_time(self, reference_s: float = 0.0) -> None:
        """Whether its calls took too long by the wall: a sleep takes no time of a processor.

        Raises:
            Wrong: they did.
        """
        if self.waited > (most := max(TOGETHER_S, 10 * reference_s)):
            raise Wrong(f"its calls did not end in {most:.0f} s")

    def trespass(self) -> str:
        """What the last run wrote where it may not; empty where it did not."""
        whole = self._memory.copy()
        for places, given in zip(self._places, self._given, strict=True):
            for name, at, shape, kind, out in places:
                size = int(np.prod(shape)) * np.dtype(kind).itemsize
                if not out and not np.array_equal(
                    whole[at : at + size], np.ascontiguousarray(given[name], kind).view(np.uint8).ravel()
                ):
                    return f"it changes its input {name}"
                whole[at : at + size] = self._blank[at : at + size]
        return "" if np.array_equal(whole, self._blank) else "it writes outside of its output"

    def close(self) -> None:
        """End the process; nothing stays."""
        self._guest.close()
        os.close(self._fd)

    def _view(self, at: int, shape: tuple[int, ...], kind: type) -> np.ndarray:
        count = int(np.prod(shape))
        return self._memory[at : at + count * np.dtype(kind).itemsize].view(kind).reshape(shape)

    def _asked(self, function: str, *arguments: object) -> None:
        try:
            self._guest.call(function, *arguments)
        except GuestError as error:
            by_end = {"crashed": "it crashed (a bad address?)", "time": f"it did not end in {_LIMITS.wall:g} s"}
            kind = error.kind
            text = by_end.get(kind, f"it ended the process that ran it ({kind})")
            raise Wrong(text, harness=kind == "harness") from error

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ------------------------------------------------------------------------------------------------ right?
def differs(
    operator: Operator,
    got: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    slack: float = 1.0,
    floors: Sequence[float] = (),
) -> str:
    """Where outputs are wrong, in words; empty where they are right.

    Args:
        operator: whose outputs they are.
        got: the outputs of a kernel.
        expected: the right ones.
        slack: what the tolerance is multiplied by.
        floors: by output, the least magnitude that an error is measured against; default 1.
    """
    names = [name for name, _, role in operator.parameters if role == "out"]
    for name, mine, right, floor in zip(names, got, expected, floors or [1.0] * len(names), strict=True):
        with np.errstate(invalid="ignore"):
            wide = mine.astype(np.result_type(np.float32, right.dtype), copy=False)  # double unless both are floats
            bad = ~(np.abs(wide - right) <= slack * operator.tol * np.maximum(floor, np.abs(right)))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            value = mine[at]
            unset = np.isnan(value) if mine.dtype == np.float32 else value == -77
            fault = "is not written" if unset else f"is {float(value):.6g} instead of {float(right[at]):.6g}"
            where = ",".join(map(str, at))
            return f"{name}[{where}] {fault}; {int(bad.sum())} of {bad.size} values are wrong"
    return ""


@dataclass(frozen=True)
class Tried:
    """One call that a kernel is checked with."""

    prefix: str
    """What may be shown of it before what went wrong."""
    hidden: bool
    """Whether nothing else may be shown."""
    sizes: Sizes
    inputs: Arrays
    expected: list[np.ndarray]
    floors: list[float]


def cases(operator: Operator, rng: np.random.Generator) -> list[Tried]:
    """The calls: every regime at the usual sizes and at others that nobody is shown; two at larger ones.

    Raises:
        EnvError: the reference fails with usual inputs. Where it is not defined for those of another regime, that
            regime is left out.
    """
    order = [str(regime) for regime in rng.permutation(REGIMES)]
    asked = [(USUAL, operator.sizes), *((regime, operator.sizes) for regime in order if regime != USUAL)]
    asked += [(regime, {}) for regime in order]
    asked += [(regime, larger) for regime in (USUAL, order[0]) for larger in operator.larger_sizes(rng)]
    found: list[Tried] = []
    for regime, sizes in asked:
        one = (sizes | operator.values(rng)) if sizes is operator.sizes else sizes or operator.other_sizes(rng)
        inputs = operator.inputs(rng, one, regime)
        try:
            expected = operator.expected(inputs, one)
        except EnvError:
            if regime == USUAL:
                raise
            continue
        scaled = regime in ("spread 30", "spread 0.01")
        floors_ = floors(operator.expected(operator.inputs(rng, one), one), expected) if scaled else []
        if regime == "spread 30":  # what grows with the spread somewhere else is no smaller here
            floors_ = [max(1.0, floor) for floor in floors_]
        hidden = sizes is not operator.sizes
        prefix = f"with {', '.join(f'{name}={value:g}' for name, value in one.items())}"
        prefix += ": " if regime == USUAL else f" it is right with usual numbers, but not with {WORDS[regime]}: "
        prefix = "right at the usual sizes, but at others " if hidden else prefix
        found.append(Tried(prefix, hidden, one, inputs, expected, floors_))
    return found


def check(sandbox: Sandbox, library: bytes, operator: Operator, rng: np.random.Generator) -> None:
    """The correctness gate: fresh inputs of all regimes, at the usual sizes, at others, and at larger ones.

    Raises:
        Wrong: with where it differs at the usual sizes; of the others it is said that there is one.
    """
    tried = cases(operator, rng)
    with Worker(sandbox, library, operator, [one.sizes for one in tried]) as worker:
        worker.fill([one.inputs for one in tried])
        for i, one in enumerate(tried):
            try:
                worker.run(i)
                worker.in_time()
            except Wrong as wrong:
                raise Wrong(one.prefix + wrong.words if i else wrong.words, harness=wrong.harness) from wrong
            if wrong := differs(operator, worker.outputs[i], one.expected, floors=one.floors):
                raise Wrong(one.prefix + ("it is wrong" if one.hidden else wrong))
        if wrong := worker.trespass():
            raise Wrong(wrong)


# ------------------------------------------------------------------------------------------------ faster?
def pair(
    sandbox: Sandbox, library: bytes, reference: bytes, operator: Operator, sets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each round of a kernel and of the reference, float64 ``[ROUNDS]`` each, in fresh processes.

    Raises:
        Wrong: outputs of a round differ.
    """
    rng, sizes = Quick(), [operator.sizes] * sets  # nobody can know what comes
    with Worker(sandbox, library, operator, sizes) as mine, Worker(sandbox, reference, operator, sizes) as other:
        seconds = np.zeros((2, ROUNDS + 1))
        for i in range(ROUNDS + 1):
            inputs = [operator.inputs(rng, one) for one in sizes]  # parts used again could be remembered
            for which in (0, 1) if i % 2 else (1, 0):
                worker = (mine, other)[which]
                worker.fill(inputs)
                seconds[which, i] = worker.run()
            mine.in_time(other.waited)
            for got, right in zip(mine.outputs, other.outputs, strict=True):
                if wrong := differs(operator, got, right, 2.0):  # either may be off by the tolerance
                    raise Wrong(f"right when it was tried, wrong when it was timed: {wrong}")
    return seconds[0, 1:], seconds[1, 1:]  # the first round warms up


def best_quarter(seconds: np.ndarray) -> np.ndarray:
    """Mean of the fastest quarter along the last axis."""
    return np.sort(seconds)[..., : max(1, seconds.shape[-1] // 4)].mean(-1)


def measured(sandbox: Sandbox, library: bytes, reference: bytes, operator: Operator, sets: int) -> Speed:
    """The latency gate: one pair of processes, a second one where the first says that they differ.

    Raises:
        Wrong: outputs while timing differ.
    """
    pairs, same = [pair(sandbox, library, reference, operator, sets)], library == reference
    if not same and differ(float(_ratio(*pairs[0]))):
        pairs.append(pair(sandbox, library, reference, operator, sets))
    draws = np.random.default_rng(0).integers(0, ROUNDS, (400, ROUNDS))
    ends = [np.quantile(_ratio(mine[draws], other[draws]), [0.025, 0.975]) for mine, other in pairs]
    low, high = float(min(low for low, _ in ends)), float(max(high for _, high in ends))
    spent = min(float(best_quarter(mine)) for mine, _ in pairs) / sets * 1e6
    if same:
        return Speed(1.0, min(low, 1.0), max(high, 1.0), spent)
    return Speed(counted([float(_ratio(mine, other)) for mine, other in pairs]), low, high, spent)


def differ(ratio: float) -> bool:
    """Whether two kernels of that ratio are not equally fast."""
    return not 1 / GAIN < ratio < GAIN


def counted(ratios: Sequence[float]) -> float:
    """What pairs of processes come to: the smaller difference, where all find one in the same direction; else 1."""
    least = min(ratios, key=lambda ratio: abs(float(np.log(ratio))))
    return least if differ(least) and len({ratio > 1.0 for ratio in ratios}) == 1 else 1.0


def _ratio(mine: np.ndarray, other: np.ndarray) -> np.ndarray:
    return best_quarter(other) / best_quarter(mine)


def sets_for(sandbox: Sandbox, reference: bytes, operator: Operator) -> int:
    """How many sets make a sample long enough to be timed, by the reference alone.

    Raises:
        EnvError: the reference does not run.
    """
    inputs = operator.inputs(np.random.default_rng(0), operator.sizes)
    try:
        with Worker(sandbox, reference, operator, [operator.sizes]) as worker:
            worker.fill([inputs])
            seconds = min(worker.run() for _ in range(4))
    except Wrong as wrong:
        raise EnvError("the reference does not run here", got=wrong.words, where=f"kernels: {operator.name}") from wrong
    room = MOST_BYTES // (2 * sum(array.nbytes for array in inputs.values()) + 1)
    return int(np.clip(np.ceil(SAMPLE_S / seconds), 2, max(2, min(MOST_SETS, room))))
