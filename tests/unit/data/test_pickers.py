"""What needs no training: every caller stands beside it, names and arguments apart, refusals beside the call rate."""

import io
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evolvent.data.pickers import COLUMNS, baselines, best, common_words, cosines, first_tool, scored, threshold
from evolvent.data.rows import Row
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.testing.functions import check_functions


def tool(name, description, **properties):
    schema = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}, "required": []}
    return {"name": name, "description": description, "parameters": schema}


TOOLS = (
    tool("f1", "Book a table in a restaurant.", day="string"),
    tool("f2", "Tell the weather of a city.", city="string"),
    tool("f3", "Open the garage door."),
)


def row(i, request, name=None, **arguments):
    gold = ({"name": name, "arguments": arguments},) if name else ()
    kind = "call" if name else "none"
    return Row(f"r{i}", f"c{i}", ({"role": "user", "content": request},), TOOLS, gold, kind=kind, because="said")


ROWS = [
    row(0, "the weather of a city in Rome", "f2", city="Rome"),
    row(1, "a table in a restaurant on Monday", "f1", day="Monday"),
    row(2, "open the garage door", "f3"),
    row(3, "sing loudly"),
]
EMBEDDER = embedders.load("hash:512")


def test_the_arms_that_every_caller_stands_beside():
    table = baselines(ROWS, ROWS, EMBEDDER)
    shares = {name.split(" below")[0]: one.shares for name, one in table.items()}
    assert COLUMNS == ("function right", "arguments right", "refusals right", "call rate")
    assert shares == {
        "never calls": (0, 0, 1, 0),
        "always calls (first tool)": (pytest.approx(1 / 3), 0, 0, 1),
        "words in common": (1, pytest.approx(1 / 3), 0, 1),  # the garage door takes no arguments
        "nearest description": (1, pytest.approx(1 / 3), 0, 1),
        "nearest, refuses": (1, pytest.approx(1 / 3), 1, 0.75),
    }
    assert all(one.n == (3, 1) for one in table.values())
    assert set(baselines(ROWS, ROWS, None)) == {"never calls", "always calls (first tool)", "words in common"}


def test_the_threshold_is_chosen_on_other_rows():
    served = [(one.request, one.tools, True) for one in ROWS[:3]]
    assert threshold(cosines(EMBEDDER), served) == -1.0, "nothing to refuse was seen: it never refuses"
    low, high = (0.2, 0.9)
    cases = [("a", TOOLS, True), ("b", TOOLS, False)]
    cut = threshold(lambda request, tools: np.array([high if request == "a" else low]), cases)
    assert low < cut < high
    assert best(lambda request, tools: np.array([low, low, low]), cut)("x", TOOLS) is None
    assert best(common_words)("x", ()) is None and first_tool("x", ()) is None


def test_what_cannot_be_read_is_a_wrong_call_and_no_refusal():
    right = [[dict(call) for call in one.gold] for one in ROWS]
    assert scored(ROWS, right).shares == (1, 1, 1, 0.75)
    assert scored(ROWS, [None] * 4).shares == (0, 0, 0, 1)
    other = [*right[:1], [{"name": "f1", "arguments": {"day": "Friday"}}], *right[2:]]
    assert scored(ROWS, other).shares == (1, pytest.approx(2 / 3), 1, 0.75), "names and arguments are told apart"
    assert scored(ROWS[:3], right[:3]).refusals is None


def test_the_check_shows_them_with_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr(embedders, "load", partial(embedders.load, "hash:512"))
    rows = [replace(one, split=split, id=f"{split}{one.id}") for split in ("train", "heldout") for one in ROWS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one.to_dict()) + "\n" for one in rows))
    out = io.StringIO()
    check_functions(tmp_path, Live(True, stream=out), table=True)
    line = next(line for line in out.getvalue().splitlines() if line.startswith("words in common"))
    assert "100 % [44, 100]" in line and "33 % [6, 79]" in line and "0 % [0, 79]" in line
    assert "3 with a right call, 1 without, 3 tools each" in out.getvalue()
