"""Spans and logs: files that OpenTelemetry's SDK and OpenInference wrote, and what goes wrong with spans."""

import base64
import json
import random
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput
from evolvent.traces import otel
from evolvent.traces.build import Options, build
from evolvent.traces.events import Repairs

OTEL = Path(__file__).parent / "fixtures" / "otel"
SAID = "gen_ai.output.messages"
ASKED = "gen_ai.input.messages"


def read(paths, repairs=None, options=Options()):
    return [build(attempt, options) for attempt in otel.read_all(list(paths), repairs or Repairs())]


def fixture(name, repairs=None, options=Options()):
    (episode,) = read(sorted(OTEL.glob(f"{name}.*")), repairs, options)
    return episode


def value(plain):
    kind = {bool: "boolValue", int: "intValue", float: "doubleValue"}.get(type(plain), "stringValue")
    return {kind: plain if kind != "stringValue" or isinstance(plain, str) else json.dumps(plain)}


def span(id, parent="", *, start=1, trace="a" * 32, name="s", events=(), **attributes):
    made = {"traceId": trace, "spanId": f"{id:016x}", "name": name, "startTimeUnixNano": str(start)}
    made |= {"parentSpanId": f"{parent:016x}"} if parent else {}
    return made | {"attributes": [{"key": k, "value": value(v)} for k, v in attributes.items()], "events": list(events)}


def chat(id, parent="", *, asked=(), said="", calls=(), **more):
    parts = [{"type": "text", "content": said}] if said else []
    parts += [{"type": "tool_call", "id": i, "name": "f", "arguments": {}} for i in calls]
    start = more.pop("start", id)
    keys = {"gen_ai.operation.name": "chat", ASKED: [message(*one) for one in asked]}
    keys |= {SAID: [{"role": "assistant", "parts": parts}]} if parts else {}
    return span(id, parent, start=start, **keys, **more)


def message(role, text, id=""):
    if role == "tool":
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": text}]}
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def evaluated(score, *, name="ok", at=None, time=9, **more):
    keys = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": score, **more}
    where = {"traceId": "a" * 32, "spanId": f"{at:016x}"} if at else {}
    attributes = [{"key": k, "value": value(v)} for k, v in keys.items()]
    return {"eventName": "gen_ai.evaluation.result", "timeUnixNano": str(time), "attributes": attributes, **where}


def of(tmp_path, *spans, logs=(), repairs=None, options=Options()):
    lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]} for one in spans]
    lines += [{"resourceLogs": [{"scopeLogs": [{"logRecords": [one]}]}]} for one in logs]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return read([tmp_path / "t.jsonl"], repairs, options)


def texts(episode, kind="action"):
    return [node.text for node in episode.nodes if node.kind == kind]


def test_the_outcome_as_log_record_as_event_and_by_response_is_the_same():
    made = [fixture(f"planner_{how}") for how in ("log", "event", "response")]
    for episode in made:
        assert list(episode.nodes) == list(made[0].nodes) and episode.id == made[0].id
        assert episode.rewards_T.tolist() == [0.0, 0.0, 1.0] and episode.valid
    assert made[0].agents_T == ["planner", "scout", "planner"]
    nodes = list(made[0].nodes)
    assert [(n.kind, n.text) for n in nodes[3:7]] == [
        ("tool", "3"),
        ("tool", "nobody"),
        ("observation", "Who?"),
        ("action", "nobody"),
    ]
    assert [nodes[i].text for i in made[0].branch(7)][-4:] == [nodes[2].text, "3", "nobody", "3, nobody"]
    assert made[0].meta["source"]["called_by"] == {"5": 2} and made[0].meta["usage"] == {"prompt": 33, "completion": 10}
    assert fixture("planner_log", options=Options(success=">=1")).success is True


def test_the_order_of_lines_changes_nothing(tmp_path):
    lines = [line for path in OTEL.glob("planner_log.*") for line in path.read_text().splitlines()]
    made = []
    for seed in range(4):
        random.Random(seed).shuffle(lines)
        (tmp_path / f"{seed}.jsonl").write_text("\n".join(lines) + "\n")
        made += read([tmp_path / f"{seed}.jsonl"])
    assert all(one == made[0] for one in made)


def test_ids_in_base64_and_one_document_for_all(tmp_path):
    values = [json.loads(line) for line in (OTEL / "planner_event.spans.jsonl").read_text().splitlines()]
    spans = [one for v in values for r in v["resourceSpans"] for s in r["scopeSpans"] for one in s["spans"]]
    for one in spans:
        for key in {"traceId", "spanId", "parentSpanId"} & one.keys():
            one[key] = base64.b64encode(bytes.fromhex(one[key])).decode()
    whole = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "whole.json").write_text(json.dumps(whole, indent=2))
    (episode,) = read([tmp_path / "whole.json"])
    assert list(episode.nodes) == list(fixture("planner_event").nodes)


def test_messages_as_events_a_failed_call_and_a_memory():
    repairs = Repairs()
    episode = fixture("first_generation", repairs)
    assert [(n.kind, n.text) for n in episode.nodes][1:] == [
        ("observation", "Be brief."),
        ("observation", "1+2?"),
        ("action", 'add({"x": 1})'),
        ("tool", "3"),
        ("action", "3"),
    ]
    tool = next(iter(episode.nodes))
    assert tool.kind == "tool" and tool.data["name"] == "search_memory" and not episode.memory_uses
    assert episode.meta["source"]["nodes"]["3"]["retries"] == ["RateLimitError"]
    assert not episode.valid and episode.success is None


def test_openinference():
    episode = fixture("openinference")
    assert texts(episode) == ['add({"x": 1})', "3"] and episode.agents_T == ["adder", "adder"]
    assert texts(episode, "tool") == ["3"] and episode.meta["usage"] == {"prompt": 14.0, "completion": 4.0}


def test_messages_that_were_cut_and_no_messages_at_all():
    repairs = Repairs()
    episode = fixture("cut", repairs)
    assert texts(episode) == ["", "nobody", "3, nobody"] and texts(episode, "tool") == ["3", "nobody"]
    assert repairs.counts["attempts with messages that were cut"] == 2
    silent = fixture("no_content")
    assert texts(silent) == ["", "", ""] and len(texts(silent, "tool")) == 2
    assert silent.agents_T == ["planner", "scout", "planner"]


def test_the_console_dump_is_refused(tmp_path):
    (tmp_path / "dump.json").write_text(
        '{\n    "name": "x",\n    "context": {\n        "trace_id": "0xabc"\n    }\n}\n'
    )
    with pytest.raises(BadInput, match="console"):
        read([tmp_path / "dump.json"])


def test_cycles_orphans_and_ids_twice(tmp_path):
    repairs = Repairs()
    spans = [
        chat(1, 2, said="a"),
        chat(2, 1, asked=[("user", "?")], said="b"),
        chat(3, 77, said="c"),
        chat(3, said="d"),
    ]
    (episode,) = of(tmp_path, *spans, repairs=repairs)
    assert sorted(texts(episode)) == ["a", "b", "c"]
    assert repairs.counts["spans with one id, the first is taken"] == 1
    assert repairs.counts["spans whose parent is missing"] == 1
    assert repairs.counts["spans that are their own ancestors, cut"] == 2


def test_contexts_part_and_deltas_append(tmp_path):
    asked = [("user", "?")]
    two = [chat(1, asked=asked, said="a"), chat(2, asked=asked, said="b")]
    on = chat(3, asked=[*asked, ("assistant", "b"), ("user", "more")], said="c")
    fresh = chat(4, asked=[("user", "else")], said="d")
    (episode,) = of(tmp_path, *two, on, fresh)
    nodes = list(episode.nodes)
    ways = [[nodes[i].text for i in episode.branch(n)] for n in episode.step_nodes_T]
    assert ways == [["?", "a"], ["?", "b"], ["?", "b", "more", "c"], ["else", "d"]]
    (episode,) = of(tmp_path, chat(1, asked=asked, calls=["k"]), chat(2, asked=[("tool", "r", "k")], said="z"))
    nodes = list(episode.nodes)
    assert [nodes[i].text for i in episode.branch(nodes[-1].index)] == ["?", "f({})", "r", "z"]


def test_one_call_recorded_twice_is_one_decision(tmp_path):
    repairs = Repairs()
    asked = [("user", "?")]
    outer, inner = chat(1, asked=asked, said="a"), chat(2, 1, asked=asked, said="a")
    again = [chat(i, asked=asked, said="x" * i, **{"gen_ai.response.id": "r"}) for i in (5, 6)]
    (episode,) = of(tmp_path, outer, inner, *again, repairs=repairs)
    assert texts(episode) == ["a", "x" * 6]
    assert repairs.counts["calls of the model recorded twice, one inside the other"] == 1


def test_messages_only_on_the_agent(tmp_path):
    keys = {ASKED: [message("user", "?")], SAID: [message("assistant", "!")]}
    agent = span(1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, **keys)
    empty = [span(i, 1, start=i, **{"gen_ai.operation.name": "chat"}) for i in (2, 3)]
    (episode,) = of(tmp_path, agent, *empty)
    assert [(n.kind, n.text) for n in episode.nodes] == [("observation", "?"), ("action", ""), ("action", "!")]
    (episode,) = of(tmp_path, agent)
    assert [(n.kind, n.text) for n in episode.nodes] == [("observation", "?"), ("action", "!")]


def test_conversations_across_traces_are_one_attempt(tmp_path):
    one = chat(1, asked=[("user", "?")], said="a", **{"gen_ai.conversation.id": "c"})
    two = chat(2, asked=[("user", "?"), ("assistant", "a"), ("user", "!")], said="b", trace="b" * 32,
               **{"gen_ai.conversation.id": "c"})  # fmt: skip
    (episode,) = of(tmp_path, two, one)
    assert texts(episode) == ["a", "b"] and len(of(tmp_path, chat(1, said="a"), chat(2, said="b", trace="b" * 32))) == 2


def test_evaluations(tmp_path):
    agent = span(1, **{"gen_ai.operation.name": "invoke_agent"})
    spans = [agent, chat(2, 1, said="a"), chat(3, 1, said="b")]

    def paid(*logs, options=Options()):
        (episode,) = of(tmp_path, *spans, logs=logs, options=options)
        return episode.rewards_T.tolist(), episode.success, episode.valid

    assert paid(evaluated(1.0, at=1)) == ([0.0, 1.0], True, True)
    assert paid(evaluated(0.25, at=2), evaluated(0.5, at=3)) == ([0.25, 0.5], None, True)
    assert paid(evaluated(1.0, at=1), evaluated(0.0, at=1, time=10)) == ([0.0, 0.0], False, True)
    assert paid(evaluated("NaN", at=1)) == ([0.0, 0.0], None, False)
    assert paid(evaluated(1.0, at=1, **{"error.type": "Timeout"})) == ([0.0, 0.0], None, False)
    assert paid(evaluated(1.0, at=1, name="evolvent.credit.step_gae")) == ([0.0, 0.0], None, False)
    assert paid(evaluated(1.0, at=1), evaluated(0.5, at=1, name="style"), options=Options(reward="style"))[0] == [
        0.0,
        0.5,
    ]


def test_deep_and_broken_messages_do_not_end_the_import(tmp_path):
    deep = chat(1, said="a")
    deep["attributes"].append({"key": ASKED, "value": {"stringValue": "[" * 500 + "]" * 500}})
    deep["attributes"] = [a for a in deep["attributes"] if a["value"] != {"stringValue": "[]"}]
    repairs = Repairs()
    (episode,) = of(tmp_path, deep, repairs=repairs)
    assert texts(episode) == ["a"] and repairs.counts["messages left out: nested too deep"] == 1
