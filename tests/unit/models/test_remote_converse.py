"""Messages and tools at a chat endpoint: what is sent, what comes back, and what goes wrong."""

import json

import pytest
from test_models_remote import CHAT, endpoint, server  # noqa: F401

from evolvent.core.conversation import Conversation
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.protocols import Completion, Task, Turn
from evolvent.envs.text._text import TextEnv
from evolvent.models.served.acting import Served
from evolvent.models.served.remote import Remote
from evolvent.models.served.scripted import Scripted
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.testing.chat import Call, ChatServer

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASKED = Conversation(({"role": "user", "content": "What is the weather in Oslo?"},), (TOOL,))


def test_calls_come_back_in_neutral_form_and_as_text():
    with ChatServer(lambda body: [Call("get_weather", {"city": "Ålesund", "n": 2}), Call("f", {})]) as chat:
        done = Remote("m", chat.base_url).converse(ASKED, stop=["\n"], max_tokens=50)
    assert done.calls == (
        {"name": "get_weather", "arguments": {"city": "Ålesund", "n": 2}},
        {"name": "f", "arguments": {}},
    )
    assert json.loads(done.text) == [dict(call) for call in done.calls] and done.finish == "stop"
    (sent,) = chat.requests
    assert sent["tools"] == [TOOL] and sent["messages"] == [dict(m) for m in ASKED.messages]
    assert "stop" not in sent, "it would cut calls"


def test_a_text_comes_back_cut_by_stop():
    with ChatServer(lambda body: "It rains.\nQ: next") as chat:
        remote = Remote("m", chat.base_url)
        done = remote.converse(ASKED, stop=["\n"])
        plain = remote.converse(Conversation(ASKED.messages), stop=["\n"])
    assert (done.text, done.stopped, done.calls) == ("It rains.", "\n", ())
    assert plain.text == "It rains." and chat.requests[1]["stop"] == ["\n"] and "tools" not in chat.requests[1]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ('```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```', True),
        ('I look.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>', True),
        ('[{"name": "get_weather", "arguments": {"city": "Oslo"}}, {"name": "other", "arguments": {}}]', False),
        ('{"name": "get_weather", "arguments": {"city"', False),
    ],
)
def test_a_call_that_the_server_left_in_the_text_counts(text, counts):
    with ChatServer(lambda body: text) as chat:
        done = Remote("m", chat.base_url).converse(ASKED)
    assert done.text == text
    assert done.calls == (({"name": "get_weather", "arguments": {"city": "Oslo"}},) if counts else ())


def reply(*functions, content=None):
    calls = [{"id": "a", "type": "function", "function": function} for function in functions]
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return {**CHAT, "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


@pytest.mark.parametrize("given", ['{"city": "Os', "[1]", '"Oslo"', "NaN", "{'city': 'Oslo'}", "[" * 100_000])
def test_arguments_that_are_no_object_are_recorded_as_text(endpoint, given):  # noqa: F811
    good = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    endpoint.plan["/v1/chat/completions"] = [(200, reply(good, {"name": "get_weather", "arguments": given}))]
    done = Remote("m", endpoint.url).converse(ASKED)
    assert done.calls == (), "half of what was wanted is not carried out"
    first, second = json.loads(done.text)
    assert first["arguments"] == {"city": "Oslo"} and second["name"] == "get_weather"
    assert not isinstance(second["arguments"], dict)


def test_words_beside_a_call_and_no_arguments(endpoint):  # noqa: F811
    odd = reply({"name": "now", "arguments": ""}, {"name": "f", "arguments": '{"a": "\\ud800"}'}, content="I look.")
    endpoint.plan["/v1/chat/completions"] = [(200, odd)]
    done = Remote("m", endpoint.url).converse(ASKED)
    words, calls = done.text.split("\n")
    assert words == "I look." and json.loads(calls) == list(done.calls)
    assert done.calls == ({"name": "now", "arguments": {}}, {"name": "f", "arguments": {"a": "\ufffd"}})


def test_an_endpoint_that_refuses_tools_says_so(endpoint):  # noqa: F811
    refused = (400, {"error": {"message": "tools param requires --jinja flag"}})
    endpoint.plan["/v1/chat/completions"] = [refused]
    with pytest.raises(ModelError, match="refused the request") as error:
        Remote("m", endpoint.url).converse(ASKED)
    assert "take an endpoint that knows them" in str(error.value.__notes__)


def test_rate_limits_are_tried_again(endpoint):  # noqa: F811
    busy = (429, {"error": {"message": "slow down"}})
    endpoint.plan["/v1/chat/completions"] = [busy, (200, CHAT)]
    assert Remote("m", endpoint.url).converse(ASKED).text == "hello; there"


class Weather(TextEnv):
    """One question whose answer only a tool knows."""

    name, instructions = "weather", "Be brief.\n\n"

    def tasks(self, split, n, seed):
        return [Task("oslo", ASKED.text, split=split)][:n]

    def reset(self, task, seed=0):
        self.said = []
        return Turn(task.text, chat=ASKED)

    def step(self, action):
        self.said.append(action)
        if action.startswith("["):
            return Turn("Result: 3 degrees", follows=True)
        return Turn("", reward=1.0, success="3" in action, terminated=True)


def play_at(env, engine):
    player = play(env, env.tasks("train", 1, 0)[0], AttemptSettings(Text()), seed=0)
    request = next(player)
    while True:
        try:
            (answer,) = engine([request])
            request = player.send(answer)
        except StopIteration as done:
            return done.value


def test_an_attempt_goes_on_in_messages():
    def answer(body):
        last = body["messages"][-1]
        return f"It has {last['content']}" if last["role"] == "tool" else [Call("get_weather", {"city": "Oslo"})]

    env = Weather()
    with ChatServer(answer) as chat:
        episode = play_at(env, Served(Remote("m", chat.base_url)))
    assert episode.success and env.said == [
        '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        "It has Result: 3 degrees",
    ]
    assert [n.text for n in episode.nodes if n.kind == "action"] == env.said, "recorded as it was said"
    first, second = (request["messages"] for request in chat.requests)
    assert [m["role"] for m in first] == ["system", "user"] and first[0]["content"] == "Be brief."
    assert [m["role"] for m in second] == ["system", "user", "assistant", "tool"]
    assert second[2]["tool_calls"][0]["id"] == second[3]["tool_call_id"]


def test_a_model_that_reads_text_gets_the_same_as_text():
    prompts = []

    def answer(prompt):
        prompts.append(prompt)
        return "3 degrees"

    assert play_at(Weather(), Served(Scripted(answer))).success
    assert "get_weather" in prompts[0] and "What is the weather in Oslo?" in prompts[0]


def test_a_completion_of_text_has_no_calls(endpoint):  # noqa: F811
    endpoint.plan["/v1/chat/completions"] = [(200, CHAT)]
    done = Remote("m", endpoint.url, chat=True).generate("hi")
    assert isinstance(done, Completion) and done.calls == ()


def test_what_is_no_conversation_is_never_sent():
    with pytest.raises(BadInput, match="unknown role"):
        Remote("m", "http://127.0.0.1:9/v1").converse(Conversation(({"role": "robot", "content": "x"},)))


@pytest.mark.model
def test_llama_cpp_s_server_answers_messages(server):  # noqa: F811
    said = Conversation(({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}))
    done = Remote("smollm2", server).converse(said, max_tokens=8)
    assert done.text and not done.calls and len(done.token_ids) == len(done.logp) <= 8
