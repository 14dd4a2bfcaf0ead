"""The chat server of evolvent.testing, asked by the real client."""

import json
import threading

import pytest

from evolvent.testing.chat import Call, ChatServer, said

openai = pytest.importorskip("openai", reason="the extra 'openai' is not installed")


def client(server, **settings):
    return openai.OpenAI(base_url=server.base_url, api_key="none", **settings)


def ask(server, *texts, **settings):
    messages = [{"role": "user", "content": text} for text in texts]
    return client(server).chat.completions.create(model="m", messages=messages, **settings)


def test_a_text():
    with ChatServer(lambda request: f"you said: {said(request['messages'][-1])}") as server:
        done = ask(server, "good morning", "again")
        assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("you said: again", "stop")
        assert done.model == "m" and done.usage.prompt_tokens == 3
        assert [m["content"] for m in server.requests[0]["messages"]] == ["good morning", "again"]
        assert [model.id for model in client(server).models.list()] == ["scripted"]


def test_tool_calls():
    calls = [Call("count", {"where": "a = 'ä'"}), Call("stop", {})]
    with ChatServer(lambda request: calls) as server:
        (choice,) = ask(server, "go").choices
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        data = [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls]
        assert data == [("count", {"where": "a = 'ä'"}), ("stop", {})]
        assert len({c.id for c in choice.message.tool_calls}) == 2


@pytest.mark.parametrize("answer", ["one two  three", [Call("count", {"where": "x > 1"}), Call("other", {"n": 2})]])
def test_a_stream_says_the_same(answer):
    with ChatServer(lambda request: answer) as server:
        plain = ask(server, "go").choices[0]
        asked = {
            "model": "m",
            "messages": [{"role": "user", "content": "go"}],
            "stream_options": {"include_usage": True},
        }
        with client(server).chat.completions.stream(**asked) as stream:
            pieces = list(stream)
            done = stream.get_final_completion()
    streamed = done.choices[0]
    assert streamed.message.content == plain.message.content and streamed.finish_reason == plain.finish_reason
    names = [[(c.function.name, c.function.arguments) for c in m.message.tool_calls or ()] for m in (plain, streamed)]
    assert names[0] == names[1] and len(names[0]) == (0 if isinstance(answer, str) else 2)
    assert done.usage.total_tokens == 2 and len(pieces) > 4, "it came in pieces"


def test_parts_are_read():
    assert (
        said({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]})
        == "a\n\nb"
    )
    assert said({"content": None}) == said({}) == ""


def test_what_the_script_raises_reaches_the_client_once():
    with ChatServer(lambda request: {}["nothing for this prompt"]) as server:
        with pytest.raises(openai.InternalServerError, match="KeyError: 'nothing for this prompt'"):
            ask(server, "go")
        with pytest.raises(openai.BadRequestError, match="no messages"):
            client(server).chat.completions.create(model="m", messages=[])
        with pytest.raises(openai.NotFoundError, match="this server knows"):
            client(server).embeddings.create(model="m", input="text")
        assert len(server.requests) == 1, "neither tried again nor recorded"


def test_requests_overlap():
    both = threading.Barrier(2, timeout=300)

    def answer(request):
        both.wait()
        return said(request["messages"][0])

    with ChatServer(answer) as server:
        heard = {}
        threads = [
            threading.Thread(target=lambda i=i: heard.update({i: ask(server, str(i)).choices[0].message.content}))
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert heard == {0: "0", 1: "1"}
