"""`evolvent serve` as a user has it: a process, a port, and clients that are right, wrong, slow, foreign or hostile."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving import COMMAND, bearer, served

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
pytest.importorskip("starlette", reason="the extra 'server' is not installed")

SECRET = "sk-live0123456789abcdefghijkl"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / ".") as one:
        yield one


@pytest.fixture
def ask(server):
    with httpx.Client(base_url=server.address, headers=bearer(server.token), timeout=30) as client:
        yield client


def said(answer, status=200):
    assert answer.status_code == status, answer.text
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])
    assert float(answer.headers["server-timing"].removeprefix("total;dur=")) >= 0
    return answer.json() if answer.content else None


def problem(answer, status, code):
    assert answer.headers["content-type"] == "application/problem+json"
    found = said(answer, status)
    assert (found["status"], found["code"]) == (status, code) and found["title"]
    assert found["request_id"] == answer.headers["x-request-id"]
    return found


# ------------------------------------------------------------------------------------------------------ the operations
def test_from_a_lesson_to_what_it_earned(ask):
    kept = said(ask.post("/v1/memories", json={"key": "reset the router", "body": "hold the button", "kind": "tip"}))
    recalled = said(ask.post("/v1/recall", json={"task": "reset the router", "k": 1, "kinds": ["tip"]}))
    (note,) = recalled["notes"]
    assert (note["id"], note["body"], recalled["trust"]) == (kept["id"], "hold the button", "data")
    assert recalled["fenced"].splitlines()[0] == f'<evolvent-notes receipt="{recalled["receipt"]}">'
    assert ask.post(f"/v1/receipts/{recalled['receipt']}/shown", json={"ids": [kept["id"]]}).status_code == 204
    told = {"receipt": recalled["receipt"], "reward": False, "source": "tests", "idempotency_key": "job-1"}
    first = said(ask.post("/v1/outcomes", json=told))
    assert [change["id"] for change in first["changes"]] == [kept["id"]]
    assert said(ask.post("/v1/outcomes", json=told)) == first  # a retry
    again = said(ask.post("/v1/recall", json={"task": "reset the router"}))["receipt"]
    assert said(ask.post("/v1/outcomes", json=told | {"receipt": again}))["changes"] == first["changes"]
    item = said(ask.get(f"/v1/memories/{kept['id']}"))
    assert item["n"] == 1 and item["value"] < item["start"] and item["source"] == "local"
    assert "tests" in said(ask.get(f"/v1/explain/{kept['id']}"))["text"]
    assert said(ask.get(f"/v1/explain/{recalled['receipt']}"))["data"]["outcomes"][0]["reward"] == 0.0
    assert said(ask.get("/v1/lift"))["verdict"] == "too early"
    made = said(ask.post("/v1/memories", json={"key": "router", "body": "call them", "receipt": recalled["receipt"]}))
    assert said(ask.get(f"/v1/memories/{made['id']}"))["parents"] == [kept["id"]]
    page = said(ask.get("/v1/memories", params={"limit": 1, "status": "all", "order": "newest"}))
    assert len(page["memories"]) == 1 and page["after"] == page["memories"][0]["id"]
    rest = said(
        ask.get("/v1/memories", params={"limit": 200, "status": "all", "order": "newest", "after": page["after"]})
    )
    assert kept["id"] in [one["id"] for one in rest["memories"]] and rest["after"] is None


def test_an_outcome_that_tells_otherwise_is_a_conflict(ask):
    receipt = said(ask.post("/v1/recall", json={"task": "anything"}))["receipt"]
    said(ask.post("/v1/outcomes", json={"receipt": receipt, "reward": 1}))
    told = problem(ask.post("/v1/outcomes", json={"receipt": receipt, "reward": 0}), 409, "settled_already")
    assert "reward" in told["got"]


def test_what_comes_back_in_a_fence_is_not_kept(ask):
    said(ask.post("/v1/memories", json={"key": "old lesson", "body": "an old note"}))
    block = said(ask.post("/v1/recall", json={"task": "old lesson"}))["fenced"]
    made = said(ask.post("/v1/memories", json={"key": f"new lesson {block}", "body": f"{block}\nlearned"}))["id"]
    item = said(ask.get(f"/v1/memories/{made}"))
    assert (item["key"], item["body"]) == ("new lesson ", "\nlearned")
    again = said(ask.post("/v1/recall", json={"task": f"{block}old lesson"}))["receipt"]
    assert said(ask.get(f"/v1/explain/{again}"))["data"]["query"] == "old lesson"


def test_notes_without_room_do_not_count_as_shown(ask):
    for i in range(4):
        said(ask.post("/v1/memories", json={"key": "a very long matter", "body": f"{i} " + "long " * 2000}))
    recalled = said(ask.post("/v1/recall", json={"task": "a very long matter", "k": 4}))
    assert len(recalled["notes"]) == 3 and all(note["cut"] for note in recalled["notes"])
    pool = said(ask.get(f"/v1/explain/{recalled['receipt']}"))["data"]["pool"]
    assert {one["id"] for one in pool if one["shown"]} == {note["id"] for note in recalled["notes"]}


def test_the_document_is_openapi_and_names_what_is_there(ask):
    document = said(httpx.get(f"{ask.base_url}/v1/openapi.json"))
    assert document["openapi"].startswith("3.1") and set(document["paths"]) == {
        "/v1/recall",
        "/v1/receipts/{receipt}/shown",
        "/v1/outcomes",
        "/v1/evidence",
        "/v1/attempts",
        "/v1/attempts/{id}",
        "/v1/memories",
        "/v1/memories/{id}",
        "/v1/explain/{id}",
        "/v1/lift",
    }
    names = []
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            names.append(one["operationId"])
            in_path = {p["name"] for p in one["parameters"] if p["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path)) and all(p["schema"] for p in one["parameters"])
            assert ("requestBody" in one) == (method == "post") and {"401", "422", "503"} <= set(one["responses"])
    assert len(set(names)) == len(names)
    jsonschema = pytest.importorskip("jsonschema")
    for schema in [
        b["content"]["application/json"]["schema"]
        for m in document["paths"].values()
        for o in m.values()
        if (b := o.get("requestBody"))
    ]:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_schemathesis_finds_no_answer_that_the_document_does_not_name(server):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (a tool of developers)")
    from hypothesis import HealthCheck, given, settings
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # a filter's words are no schema's

    schema = schemathesis.openapi.from_url(f"{server.address}/v1/openapi.json")
    for result in schema.get_all_operations():

        @given(case=result.ok().as_strategy())
        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def check(case):
            case.call_and_validate(headers=bearer(server.token), excluded_checks=[positive_data_acceptance])

        check()


# --------------------------------------------------------------------------------------------------------- problems
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"[]", 400, "malformed"),
        (b'{"task": NaN}', 400, "malformed"),
        (b'{"task": "x", "k": 1e999}', 400, "malformed"),
        (b'{"task": "\xff"}', 400, "malformed"),
        (b"[" * 100_000, 400, "malformed"),
        (b'{"task": "' + b"x" * 300_000 + b'"}', 413, "too_large"),
        (b"{}", 422, "missing"),
        (b'{"task": 5}', 422, "wrong_type"),
        (b'{"task": ""}', 422, "out_of_range"),
        (b'{"task": "  "}', 422, "empty_text"),
        (b'{"task": "x", "tusk": 1}', 422, "unknown_option"),
        (b'{"task": "x", "k": -1}', 422, "out_of_range"),
        (b'{"task": "x", "k": true}', 422, "wrong_type"),
        (b'{"task": "x", "k": 1.5}', 422, "wrong_type"),
        (b'{"task": "x", "filter": {"a": {"~": 1}}}', 422, "bad_filter"),
        (b'{"task": "x", "kinds": [1]}', 422, "wrong_type"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(ask, body, status, code):
    problem(ask.post("/v1/recall", content=body, headers={"content-type": "application/json"}), status, code)


def test_the_problem_says_what_was_got_expected_and_where(ask):
    found = problem(ask.post("/v1/recall", json={"task": "x", "kinds": ["a", 7]}), 422, "wrong_type")
    assert (found["got"], found["expected"], found["where"]) == (7, "string", "kinds[1]")


def test_other_refusals(ask):
    problem(ask.get("/v1/nothing"), 404, "not_found")
    assert problem(ask.delete("/v1/recall"), 405, "no_such_method") and ask.delete("/v1/recall").headers["allow"]
    problem(ask.post("/v1/recall", content=b"task=x"), 415, "not_json")
    problem(ask.get("/v1/memories/m999"), 404, "unknown_memory")
    problem(ask.get("/v1/memories/r1"), 404, "unknown_memory")
    problem(ask.get("/v1/explain/r1"), 404, "unknown_receipt")
    problem(ask.post("/v1/outcomes", json={"receipt": "r1", "reward": 1}), 404, "unknown_receipt")
    problem(ask.get("/v1/memories?limit=0"), 422, "out_of_range")
    problem(ask.get("/v1/memories?limit=1&limit=2"), 422, "unknown_option")
    problem(ask.get("/v1/lift?by=moon"), 422, "unknown_option")
    receipt = said(ask.post("/v1/recall", json={"task": "x"}))["receipt"]
    problem(ask.post("/v1/outcomes", json={"receipt": receipt, "reward": 7}), 422, "out_of_range")
    problem(ask.post("/v1/outcomes", json={"receipt": receipt, "reward": None}), 422, "out_of_range")
    problem(ask.post(f"/v1/receipts/{receipt}/shown", json={"ids": ["m999"]}), 422, "not_handed_out")


def test_health_is_three_numbers_without_a_token(server):
    found = said(httpx.get(f"{server.address}/healthz"))
    assert found["status"] == "ok" and set(found) == {"status", "waiting", "wait_ms", "refused"}


# ---------------------------------------------------------------------------------------------- tokens and tenants
def test_without_a_token_nothing(server):
    for headers in (
        {},
        bearer("ev1_00000000_" + "x" * 43),
        bearer(server.token + "x"),
        {"Authorization": "Basic eDp5"},
    ):
        answer = httpx.get(f"{server.address}/v1/memories", headers=headers)
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_may_what_it_says_and_no_more(server, ask):
    ci = server.new("ci", "--scopes", "default", "team", "--may", "outcome", "--sources", "tests")
    receipt = said(ask.post("/v1/recall", json={"task": "x"}))["receipt"]
    with httpx.Client(base_url=server.address, headers=bearer(ci)) as other:
        problem(other.post("/v1/recall", json={"task": "x"}), 403, "forbidden")
        told = {"receipt": receipt, "reward": True}
        problem(other.post("/v1/outcomes", json=told), 403, "forbidden")  # which scope?
        problem(other.post("/v1/outcomes", json=told, headers={"X-Evolvent-Scope": "other"}), 403, "forbidden")
        problem(other.post("/v1/outcomes", json=told, headers={"X-Evolvent-Scope": "team"}), 404, "unknown_receipt")
        other.headers["X-Evolvent-Scope"] = "default"
        problem(other.post("/v1/outcomes", json=told | {"source": "human"}), 403, "forbidden")
        assert said(other.post("/v1/outcomes", json=told))
    assert said(ask.get(f"/v1/explain/{receipt}"))["data"]["outcomes"][0]["source"] == "tests"
    subprocess.run([*COMMAND, "tokens", "revoke", str(server.store), "ci"], check=True)
    problem(httpx.get(f"{server.address}/v1/memories", headers=bearer(ci)), 401, "unauthorized")


def canaries(server, tenants, requests, seed=0):
    """How often a tenant read what another one wrote, in requests that also try ids and receipts of others."""
    tokens = [server.new(f"tenant-{i}-{tenants}", "--scopes", f"tenant-{i}") for i in range(tenants)]
    receipts, ids, leaks = [{} for _ in tokens], [[] for _ in tokens], []
    with httpx.Client(base_url=server.address, timeout=60) as client:
        for i, token in enumerate(tokens):
            for j in range(3):
                note = {"key": f"the shared question {j}", "body": f"canary-{i}-{j}"}
                ids[i].append(said(client.post("/v1/memories", json=note, headers=bearer(token)))["id"])

        def one(number):
            draw = random.Random(f"{seed}/{number}")
            i, j = draw.randrange(tenants), draw.randrange(tenants)
            headers, verb = bearer(tokens[i]), draw.randrange(6)
            if verb < 3:
                answer = client.post("/v1/recall", json={"task": f"the shared question {verb}"}, headers=headers)
                receipts[i][number] = said(answer)["receipt"]
                assert f"canary-{i}-" in answer.text
            elif verb == 3:
                answer = client.get(f"/v1/memories/{draw.choice(ids[j])}", headers=headers)
            elif verb == 4:
                given = draw.choice([*receipts[j].copy().values(), draw.choice(ids[j])])
                answer = client.get(f"/v1/explain/{given}", headers=headers)
            else:
                answer = client.get("/v1/memories", headers=headers | {"X-Evolvent-Scope": f"tenant-{i}"})
            if set(re.findall(r"canary-(\d+)-", answer.text)) - {str(i)}:
                leaks.append(answer.text)
            return answer.status_code

        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(one, range(requests)))
    return leaks, codes


def test_no_tenant_reads_what_another_one_wrote(server):
    leaks, codes = canaries(server, tenants=5, requests=300)
    assert leaks == [] and set(codes) == {200, 404}


# ----------------------------------------------------------------------------------------------- who else connects
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::ffff", ""])
def test_a_name_that_was_bent_to_this_machine_gets_nothing(server, host):
    problem(httpx.get(f"{server.address}/healthz", headers={"Host": host}), 421, "other_host")


def test_a_page_of_another_origin_gets_nothing(server):
    headers = bearer(server.token)
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        answer = httpx.get(f"{server.address}/v1/memories", headers=headers | {"Origin": origin})
        problem(answer, 403, "forbidden")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert httpx.get(f"{server.address}/v1/memories", headers=headers | {"Origin": server.address}).status_code == 200


def test_a_header_or_body_that_is_never_finished_ends_the_connection(tmp_path):
    script = (
        "from evolvent.serve import http; from evolvent.cli import main; import sys; http.HEADER_S = 0.3; "
        "from evolvent.serve import app; app.BODY_S = 0.3; main(['serve', *sys.argv[1:]])"
    )
    with served(tmp_path) as one:
        one.stop()
        one.command[1:4] = ["-c", script]
        one.start()
        host, port = one.address.removeprefix("http://").split(":")
        ok = f"GET /healthz HTTP/1.1\r\nHost: {one.address.removeprefix('http://')}\r\n\r\n".encode()
        for begins in (b"", b"GET /healthz HTTP/1.1\r\nHost:", ok + b"GET /heal"):
            with socket.create_connection((host, int(port)), timeout=60) as half:
                half.sendall(begins)
                heard = b""
                while part := half.recv(65536):  # ends where the other side closes
                    heard += part
                assert heard.count(b'"status"') == begins.count(ok)
        head = (
            f"POST /v1/recall HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {one.token}\r\n"
            'Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"task":'
        )
        with socket.create_connection((host, int(port)), timeout=60) as half:
            half.sendall(head.encode())
            heard = b""
            while part := half.recv(65536):
                heard += part
            assert heard.startswith(b"HTTP/1.1 408") and b"too_slow" in heard
        with socket.create_connection((host, int(port)), timeout=60) as whole:
            for _ in range(2):
                whole.sendall(ok)
                heard = b""
                while b"}" not in heard:
                    heard += whole.recv(65536)
                assert heard.startswith(b"HTTP/1.1 200 OK")


# ------------------------------------------------------------------------------------------------ secrets, the process
def test_secrets_stand_in_no_file(tmp_path):
    with served(tmp_path / ".") as one:
        with httpx.Client(base_url=one.address, headers=bearer(one.token)) as client:
            note = {"key": f"log in with {SECRET}", "body": f"password='{SECRET}'", "metadata": {"token": SECRET}}
            said(client.post("/v1/memories", json=note))
            receipt = said(client.post("/v1/recall", json={"task": f"log in with api_key={SECRET}"}))["receipt"]
            said(client.post("/v1/outcomes", json={"receipt": receipt, "reward": 1, "action": f"curl -H {SECRET}"}))
            client.post("/v1/recall", json={"task": SECRET, "tusk": SECRET})
            client.get(f"/v1/{SECRET}", headers=bearer(SECRET))
            assert SECRET not in client.get("/v1/memories").text
        while_running = b"".join(path.read_bytes() for path in tmp_path.parent.rglob("*") if path.is_file())
        token = one.token
        said_last = one.stop()
    files = [path for path in (*tmp_path.rglob("*"), one.log) if path.is_file()]
    every = while_running + b"".join(path.read_bytes() for path in files) + said_last.encode()
    assert b"[secret]" in every and len(files) >= 3
    for secret in (SECRET, token, token.split("_", 2)[2]):
        assert secret.encode() not in every


def test_a_signal_ends_it_well_and_what_was_said_is_there(tmp_path):
    with served(tmp_path) as one:
        with httpx.Client(base_url=one.address, headers=bearer(one.token)) as client:
            said(client.post("/v1/memories", json={"key": "a", "body": "b"}))
            assert "on disk" in one.stop(signal.SIGTERM) and one.process.returncode == 0
        assert (one.log.read_text(), one.token) == ("", one.token)
        first = one.token
        one.token = None
        one.start()
        assert one.token is None  # shown once
        assert len(said(httpx.get(f"{one.address}/v1/memories", headers=bearer(first)))["memories"]) == 1


def test_one_process_serves_a_store(server):
    port = server.address.rpartition(":")[2]  # the store is the reason, not the port
    command = [port if word == "0" else word for word in server.command]
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 2 and "served already" in second.stderr and server.address in second.stderr


def test_another_machine_needs_a_token_and_is_told_what_it_means(tmp_path):
    refused = subprocess.run(
        [*COMMAND, "serve", str(tmp_path / "a.db"), "--host", "0.0.0.0", "--no-auth"], capture_output=True, text=True
    )
    assert refused.returncode == 2 and "could do everything" in refused.stderr and not list(tmp_path.iterdir())
    with served(tmp_path, "--no-auth") as one:
        assert httpx.get(f"{one.address}/v1/memories").status_code == 200
        problem(httpx.get(f"{one.address}/v1/memories", headers={"X-Evolvent-Scope": "b"}), 403, "forbidden")


def test_a_store_that_another_process_keeps_locked_is_no_silent_wait(server, ask):
    from evolvent import Memory

    with Memory(server.store, embedder="hash:64") as memory, memory.transaction():
        memory.remember("inside", "a transaction")
        answer = ask.post("/v1/recall", json={"task": "anything else", "deadline_ms": 300})
        problem(answer, 503, "busy")
        assert int(answer.headers["retry-after"]) >= 1
        assert ask.get("/v1/memories?limit=1").status_code == 200  # reading goes on
    assert said(ask.post("/v1/recall", json={"task": "anything else"}))


def test_tokens_that_others_could_read_let_nobody_in_and_the_answer_does_not_say_where_they_are(tmp_path):
    with served(tmp_path) as one:
        one.store.with_suffix(".db.tokens").chmod(0o644)
        answer = httpx.get(f"{one.address}/v1/memories", headers=bearer(one.token))
        problem(answer, 503, "no_tokens")
        assert str(tmp_path) not in answer.text and "chmod 600" in one.log.read_text()


@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_without_its_packages_it_says_which_extra_brings_them(tmp_path, module):
    script = f"import sys; sys.modules[{module!r}] = None; from evolvent.cli import main; main(['serve', 'a.db'])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 2 and f"{module} is not installed" in ended.stderr and "server" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_the_tokens_of_a_store_are_listed(server):
    text = subprocess.run([*COMMAND, "tokens", "list", str(server.store)], capture_output=True, text=True).stdout
    assert "local" in text and json.loads(server.store.with_suffix(".db.tokens").read_text())["key"] not in text
