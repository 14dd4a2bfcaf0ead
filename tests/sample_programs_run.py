"""A small run of EvoKernel, its model a script that follows one lesson; the clock is replaced, the gates are real."""

import io
from pathlib import Path
from unittest.mock import patch

from evolvent.algos import evokernel
from evolvent.core import config as configs
from evolvent.core.folder import RunFolder
from evolvent.envs.text import kernels
from evolvent.envs.text.kernels_run import Speed
from evolvent.envs.text.kernels_tasks import BY_NAME
from evolvent.evaluate.live import Live
from evolvent.models.served.scripted import Scripted

FAST = "#pragma GCC optimize"
KERNELS = ("dot", "matvec")


class Writer(Scripted):
    """Drafts that do not compile at first, then the naive kernel; gains by one lesson, is wrong with another."""

    def __init__(self, drafts=1):
        super().__init__(self._write)
        self.left = dict.fromkeys(KERNELS, drafts)

    def _write(self, prompt):
        task = prompt.split("Task: ")[-1]
        name = task.split(":")[0]
        if "Make it faster" not in task:
            self.left[name] -= 1
            return "```c\n" + (BY_NAME[name].source if self.left[name] < 0 else "void kernel( {") + "\n```\n"
        source = task.split("```c\n")[1].split("\n```")[0]
        if FAST in task.split("Advice:")[-1]:
            source = source if FAST in source else f'{FAST}("fast-math")\n{source}'
        elif "16 sums" in task:
            source = source.replace("s += ", "s -= ")
        return f"```c\n{source}\n```\n"


def measured(sandbox, library, reference, operator, sets):
    ratio = 3.0 if len(library) != len(reference) or library != reference else 1.0
    return Speed(ratio, 0.9 * ratio, 1.1 * ratio, 10.0 / ratio)


def replaced():
    """Time by what stands in the program, and each program compiled and checked once; the gates are real."""
    return {"measured": measured, "sets_for": lambda *_: 1, "compiled": _compiled, "check": _check}


def quick():
    """With what is ``replaced``."""
    return patch.multiple(kernels, **replaced())


_REAL = kernels.compiled, kernels.check
_COMPILED, _CHECKED = {}, {}


def _compiled(tools, compiler, source, *, fast_math):
    """A program is compiled once for all tests: the same few come again in every run."""
    at = compiler, source, fast_math
    if at not in _COMPILED:
        _COMPILED[at] = _REAL[0](tools, compiler, source, fast_math=fast_math)
    return _COMPILED[at]


def _check(sandbox, library, operator, rng):
    """And is checked once."""
    at = library, operator.name
    if at not in _CHECKED:
        try:
            _CHECKED[at] = _REAL[1](sandbox, library, operator, rng)
        except kernels.Wrong as wrong:
            if wrong.harness:
                raise
            _CHECKED[at] = wrong
    if isinstance(_CHECKED[at], kernels.Wrong):
        raise _CHECKED[at]
    return _CHECKED[at]


def begin(path, **more):
    config = evokernel.Config(kernels=KERNELS, budget=8, **more)
    folder = RunFolder.create(
        path, algo="evokernel", config=configs.to_json(config), env="kernels", seed=0, command="test", kind="programs"
    )
    return config, folder


def live():
    return Live(plain=True, stream=io.StringIO())


def played(path, model=None, **more):
    config, folder = begin(path, **more)
    with folder:
        return evokernel.run(config, folder, live(), model=model or Writer())


def sample_programs_run(path: Path) -> Path:
    """A run that has ended."""
    with quick():
        played(path)
    return path
