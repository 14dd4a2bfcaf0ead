"""Conversations as JSON lines: three dialects, one attempt; and what arrives broken."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput
from evolvent.credit import step_leave_one_out
from evolvent.traces import chat, events
from evolvent.traces.build import Options, build
from evolvent.traces.events import Repairs

FIXTURES = Path(__file__).parent / "fixtures"


def read(path, options=Options(), repairs=None):
    return [build(attempt, options) for attempt in chat.read(path, repairs or Repairs())]


def of(tmp_path, *rows, options=Options(), repairs=None):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return read(tmp_path / "t.jsonl", options, repairs)


def user(text):
    return {"role": "user", "content": text}


def said(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(id, name="add", arguments="{}"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def nodes(episode):
    return [replace(node, data={k: v for k, v in node.data.items() if k != "usage"}) for node in episode.nodes]


def kinds(episode):
    return [(node.kind, node.text) for node in episode.nodes]


def test_three_dialects_of_one_conversation_are_one_attempt():
    made = [read(FIXTURES / f"{name}.jsonl")[0] for name in ("chat", "responses", "anthropic")]
    for episode in made:
        assert nodes(episode) == nodes(made[0])  # not every dialect says what each decision took
        assert episode.finish_T[1] in ("stop", "")
        assert episode.success is True and episode.rewards_T.tolist() == [0.0, 1.0]
        credit = step_leave_one_out.assign([episode])
        assert credit.values("step").tolist() == [1.0, 1.0]
    assert kinds(made[0]) == [
        ("observation", "Be brief."),
        ("observation", "1+2 and 3+4?"),
        ("action", 'I add.\nadd({"a": 1, "b": 2})\nadd({"a": 3, "b": 4})'),
        ("tool", "3"),
        ("tool", "7"),
        ("action", "3 and 7"),
    ]
    assert made[0].meta["usage"] == made[2].meta["usage"] == {"prompt": 40.0, "completion": 10.0}
    assert len({episode.id for episode in made}) == 3
    for episode in made[1:]:
        notes = episode.meta["source"]["nodes"]["2"]
        assert notes["reasoning"] == "two sums" and set(notes["sealed"][0]) == {"sha256", "length"}
        assert "c2" not in json.dumps(notes["sealed"])


def test_reasoning_stands_in_the_text_only_where_it_is_wanted():
    (episode,) = read(FIXTURES / "anthropic.jsonl", Options(reasoning=True))
    assert list(episode.nodes)[2].text.startswith("<think>two sums</think>\nI add.")


def test_a_paused_turn_and_what_follows_it_are_one_decision(tmp_path):
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "text", "text": "page"}]}
    first = {"role": "assistant", "content": [search, found], "stop_reason": "pause_turn"}
    last = {"role": "assistant", "content": [{"type": "text", "text": "so"}], "stop_reason": "end_turn"}
    (episode,) = of(tmp_path, {"messages": [user("?"), first, last]})
    assert kinds(episode)[1:] == [("action", 'so\nweb_search({"q": "x"})'), ("tool", "page")]
    assert episode.finish_T == ["stop"]


def test_unknown_fields_and_token_ids_are_kept(tmp_path):
    answer = said("b", token_ids=[3, 4], logp=[-0.5, -1.0], prompt_ids=[1, 2], audio={"id": "x"})
    again = said("d", token_ids=[6], logp=[-0.1], prompt_ids=[1, 2, 3, 4, 5])
    (episode,) = of(tmp_path, {"messages": [user("a"), answer, user("c"), again], "tags": ["x"], "reward": 0.5})
    assert episode.context_ids(1).tolist() == [1, 2, 3, 4, 5] and episode.token_ids.tolist() == [3, 4, 6]
    source = episode.meta["source"]
    assert source["extra"] == {"tags": ["x"]} and source["nodes"]["1"]["audio"] == {"id": "x"}
    assert episode.success is None and episode.total_reward == 0.5


def test_a_prompt_that_does_not_go_on_begins_a_new_context(tmp_path):
    turns = [
        user("a"),
        said("b", token_ids=[3], prompt_ids=[1, 2]),
        user("c"),
        said("d", token_ids=[9], prompt_ids=[7]),
    ]
    (episode,) = of(tmp_path, {"messages": turns, "reward": 1})
    assert episode.context_ids(1).tolist() == [7]


def test_wrong_log_probabilities_are_left_out_and_counted(tmp_path):
    repairs = Repairs()
    wrong = [
        said("x", token_ids=[1], logp=[0.5]),
        said("y", token_ids=[1, 2], logp=[-1.0]),
        said("z", token_ids=[2**40]),
    ]
    (episode,) = of(tmp_path, {"messages": [user("?"), *wrong], "reward": 1}, repairs=repairs)
    assert not (episode.logp <= 0).any() and episode.n_tokens == 3
    assert repairs.counts["log-probabilities that do not fit their tokens, left out"] == 2
    assert repairs.counts["token ids that are none, left out"] == 1


def test_calls_find_their_results(tmp_path):
    calls = [
        call("c", arguments='"{\\"a\\": 1}"'),
        call("c"),
        call("", "look"),
        call("lost"),
        call("bad", arguments="{"),
    ]
    results = [
        {"role": "tool", "tool_call_id": "c", "content": "first"},
        {"role": "tool", "tool_call_id": "c", "content": "second"},
        {"role": "tool", "content": "by order"},
        {"role": "tool", "tool_call_id": "bad", "content": "no", "status": "error"},
        {"role": "tool", "tool_call_id": "nobody", "content": "whose?"},
    ]
    repairs = Repairs()
    messages = [user("?"), said(None, tool_calls=calls), *results, said("done")]
    (episode,) = of(tmp_path, {"messages": messages, "reward": 0}, repairs=repairs)
    tools = [(n.text, n.data["name"], n.data["outcome"]) for n in episode.nodes if n.kind == "tool"]
    assert tools == [
        ("first", "add", "ok"),
        ("second", "add", "ok"),
        ("by order", "look", "ok"),
        ("", "add", "missing"),
        ("no", "add", "raised"),
        ("whose?", "unknown", "ok"),
    ]
    first, *_, bad, _ = [n for n in episode.nodes if n.kind == "tool"]
    assert first.data["arguments"] == {"a": 1} and bad.data["arguments"] == {"_text": "{"}
    assert {"results without a call", "calls without a result"} <= set(repairs.counts)


def test_outcomes_are_never_made_up(tmp_path):
    rows = [
        {"id": "none", "messages": [user("?"), said("a")]},
        {"id": "nan", "messages": [user("?"), said("a")], "rewards": {"judge": float("nan")}},
        {"id": "two", "messages": [user("?"), said("a")], "rewards": {"x": 1.0, "y": 0.5}},
        {"id": "text", "messages": [user("?"), said("a")], "reward": "good"},
    ]
    made = of(tmp_path, *rows)
    assert [(e.valid, e.success, e.total_reward) for e in made] == [(False, None, 0.0)] * 4
    assert made[2].rewards_by_kind == {"x": 1.0, "y": 0.5}
    paid = of(tmp_path, *rows, options=Options(reward="y", success=">=0.5"))[2]
    assert paid.valid and paid.success is True and paid.total_reward == 0.5
    told = of(tmp_path, *rows, options=Options(outcomes={"none": {"reward": 0.25, "success": False}}))[0]
    assert told.valid and told.success is False and told.total_reward == 0.25


def test_step_rewards_are_not_paid_twice(tmp_path):
    messages = [user("?"), said("a", reward=0.25), user("!"), said("b", reward=0.5)]
    (episode,) = of(tmp_path, {"messages": messages, "reward": 0.75})
    assert episode.rewards_T.tolist() == [0.25, 0.5] and episode.rewards_by_kind == {"reward": 0.75}


def test_tasks_and_groups(tmp_path):
    row = {"messages": [user("?"), said("a")], "model": "m", "metadata": {"task": {"name": "t7"}}}
    assert of(tmp_path, {**row, "task_id": "t"})[0].group == "t | m"
    (episode,) = of(tmp_path, row, options=Options(task_key="metadata.task.name", group="task"))
    assert (episode.task_id, episode.group) == ("t7", "t7")
    assert of(tmp_path, row)[0].task_id == of(tmp_path, {**row, "id": "other"})[0].task_id


def test_pictures_stay_outside(tmp_path):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    far = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    (episode,) = of(
        tmp_path, {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, image, far]}, said("x")]}
    )
    assert next(iter(episode.nodes)).text == "see\n[image png, 5 bytes, sha256 2cf24dba…]\n[image, not opened]"


def test_bad_lines_are_left_out_and_counted(tmp_path):
    good = {"messages": [user("?"), said("a")], "reward": 1}
    deep = '{"messages": [{"role": "user", "content": "?"}], "metadata": ' + "[" * 500 + "]" * 500 + "}"
    repairs = Repairs()
    made = of(tmp_path, good, "[1]", deep, '{"messages": [{"role": "us', repairs=repairs)
    assert len(made) == 1
    left = {what: n for what, n in repairs.counts.items() if "left out" in what}
    assert left == {
        "lines without messages left out": 1,
        "lines left out: nested too deep": 1,
        "lines left out: not JSON": 1,
    }
    with pytest.raises(BadInput, match="nested too deep"):
        of(tmp_path, good, deep, repairs=Repairs(strict=True))


def test_surrogates_and_long_texts_are_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "MAX_TEXT", 10)
    repairs = Repairs()
    asked, answer = '{"role": "user", "content": "\\ud800 ok \\ud83d\\ude00"}', json.dumps(said("0123456789ab"))
    text = f'{{"messages": [{asked}, {answer}]}}'
    (episode,) = of(tmp_path, text, repairs=repairs)
    assert kinds(episode) == [
        ("observation", "\ufffd ok \U0001f600"),
        ("action", "01234 [2 characters left out] 789ab"),
    ]
    assert episode.meta["source"]["repairs"].items() <= dict(repairs.counts).items()


def test_a_line_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "MAX_DOCUMENT", 100)
    with pytest.raises(BadInput, match="too large"):
        of(tmp_path, {"messages": [user("x" * 100)]})
