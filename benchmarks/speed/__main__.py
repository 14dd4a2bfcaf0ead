"""`python -m benchmarks.speed NAME`, from the root of the repository."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, EvolventError, closest, missing_extra
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

from . import __path__ as places

PROG = "python -m benchmarks.speed"


def main(arguments: Sequence[str]) -> None:
    """The entry point. Exit codes: 0 done, 2 a request that cannot be met or a budget that is not kept."""
    try:
        parsed(bench, arguments, PROG)
    except EvolventError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def bench(
    name: Annotated[str, Positional],
    *,
    seed: int = 0,
    sizes: tuple[int, ...] = (),
    device: str = "cpu",
    json: Path | None = None,
    plain: bool = False,
) -> None:
    """Measure, as ratios within one run, which can be compared across machines: speed, or what a recall finds.

    Args:
        name: benchmark; an unknown name lists the benchmarks.
        seed: random seed of the inputs.
        sizes: input sizes (number of memories, or of agents), for benchmarks with a choice; default: their own.
        device: torch device of the networks, for benchmarks with networks (marl): cpu, cuda.
        json: also write the result, with versions and machine, to this file.
        plain: plain text output even on a terminal.
    """
    check_target(json, "--json")
    module = benchmark(name)
    accepted = inspect.signature(module.run).parameters
    if sizes and "sizes" not in accepted:
        raise BadInput("this benchmark has no sizes to choose", got=sizes, where=name, do="leave --sizes out")
    if device != "cpu" and "device" not in accepted:
        raise BadInput("this benchmark has no networks", got=f"--device {device}", where=name, do="leave --device out")
    options: dict[str, Any] = {"sizes": sizes} if sizes else {}
    if device != "cpu":
        options["device"] = device
    with Live(plain=True if plain else None) as live:
        live.status(f"measuring {name}")
        if "progress" in accepted:
            options["progress"] = live.status
        result = module.run(seed, **options)
        single = [[key, value] for key, value in result.items() if not isinstance(value, dict | list)]
        live.table(name, ["", "value"], single)
        for key, value in result.items():
            if isinstance(value, dict):
                live.table(key.replace("_", " "), ["", "value"], [[k, v] for k, v in value.items()])
        if json is not None:
            chosen = "".join(f" {size}" for size in sizes)
            command = f"{PROG} {name} --seed {seed}" + (f" --sizes{chosen}" if sizes else "")
            command += f" --device {device}" if device != "cpu" else ""
            content = {"benchmark": name, "command": command, "result": result, **provenance()}
            write_atomic(json, dump(content, indent=2) + "\n")
            live.note(f"result: {json}")
    failed = [check for check, passed in result.get("checks", {}).items() if not passed]
    if failed:
        raise BadInput("the budget is not kept", got=", ".join(failed), expected="every check passed", where=name)


def benchmark(name: str) -> ModuleType:
    """The module of a benchmark.

    Raises:
        BadInput: no such benchmark (names the closest).
        MissingExtra: it needs a package that is not installed.
    """
    known = sorted(module.name for module in pkgutil.iter_modules(places) if module.name[0] != "_")
    if name not in known:
        raise BadInput("unknown benchmark", got=name, expected=closest(name, known), where=PROG)
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("evolvent", "benchmarks"):
            raise
        raise missing_extra(error.name, "marl" if name == "marl" else "train", f"{PROG} {name}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
