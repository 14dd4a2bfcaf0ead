"""Traces that somebody broke: one odd value anywhere, lengths that grow, cycles, and what must never be made up."""

import copy
import itertools
import json
import random
import tracemalloc
from pathlib import Path

import pytest

from evolvent.cli import main
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump
from evolvent.traces import atif, build, chat, otel, verifiers
from evolvent.traces.events import Repairs

FIXTURES = Path(__file__).parent / "fixtures"
ODD = [None, [], {}, "", "x", 0, -1, 2**70, 10**400, float("nan"), True, [[1]], {"a": {"b": 1}}, "\ud800", [None, "y"]]
ASK, SAY = {"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}


def places(value, way=()):
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*way, key))


def changed(value, way, new):
    if not way:
        return new
    made = copy.deepcopy(value)
    at = made
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = new
    return made


def read(reader, path, repairs=None):
    attempts = reader.read_all([path], repairs or Repairs()) if hasattr(reader, "read_all") else None
    return [build.build(one) for one in attempts or reader.read(path, repairs or Repairs())]


def of(tmp_path, reader, *rows, repairs=None):
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(reader, tmp_path / "t.jsonl", repairs)


def chat_span(number, parent=None, said="a", **attributes):
    keys = {"gen_ai.operation.name": "chat", **attributes}
    keys.setdefault(
        "gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": said}]}])
    )
    return span(number, parent, **keys)


def span(number, parent=None, **attributes):
    made = {"traceId": "a" * 32, "spanId": f"{number:016x}", "startTimeUnixNano": str(number)}
    made |= {"parentSpanId": f"{parent:016x}"} if parent else {}
    return made | {"attributes": [{"key": key, "value": value(one)} for key, one in attributes.items()]}


def value(one):
    if isinstance(one, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(inner)} for key, inner in one.items()]}}
    if isinstance(one, list):
        return {"arrayValue": {"values": [value(inner) for inner in one]}}
    return {"doubleValue" if isinstance(one, float) else "stringValue": one}


def spans(*made):
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(made)}]}]}


def score(number, at, time=9):
    keys = {"gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.value": number}
    made = {"eventName": "gen_ai.evaluation.result", "timeUnixNano": str(time), "traceId": "a" * 32}
    made |= {"spanId": f"{at:016x}", "attributes": [{"key": key, "value": value(one)} for key, one in keys.items()]}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [made]}]}]}


@pytest.mark.parametrize("name", ["chat", "anthropic", "verifiers", "trial"])
def test_one_odd_value_anywhere_breaks_nothing(name, tmp_path):
    reader = {"verifiers": verifiers, "trial": atif}.get(name, chat)
    file = FIXTURES / ("trial/agent/trajectory.json" if name == "trial" else f"{name}.jsonl")
    whole, odd = json.loads(file.read_text()), itertools.cycle(ODD)
    for way in places(whole):
        for one in itertools.islice(odd, 4):
            (tmp_path / "t.json").write_text(json.dumps(changed(whole, way, one)))
            for episode in read(reader, tmp_path / "t.json"):
                dump(episode.to_dict()).encode("utf-8")  # it can be written
                assert not episode.valid or episode.success is not None or episode.rewards_T.any() or name == "trial"


def test_an_attempt_that_cannot_be_built_does_not_end_the_import(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "MAX_NODES", 4)
    rows = [{"id": "long", "messages": [ASK, SAY] * 3, "reward": 1}, {"id": "ok", "messages": [ASK, SAY], "reward": 1}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["import", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "run")])
    assert "attempts left out: an attempt has too many nodes" in capsys.readouterr().out
    assert [row["meta"]["source"]["key"] for row in RunFolder.open(tmp_path / "run").read_episodes()] == ["ok"]


@pytest.mark.parametrize("given", ['{"a":' * 100 + "1" + "}" * 100, '{"a":' * 9999 + "1" + "}" * 9999, "9" * 5000])
def test_arguments_that_are_no_object_stay_text(given, tmp_path):
    call = {"id": "c", "function": {"name": "f", "arguments": given}}
    (episode,) = of(tmp_path, chat, {"messages": [ASK, {**SAY, "tool_calls": [call]}], "reward": 1})
    (tool,) = [node for node in episode.nodes if node.kind == "tool"]
    assert tool.data["arguments"] == {"_text": given} and tool.data["outcome"] == "unparsed"


def test_lone_surrogates_inside_arguments_are_replaced(tmp_path):
    call = {"id": "c", "function": {"name": "f", "arguments": '{"x": "\\ud800"}'}}
    repairs = Repairs()
    (episode,) = of(tmp_path, chat, {"messages": [ASK, {**SAY, "tool_calls": [call]}], "reward": 1}, repairs=repairs)
    assert dump(episode.to_dict()).encode("utf-8") and repairs.counts["lone surrogates, replaced"] == 1


def test_outcomes_that_say_nothing_are_counted_not_guessed(tmp_path):
    repairs = Repairs()
    rows = [{"reward": 10**400}, {"success": "yes"}, {"success": 1}, {"rewards": {"a": "NaN"}}]
    made = of(tmp_path, chat, *({"messages": [ASK, SAY], **row} for row in rows), repairs=repairs)
    assert [(e.valid, e.success, e.total_reward) for e in made] == [(False, None, 0.0)] * 4
    assert repairs.counts["scores that are no numbers, left out"] == 2
    assert repairs.counts["success that is neither true nor false, left out"] == 2
    record = json.loads((FIXTURES / "verifiers.jsonl").read_text())
    record["rewards"] = {"right": {"score": float("nan"), "weight": 1.0}, "short": {"score": 0.5, "weight": 0.5}}
    (episode,) = of(tmp_path, verifiers, record)
    assert episode.rewards_by_kind == {"short": 0.5} and not episode.valid and episode.total_reward == 0.0


def test_what_the_assistant_said_before_is_not_the_users(tmp_path):
    history = [ASK, {"role": "assistant", "content": "before"}, {"role": "user", "content": "and?"}]
    row = {"id": "a", "prompt": history, "completion": [SAY], "reward": 1}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    main(["import", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "run")])
    words = ["export", "jsonl", str(tmp_path / "run"), "--rule", "step_return_to_go", "--out", str(tmp_path / "x")]
    main(words)
    (line,) = (tmp_path / "x").read_text().splitlines()
    assert [one["role"] for one in json.loads(line)["messages"]] == ["user", "assistant", "user"]


def test_a_document_that_continues_itself_is_read_once(tmp_path):
    step = {"step_id": 1, "source": "agent", "message": "x"}
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": [step]}
    (tmp_path / "self.json").write_text(json.dumps(document | {"continued_trajectory_ref": "self.json"}))
    repairs = Repairs()
    (episode,) = read(atif, tmp_path / "self.json", repairs)
    assert episode.n_steps == 1 and repairs.counts["continuations not followed"] == 1


def test_a_cycle_of_one_call_keeps_one(tmp_path):
    (episode,) = of(tmp_path, otel, spans(chat_span(1, 3), chat_span(2, 1), chat_span(3, 2)))
    assert episode.n_steps == 1


def test_documents_in_an_array_on_one_line_and_deep_structures(tmp_path):
    deep = {"x": "1"}
    for _ in range(30):  # of which OTLP makes four levels each
        deep = {"k": deep}
    call = {"type": "tool_call", "id": "c", "name": "f", "arguments": deep}
    keys = {"gen_ai.output.messages": [{"role": "assistant", "parts": [call]}]}
    (episode,) = of(tmp_path, otel, [spans(chat_span(1)), spans(chat_span(2, **keys))])
    assert [node.text[:12] for node in episode.nodes if node.kind == "action"] == ["a", 'f({"k": {"k"']


def test_two_scores_of_one_time_are_told_in_any_order(tmp_path):
    lines = [spans(span(1, **{"gen_ai.operation.name": "invoke_agent"}), chat_span(2, 1)), score(1.0, 1), score(0.0, 1)]
    made = []
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        made += of(tmp_path, otel, *lines)
    assert len({episode.total_reward for episode in made}) == 1
    later = score(0.25, 1, time=9 + 40 * 365 * 86_400 * 10**9)  # forty years
    assert of(tmp_path, otel, later, *lines)[0].total_reward == 0.25


def test_tools_of_an_agent_that_is_its_own_decision(tmp_path):
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "solo", "gen_ai.output.messages": said}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls", "gen_ai.tool.call.result": "file"}
    repairs = Repairs()
    (episode,) = of(tmp_path, otel, spans(span(1, **agent), span(2, 1, **tool)), repairs=repairs)
    assert [(n.kind, n.text, n.agent) for n in episode.nodes] == [("action", "done", "solo"), ("tool", "file", "solo")]
    assert "tools of a conversation without a decision" not in repairs.counts


def peak(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_memory_is_linear_in_the_depth_of_spans(tmp_path):
    depth = 6000
    chain = [span(i, i - 1 if i > 1 else None, **{"gen_ai.operation.name": "chain"}) for i in range(1, depth)]
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps(spans(one)) + "\n" for one in [*chain, chat_span(depth, depth - 1)])
    )
    assert peak(lambda: read(otel, tmp_path / "t.jsonl")) < 60  # a list of ancestors each: 150 MB more


def test_memory_is_linear_in_the_length_of_a_tree_with_tokens(tmp_path):
    nodes = []
    for turn in range(400):
        asked = {"message": ASK, "token_ids": list(range(100)), "mask": [False] * 100}
        said = {"message": SAY, "token_ids": list(range(100)), "mask": [True] * 100, "logprobs": [-0.5] * 100}
        nodes += [
            {**asked, "parent": len(nodes) - 1 if turn else None},
            {**said, "parent": len(nodes), "sampled": True},
        ]
    record = {"version": 1, "id": "long", "nodes": nodes, "rewards": {"r": {"score": 1.0, "weight": 1.0}}}
    (tmp_path / "t.jsonl").write_text(json.dumps(record) + "\n")
    made: list[Episode] = []
    assert peak(lambda: made.extend(read(verifiers, tmp_path / "t.jsonl"))) < 60  # whole prompts: 128 MB more
    assert len(made[0].context_ids(399)) == 79_900 and made[0].n_tokens == 40_000


def test_strict_refuses_what_would_be_left_out(tmp_path):
    with pytest.raises(BadInput, match="neither true nor false"):
        of(tmp_path, chat, {"messages": [ASK, SAY], "success": "yes"}, repairs=Repairs(strict=True))
