"""Conversations: what is one, how they go on, and their text."""

import json

import pytest

from evolvent.core.conversation import Conversation, calls_text
from evolvent.core.errors import BadInput

USER = {"role": "user", "content": "Weather in Oslo?"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLED = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("messages", "tools", "says"),
    [
        ((), (), "no messages"),
        ("hello", (), "no messages"),
        (("hello",), (), "not a message"),
        (({"role": "developer", "content": "x"},), (), "unknown role"),
        (({"content": "x"},), (), "unknown role"),
        (({"role": "user", "content": ["x"]},), (), "not text"),
        (({"role": "user", "content": None},), (), "not text"),
        (({"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}, USER), (), "not a call"),
        ((USER, {"role": "assistant", "content": "3 degrees"}), (), "nothing is asked"),
        ((USER,), ({"name": "weather"},), "not a tool"),
        ((USER,), "weather", "tools are a list"),
        ((USER,), (TOOL, TOOL), "two tools of one name"),
        (({"role": "user", "content": "x", "at": object()},), (), "cannot be written as JSON"),
    ],
)
def test_what_is_no_conversation_is_refused(messages, tools, says):
    with pytest.raises(BadInput, match=says):
        Conversation(messages, tools)


def test_a_conversation_goes_on_with_a_text_or_with_calls_and_their_results():
    begun = Conversation((USER,), (TOOL,))
    spoken = begun.answered("Which Oslo?", (), "Norway")
    assert spoken.messages[1:] == (
        {"role": "assistant", "content": "Which Oslo?"},
        {"role": "user", "content": "Norway"},
    )
    calls = [{"name": "weather", "arguments": {"city": "Ålesund"}}, {"name": "weather", "arguments": {}}]
    called = begun.answered(calls_text(calls), calls, "3 degrees")
    _, said, first, second = called.messages
    ids = [one["id"] for one in said["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids and len(set(ids)) == 2
    assert all(len(one) == 9 and one.isalnum() for one in ids), "what Mistral's API takes"
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"city": "Ålesund"}
    assert first["content"] == "3 degrees" and called.tools == (TOOL,)
    again = called.answered("", calls[:1], "4 degrees")
    assert again.messages[-1]["tool_call_id"] not in ids


def test_instructions_join_the_system_s_message():
    begun = Conversation(({"role": "system", "content": "Be brief."}, USER))
    assert begun.headed("Answer.\n\n").messages[0] == {"role": "system", "content": "Answer.\n\nBe brief."}
    assert Conversation((USER,)).headed("Answer.").messages == ({"role": "system", "content": "Answer."}, USER)
    assert begun.headed(" \n") is begun


def test_the_text_holds_all_of_it():
    assert Conversation((USER,)).text == "Weather in Oslo?"
    asked = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    result = {"role": "tool", "tool_call_id": "a", "content": "3 degrees"}
    text = Conversation((USER, asked, result), (TOOL,)).text
    assert json.dumps(TOOL["function"]) in text and "user: Weather in Oslo?" in text
    assert 'assistant: [{"name": "weather", "arguments": "{}"}]' in text and "tool: 3 degrees" in text
