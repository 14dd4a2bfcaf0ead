"""Our judge of BFCL beside the official checker, on mutated gold answers: counts by mutation, and disagreements.

    python benchmarks/bfcl_judge.py                  # half a minute; the wheel bfcl-eval is fetched into the cache

The official checker (release 2026.3.23) is imported from the wheel with one module replaced, its list of models, which
imports the client of every vendor. It runs in this process and is no part of the library. Where it raises an exception
there is no verdict to agree with; those are counted apart, and ours must say "wrong" there.
"""

import argparse
import copy
import json
import random
import sys
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bfcl_mutations import MUTATIONS, drawn

from evolvent.core.fetch import cache_dir, checked_package
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.envs.text.bfcl_items import CALL, REFUSE, RELEASE, SHA256, Item, items
from evolvent.formulas.call_match import match_accepted

RESULTS = Path(__file__).parent / "results" / "bfcl_judge.json"
TRIES = 20000


def main() -> None:
    """Compare and write benchmarks/results/bfcl_judge.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=120, help="answers a mutation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=str(RESULTS))
    a = parser.parse_args()
    found = compared(a.each, a.seed)
    head = {"command": f"python benchmarks/bfcl_judge.py --each {a.each} --seed {a.seed}", "release": RELEASE}
    write_atomic(Path(a.out), dump({**head, **found, **provenance()}, indent=1) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "shown"}, indent=1))


def compared(each: int, seed: int) -> dict[str, Any]:
    """``each`` mutated answers a mutation, over items of all categories: verdicts and disagreements."""
    rows, shown = dict[str, dict[str, int]](), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        official = official_checker(Path(folder))
        for name in MUTATIONS:
            rows[name] = dict.fromkeys(("answers", "valid", "disagreements", "exceptions"), 0)
            for item, calls in mutated(name, each, seed):
                ours, theirs = match_accepted(calls, item.gold, item.tools).right, official(item, calls)
                rows[name]["answers"] += 1
                rows[name]["valid"] += theirs is True
                rows[name]["exceptions"] += theirs is None
                if ours != bool(theirs):
                    rows[name]["disagreements"] += 1
                    shown.append({"mutation": name, "item": item.name, "calls": repr(calls), "ours": ours})
    total = {key: sum(row[key] for row in rows.values()) for key in ("answers", "valid", "disagreements", "exceptions")}
    return {"total": total, "mutations": rows, "shown": shown}


def mutated(name: str, each: int, seed: int) -> Iterator[tuple[Item, Any]]:
    """Items and answers changed by one mutation."""
    draw = random.Random(f"{seed}/{name}")
    groups = [group for category, group in items().items() if category not in (*REFUSE, *CALL)]
    rich = [one for group in groups for one in group if _has_dictionaries(one.gold)]
    needs = name in ("keys of a dictionary", "list of dictionaries")
    count = 0
    for _ in range(TRIES):
        item = draw.choice(rich if needs else draw.choice(groups))
        calls = copy.deepcopy(drawn(draw, item.gold, item.tools))
        if calls and MUTATIONS[name](draw, calls, item.tools):
            yield item, calls
            count += 1
        if count == each:
            return


def _has_dictionaries(gold: Any) -> bool:
    return any(isinstance(one, dict) for call in gold for value in call.values() for one in _values(value))


def _values(accepted: Any) -> Iterator[Any]:
    for values in accepted.values():
        for value in values:
            yield from value if isinstance(value, list) else [value]


def official_checker(folder: Path) -> Callable[[Item, Any], bool | None]:
    """``checker(item, calls)``: the official verdict, ``None`` where it raises.

    Args:
        folder: where the wheel is unpacked.
    """
    wheel = checked_package(RELEASE, SHA256, cache_dir() / "data" / "bfcl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
    sys.path.insert(0, str(folder))
    try:
        return _imported()
    finally:
        sys.path.remove(str(folder))


def _imported() -> Callable[[Item, Any], bool | None]:
    class Model:
        underscore_to_dot = False

    stub: Any = types.ModuleType("bfcl_eval.constants.model_config")
    stub.MODEL_CONFIG_MAPPING = {"any": Model}
    sys.modules[stub.__name__] = stub
    from bfcl_eval.constants.enums import Language  # pyright: ignore[reportMissingImports]
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # pyright: ignore[reportMissingImports]

    def checker(item: Item, calls: Any) -> bool | None:
        said = [{call["name"]: call["arguments"]} for call in calls]
        try:
            return ast_checker(item.tools, said, item.gold, Language.PYTHON, item.category, "any")["valid"]
        except (TypeError, KeyError, AttributeError, IndexError):
            return None

    return checker


if __name__ == "__main__":
    main()
