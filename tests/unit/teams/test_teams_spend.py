"""Tokens that clients take: of the real packages where they are installed, against a server on loopback."""

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

import evolvent
from evolvent.core.errors import BadInput
from evolvent.teams.spend import metered
from evolvent.testing.chat import ChatServer

ASKED = {"model": "m", "messages": [{"role": "user", "content": "one two three"}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
ONE = (1, 4)  # calls, tokens: three words, and one


def read(meter):
    return meter.calls, meter.known


# ------------------------------------------------------------------------------------------------ OpenAI
@pytest.fixture(scope="module")
def server():
    with ChatServer(lambda request: "yes it is") as server:
        yield server


@pytest.fixture
def openai(server):
    openai = pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    return evolvent.spend(openai.OpenAI(base_url=server.base_url, api_key="x"))


def test_openai(openai):
    with metered() as meter:
        openai.chat.completions.create(**ASKED)
        openai.with_options(timeout=9).chat.completions.create(**ASKED)  # a copy of the client
        openai.models.list()  # no call of a model
    assert read(meter) == (2, 8) and (meter.prompt, meter.completion, meter.split) == (6, 2, True)
    with metered() as meter:
        answer = openai.chat.completions.with_raw_response.create(**ASKED)
        assert answer.parse().choices[0].message.content == "yes it is"
    assert read(meter) == ONE


def test_openai_streams(openai):
    with metered() as meter:
        pieces = list(openai.chat.completions.create(**ASKED, **USAGE))
        assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == "yes it is"
    assert read(meter) == ONE
    with metered() as meter:
        list(openai.chat.completions.with_raw_response.create(**ASKED, **USAGE).parse())
    assert read(meter) == ONE
    for kind, stop in (({"stream": True}, 99), (USAGE, 1)):  # without a usage; left before its end
        with metered() as meter:
            for i, _ in enumerate(openai.chat.completions.create(**ASKED, **kind)):
                if i == stop:
                    break
        assert read(meter) == (1, None)


def test_openai_asynchronous_runs_do_not_mix(openai, server):
    package = pytest.importorskip("openai")
    client = package.AsyncOpenAI(base_url=server.base_url, api_key="x")
    evolvent.spend(client)

    async def one(n):
        with metered() as meter:
            for _ in range(n):
                await client.chat.completions.create(**ASKED)
            async for _ in await client.chat.completions.create(**ASKED, **USAGE):
                await asyncio.sleep(0)
        return read(meter)

    async def together():
        return await asyncio.gather(*map(one, range(3)))

    assert asyncio.run(together()) == [(1, 4), (2, 8), (3, 12)]


def test_threads_without_the_context(openai):
    def elsewhere():
        thread = threading.Thread(target=openai.chat.completions.create, kwargs=ASKED)
        thread.start()
        thread.join()

    with metered() as only:
        elsewhere()
    assert read(only) == ONE
    with metered() as one, metered() as other:
        elsewhere()
    assert one.known is None and other.known is None and one.stray
    elsewhere()  # outside of any run: nothing happens


# ------------------------------------------------------------------------------------------------ Anthropic
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
TOOK = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 4}


@contextmanager
def messages():
    """A server that answers as Anthropic's Messages do."""
    start = {**MESSAGE, "content": [], "usage": {**TOOK, "output_tokens": 1}}
    events = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            whole = {**MESSAGE, "content": [{"type": "text", "text": "yes"}], "usage": TOOK}
            stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
            body = (stream if asked.get("stream") else json.dumps(whole)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()


def test_anthropic():
    anthropic = pytest.importorskip("anthropic", reason="the package anthropic is not installed")
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    with messages() as url:
        client = evolvent.spend(anthropic.Anthropic(base_url=url, api_key="x"))
        with metered() as meter:
            client.messages.create(**asked)
            for _ in client.messages.create(**asked, stream=True):
                pass
            with client.messages.stream(**asked) as stream:
                assert "".join(stream.text_stream) == "yes"
        assert read(meter) == (3, 3 * 18) and (meter.prompt, meter.cached, meter.completion) == (42, 21, 12)
        evolvent.spend()

        async def one():
            other = anthropic.AsyncAnthropic(base_url=url, api_key="x")
            await other.messages.create(**asked)
            async with other.messages.stream(**asked) as stream:
                return await stream.get_final_text()

        with metered() as meter:
            assert asyncio.run(one()) == "yes"
        assert read(meter) == (2, 36)


# ------------------------------------------------------------------------------------------------ what any client gives
def client_of(result):
    """A client of the package openai that gives this, made of nothing."""
    base = type("Base", (), {"__module__": "openai.fake", "request": lambda self, **_: result})
    return evolvent.spend(type("Client", (base,), {"__module__": "openai.fake"})())


@pytest.mark.parametrize(
    ("usage", "prompt", "cached", "completion"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, 9, 4, 2),
        ({"prompt_tokens": 9}, 9, 0, 0),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}, 9, 4, 2),
        ({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3}, 8, 3, 2),
    ],
)
def test_the_usages_of_three_interfaces(usage, prompt, cached, completion):
    client = client_of(SimpleNamespace(usage=usage))
    with metered() as meter:
        client.request()
    assert (meter.prompt, meter.cached, meter.completion) == (prompt, cached, completion)
    assert read(meter) == (1, prompt + completion)


def test_no_usage_is_unknown_not_zero():
    client = client_of(SimpleNamespace(usage=None))
    with metered() as meter:
        client.request()
    assert read(meter) == (1, None)


def test_what_is_told_by_hand():
    with metered() as meter:
        evolvent.spent(30)
        evolvent.spent(12, calls=2)
    assert read(meter) == (3, 42) and not meter.split
    with metered() as meter:
        evolvent.spent(None)
    assert read(meter) == (1, None)
    evolvent.spent(5)  # outside of a run: nothing
    for wrong in ((-1, 1), (1, -1), (float("nan"), 1)):
        with pytest.raises(BadInput, match="not what a call takes"):
            evolvent.spent(*wrong)


def test_a_client_of_another_package_is_refused():
    with pytest.raises(BadInput, match="nothing to count"):
        evolvent.spend(SimpleNamespace(request=print))
