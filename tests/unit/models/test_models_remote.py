"""The remote model against a real llama.cpp server on loopback, and against an endpoint that misbehaves."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from evolvent import models
from evolvent.core.errors import BadInput, EvolventError, ModelError
from evolvent.models import weights
from evolvent.models.served.remote import Remote
from evolvent.testing.model import PROMPT, check_model

pytest.importorskip("openai", reason="the extra 'openai' is not installed")


@pytest.fixture(scope="module")
def server():
    """llama.cpp's own HTTP server with SmolLM2-135M; the address of its API."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights.fetch("smollm2-135m"))
    params.n_ctx, params.n_parallel, params.warmup = 1024, 1, False
    params.cpuparams.n_threads = 1
    running = xllamacpp.Server(params)
    yield f"{running.listening_address}/v1"
    del running


@pytest.mark.model
def test_conformance_over_the_wire(server):
    remote = models.load(f"remote:smollm2@{server}")
    check_model(remote, scores=False, samples=False)
    assert remote.counters.requests >= 3 and remote.counters.prompt > 0 and remote.counters.sampled > 0


@pytest.mark.model
def test_tokens_and_log_probabilities_are_the_local_model_s(server):
    remote, local = Remote("smollm2", server), models.load("smollm2-135m", n_ctx=1024)
    there, here = remote.generate(PROMPT, max_tokens=6), local.generate(PROMPT, max_tokens=6)
    local.close()
    assert there.text == here.text and there.finish == here.finish == "length"
    assert there.token_ids.tolist() == here.token_ids.tolist()
    assert np.abs(there.logp - here.logp).max() < 0.2, "the same weights, other kernels"
    assert there.prompt_tokens == here.prompt_tokens


@pytest.mark.model
def test_constraints_reach_the_server(server):
    remote = Remote("smollm2", server)
    assert remote.generate("Yes?", grammar='root ::= " yes" | " no"').text in (" yes", " no")
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    assert isinstance(json.loads(remote.generate("JSON:", json_schema=schema, max_tokens=40).text)["a"], int)


@pytest.mark.model
def test_chat(server):
    done = Remote("smollm2", server, chat=True).generate("Say hello.", max_tokens=8)
    assert done.text and len(done.token_ids) == len(done.logp) <= 8


class Endpoint(BaseHTTPRequestHandler):
    """Answers as the test says: a list of (status, body) for each path, the last one again and again."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
        self.server.asked.append((self.path, asked, self.headers.get("Authorization")))
        time.sleep(self.server.delay_s)
        plan = self.server.plan.get(self.path, [(404, {"error": {"message": "no such path"}})])
        status, body = plan.pop(0) if len(plan) > 1 else plan[0]
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "text/html" if raw.startswith(b"<") else "application/json"
        self.send_response(status)
        for key, value in (("Content-Type", kind), ("Content-Length", len(raw)), ("Retry-After-Ms", 1)):
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    httpd.plan, httpd.asked, httpd.delay_s = {}, [], 0.0
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    httpd.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    yield httpd
    httpd.shutdown()
    thread.join()


USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}
CHAT = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "usage": USAGE,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello; there"}}],
}
TEXT = {
    "id": "x",
    "object": "text_completion",
    "created": 0,
    "model": "m",
    "usage": USAGE,
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "text": " a b",
            "token_ids": [5, 6],
            "logprobs": {"tokens": [" a", " b"], "token_logprobs": [-0.5, -0.25]},
        }
    ],
}


def test_an_endpoint_without_completions_is_asked_by_chat_from_then_on(endpoint):
    endpoint.plan["/v1/chat/completions"] = [(200, CHAT)]
    remote = Remote("m", endpoint.url)
    first = remote.generate("hi", stop=[";"])
    remote.generate("hi")
    assert first.text == "hello" and (first.prompt_tokens, first.cached_tokens) == (7, 5)
    assert len(first.token_ids) == len(first.logp) == 0 and first.sampled == 2
    paths = [p for p, _, _ in endpoint.asked]
    assert paths == ["/v1/completions", "/v1/chat/completions", "/v1/chat/completions"]


def test_rate_limits_and_server_errors_are_tried_again(endpoint):
    busy, broken = (429, {"error": {"message": "slow down"}}), (500, {"error": {"message": "oops"}})
    endpoint.plan["/v1/completions"] = [busy, broken, (200, TEXT)]
    done = Remote("m", endpoint.url).generate("hi")
    assert done.text == " a b" and done.token_ids.tolist() == [5, 6] and done.logp.tolist() == [-0.5, -0.25]
    assert done.sampled == 0  # its tokens are there
    assert len(endpoint.asked) == 3


NO_COMPLETIONS = [
    {"choices": []},
    {"choices": None},
    {"ok": 1},
    {"error": {"message": "model overloaded"}},
    b"<html>log in</html>",
    b'{"choices": [{"te',
    b" <html>",
    [],
    "hello",
    {**TEXT, "choices": [{**TEXT["choices"][0], "text": ["a"]}]},
    {**TEXT, "choices": "abc"},
    {**TEXT, "choices": [7]},
]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("body", NO_COMPLETIONS, ids=str)
def test_an_answer_that_is_no_completion_is_reported(endpoint, body, chat):
    endpoint.plan["/v1/completions"] = endpoint.plan["/v1/chat/completions"] = [(200, body)]
    with pytest.raises(ModelError, match=r"(?s)with no completion.*127.0.0.1.*ends in /v1"):
        Remote("m", endpoint.url, chat=chat or None).generate("hi")


def test_odd_usage_and_endings_do_not_matter(endpoint):
    (choice,) = TEXT["choices"]
    odd = {**TEXT, "usage": {"prompt_tokens": None}, "choices": [{**choice, "finish_reason": "abort", "text": None}]}
    endpoint.plan["/v1/completions"] = [(200, odd)]
    done = Remote("m", endpoint.url).generate("hi")
    assert (done.text, done.finish, done.prompt_tokens) == ("", "stop", 0)


def test_the_key_is_sent_and_never_shown(endpoint, monkeypatch):
    monkeypatch.setenv("EVOLVENT_API_KEY", "sk-very-secret")
    endpoint.plan["/v1/completions"] = [(401, {"error": {"message": "bad key sk-very-secret"}})]
    remote = Remote("m", endpoint.url)
    with pytest.raises(ModelError, match="EVOLVENT_API_KEY") as error:
        remote.generate("hi")
    assert endpoint.asked[0][2] == "Bearer sk-very-secret"
    shown = f"{error.value} {error.value.__cause__} {vars(remote)} {remote.identity}"
    assert "sk-very-secret" not in shown


def test_a_server_that_is_not_there():
    with pytest.raises(ModelError, match="cannot be reached"):
        Remote("m", "http://127.0.0.1:9/v1", retries=0, timeout_s=2).generate("hi")


def test_a_time_out_is_an_error_not_a_wait(endpoint):
    endpoint.delay_s = 0.5
    with pytest.raises(ModelError, match=r"cannot be reached[\s\S]*timed out"):
        Remote("m", endpoint.url, retries=0, timeout_s=0.1).generate("hi")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://user:secret@host/v1"])
def test_addresses_that_are_none(url):
    with pytest.raises(BadInput, match="not the address") as error:
        Remote("m", url)
    assert "secret" not in str(error.value)


def test_scoring_is_refused_with_the_reason():
    with pytest.raises(ModelError, match="cannot score"):
        Remote("m", "http://127.0.0.1:9/v1").score("a", ["b"])


def test_settings_are_checked_before_anything_is_sent(endpoint):
    with pytest.raises(EvolventError, match="top_p"):
        Remote("m", endpoint.url).generate("hi", top_p=0.0)
    assert endpoint.asked == []


@pytest.mark.parametrize(
    ("status", "says", "asked"),
    [(403, "EVOLVENT_API_KEY", 1), (422, "422", 1), (429, "try later, or raise retries", 3), (503, "503", 3)],
)
def test_what_keeps_failing_is_reported_with_what_to_do(endpoint, status, says, asked):
    endpoint.plan["/v1/completions"] = [(status, {"error": {"message": "no"}})]
    with pytest.raises(ModelError, match=f"refused the request[\\s\\S]*{says}") as error:
        Remote("m", endpoint.url, retries=2).generate("hi")
    assert f"m at {endpoint.url}" in str(error.value)
    assert len(endpoint.asked) == asked, "only what may pass is tried again"


def test_a_chat_that_refuses_log_probabilities_is_asked_without(endpoint):
    refused = (400, {"error": {"message": "logprobs is not supported"}})
    endpoint.plan["/v1/chat/completions"] = [refused, (200, CHAT)]
    assert Remote("m", endpoint.url, chat=True).generate("hi").text == "hello; there"
    sent = [body.get("logprobs") for _, body, _ in endpoint.asked]
    assert sent == [True, None]
    endpoint.plan["/v1/chat/completions"] = [(400, {"error": {"message": "no such model"}})]
    with pytest.raises(ModelError, match="no such model"):
        Remote("m", endpoint.url, chat=True).generate("hi")


def test_tokens_without_their_log_probabilities_are_no_record(endpoint):
    for lacking in (
        {"token_ids": None},
        {"token_ids": [5]},
        {"logprobs": None},
        {"logprobs": {"tokens": [" a", " b"], "token_logprobs": [-0.5, None]}},
    ):
        endpoint.plan["/v1/completions"] = [(200, TEXT | {"choices": [TEXT["choices"][0] | lacking]})]
        done = Remote("m", endpoint.url).generate("hi")
        assert done.text == " a b" and len(done.token_ids) == len(done.logp) == 0, lacking


@pytest.mark.parametrize(
    ("server", "grammar", "schema"),
    [
        ("llamacpp", {"grammar": "root"}, {"json_schema": {"const": 1}}),
        ("vllm", {"structured_outputs": {"grammar": "root"}}, {"structured_outputs": {"json": {"const": 1}}}),
        (
            "acme",
            None,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": {"const": 1}, "strict": True},
                }
            },
        ),
    ],
)
def test_a_constraint_is_said_as_the_server_understands_it(endpoint, server, grammar, schema):
    served = [{"id": "m", "object": "model", "created": 0, "owned_by": server}]
    endpoint.plan = {
        "/v1/models": [(200, {"object": "list", "data": served})],
        "/v1/completions": [(200, TEXT)],
        "/v1/chat/completions": [(200, CHAT)],
    }
    remote = Remote("m", endpoint.url)
    with pytest.raises(BadInput, match="two constraints"):
        remote.generate("hi", grammar="root", json_schema={})
    remote.generate("hi", json_schema={"const": 1})
    assert schema.items() <= endpoint.asked[-1][1].items()
    if grammar is None:
        with pytest.raises(ModelError, match="takes no grammar"):
            remote.generate("hi", grammar="root")
    else:
        remote.generate("hi", grammar="root")
        assert grammar.items() <= endpoint.asked[-1][1].items()
    assert [path for path, _, _ in endpoint.asked].count("/v1/models") == 1, "asked once"
