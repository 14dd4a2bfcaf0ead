"""The script on frozen callers: all arms on items of our own, an answer asked for once, resumed, and its tables."""

import importlib
import json
import sys
from functools import partial
from pathlib import Path

from evolvent import models
from evolvent.envs.text.bfcl import Bfcl
from evolvent.envs.text.bfcl_items import Item
from evolvent.envs.text.hammerbench import Hammerbench
from evolvent.envs.text.hammerbench_rows import Conversation, Moment
from evolvent.memory import embedders
from evolvent.models.served.scripted import Scripted

CALL = {"name": "area", "arguments": {"base": 3}}
SCHEMA = {"type": "dict", "properties": {"base": {"type": "integer"}}, "required": ["base"]}
TOOLS = [
    {"name": "weather", "description": "Forecast of rain", "parameters": SCHEMA},
    {"name": "area", "description": "Area of a triangle", "parameters": SCHEMA},
]


def said(words):
    return [{"role": "user", "content": words}]


def bfcl(spec):
    right, none = "area of a triangle of base 3", "sing loudly"
    pool = {
        "multiple": [
            Item(f"m{i}", "multiple", said(f"{right} ({i})"), TOOLS, [{"area": {"base": [3]}}]) for i in range(8)
        ],
        "irrelevance": [Item(f"n{i}", "irrelevance", said(f"{none} ({i})"), TOOLS, []) for i in range(8)],
    }
    return Bfcl(pool, 8, pick=spec.rpartition("=")[2])


def hammerbench(spec):
    moments = [Moment(said(f"area, base 3 ({i})"), TOOLS, CALL) for i in range(4)]
    rows = [Conversation(f"c{i}", "Based", f"area{i}", [moment, moment]) for i, moment in enumerate(moments)]
    return Hammerbench({"Based": rows}, 3, leave=spec.endswith("yes"))


def test_all_arms_are_run_once_and_shown(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    module = importlib.import_module("bfcl_frozen")
    prompts = []
    model = Scripted(lambda prompt: prompts.append(prompt) or f"[{json.dumps(CALL)}]")
    monkeypatch.setattr(models, "load", lambda *_, **__: model)
    monkeypatch.setattr(embedders, "load", partial(embedders.load, "hash:512"))
    monkeypatch.setattr(module, "load", lambda spec: bfcl(spec) if spec.startswith("bfcl") else hammerbench(spec))
    out = tmp_path / "frozen.json"
    monkeypatch.setattr(sys, "argv", ["x", "--n", "8", "--conversations", "3", "--out", str(out)])
    module.main()
    result = json.loads(out.read_text())
    asked, arms = len(prompts), [*module.ASKED, *module.PICKED]
    assert asked == len(set(prompts)), "no question twice"
    rows = {arm: [row for row in result["rows"] if row["arm"] == arm] for arm in (*arms, *module.LEAVES)}
    assert [len(rows[arm]) for arm in arms] == [8] * 7 and [len(rows[arm]) for arm in module.LEAVES] == [3, 3]
    right = {
        arm: [sum(row["right"] for row in rows[arm] if row["kind"] == k) for k in ("multiple", "irrelevance")]
        for arm in arms
    }
    assert right["free"] == [4, 0] and right["words"] == [4, 4] == right["nearest"] and right["never calls"] == [0, 4]
    assert [row["function"] for row in rows["words alone"] if row["kind"] == "multiple"] == [True] * 4
    assert not any(row["function"] for row in rows["first function"])
    lines = module.tables(result)
    assert any(line.startswith("| words | 100% [51%, 100%]") for line in lines)
    assert any(line.startswith("| as it is | Based | 6 | 1.00 | 1.00 | 0%") for line in lines)
    module.main()
    assert len(prompts) == asked and json.loads(out.read_text())["rows"] == result["rows"], "nothing is asked again"
