"""The memory's four tools as clients have them: the official SDKs over HTTP and over standard input and output."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evolvent import Memory
from payloads import PAYLOADS
from serving import bearer, served

pytest.importorskip("mcp", reason="the extra 'server' is not installed")
httpx2 = pytest.importorskip("httpx2")

from mcp import Client, MCPError, StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

SOURCES = Path(__file__).parents[2] / "src"
RECALLED = {"receipt", "trust", "how_to_use", "notes"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / ".") as one:
        yield one


def by_stdio(address, token):
    env = {"EVOLVENT_SERVER": address, "EVOLVENT_TOKEN": token, "PYTHONPATH": str(SOURCES), "PATH": os.environ["PATH"]}
    return StdioServerParameters(command=sys.executable, args=["-m", "evolvent.serve.bridge"], env=env)


@contextlib.asynccontextmanager
async def talking(address, token, *, stdio=False, mode="auto"):
    async with contextlib.AsyncExitStack() as stack:
        if stdio:
            there = by_stdio(address, token)
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=bearer(token), timeout=30))
            there = streamable_http_client(f"{address}/mcp", http_client=http)
        yield await stack.enter_async_context(Client(there, mode=mode, read_timeout_seconds=30))


def talk(server, do, token=None, **how):
    async def run():
        async with talking(server.address, token or server.token, **how) as client:
            return await do(client)

    return asyncio.run(run())


async def call(client, tool, given):
    """What a tool answers; asked again while the machine is too busy."""
    for wait in range(30):
        result = await client.call_tool(tool, given)
        if not (result.is_error and "too busy" in result.content[0].text):
            break
        await asyncio.sleep(wait / 10)
    return result


def rest(server, path, body=None, token=None):
    sent = urllib.request.Request(f"{server.address}{path}", headers=bearer(token or server.token))
    if body is not None:
        sent.data = json.dumps(body).encode()
        sent.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)


@pytest.mark.parametrize("stdio", [False, True])
@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_a_lesson_helps_and_what_a_model_claims_moves_no_value(server, stdio, mode, revision):
    task = f"reset the router of {mode} {stdio}"

    async def work(client):
        assert client.protocol_version == revision and "Call `recall` before" in client.instructions
        kept = (await call(client, "remember", {"when": task, "note": "hold the button"})).structured_content["id"]
        recalled = (await call(client, "recall", {"task": task, "k": 1})).structured_content
        said = {"receipt": recalled["receipt"], "outcome": "success", "check": {"command": "ping", "exit_code": 0}}
        told = [(await call(client, "settle", said)).structured_content for _ in range(2)]
        why = [(await call(client, "explain", {"id": id_})).structured_content for id_ in (kept, said["receipt"])]
        guide = (await client.read_resource("evolvent://guide")).contents[0].text
        return kept, recalled, told, why, guide

    kept, recalled, told, why, guide = talk(server, work, stdio=stdio, mode=mode)
    assert set(recalled) == RECALLED and recalled["trust"] == "data"
    note = {"id": kept, "when": task, "note": "hold the button", "polarity": "neutral", "record": "no outcome yet"}
    assert recalled["notes"] == [note]
    assert [one["standing"] for one in told] == ["recorded"] * 2
    assert "hold the button" in why[0]["text"] and f"shown: {kept}" in why[1]["text"] and "`settle`" in guide
    item = rest(server, f"/v1/memories/{kept}")
    assert (item["n"], item["value"]) == (0, item["start"])  # the claim is kept beside, and moves nothing
    rest(server, "/v1/outcomes", {"receipt": recalled["receipt"], "reward": 0, "source": "tests"})
    assert rest(server, f"/v1/memories/{kept}")["n"] == 1  # the test is still heard
    again = talk(server, lambda c: call(c, "recall", {"task": task, "k": 1}), stdio=stdio, mode=mode)
    assert again.structured_content["notes"][0]["record"].endswith("after 1 outcome")


def test_the_tools_are_four_and_stay_as_they_are(server):
    async def listed(client):
        return (await client.list_tools()).tools, (await client.list_resources()).resources

    tools, resources = talk(server, listed)
    assert [tool.name for tool in tools] == ["recall", "remember", "settle", "explain"]
    assert [bool((t.meta or {}).get("anthropic/alwaysLoad")) for t in tools] == [True, False, True, False]
    assert [t.annotations.read_only_hint for t in tools] == [False, False, False, True]
    assert all(t.description.endswith(".") and len(t.description) < 300 for t in tools)
    assert [str(one.uri) for one in resources] == ["evolvent://guide"]
    jsonschema = pytest.importorskip("jsonschema")
    for tool in tools:
        assert tool.input_schema["additionalProperties"] is False
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("recall", {}, "a field is missing"),
        ("recall", {"task": "x" * 3000}, "out of range"),
        ("recall", {"task": "what", "scope": "other"}, "unknown field"),
        ("settle", {"receipt": "r1.aaaaaaaaaaaaaaaa", "outcome": "success"}, "unknown receipt"),
        ("settle", {"receipt": "12", "outcome": "success"}, "unknown receipt"),
        ("settle", {"receipt": "r1.aaaaaaaaaaaaaaaa", "outcome": "fine"}, "not one of these"),
        ("explain", {"id": "m999"}, "unknown memory"),
        ("explain", {"id": "r1"}, "unknown receipt"),
        ("shell", {"command": "id"}, "no such tool"),
    ],
)
def test_what_cannot_be_done_is_told_to_the_model_in_words(server, tool, given, says):
    result = talk(server, lambda c: call(c, tool, given))
    assert result.is_error and says in result.content[0].text


def test_a_token_binds_tools_as_it_binds_requests(server):
    agent = server.new("agent", "--scopes", "team", "--may", "recall")
    kept = rest(server, "/v1/memories", {"key": "the shared question", "body": "of the default scope"})["id"]

    async def work(client):
        found = await call(client, "recall", {"task": "the shared question"})
        refused = [
            await call(client, "remember", {"when": "the shared question", "note": "mine"}),
            await call(client, "explain", {"id": kept}),
        ]
        receipt = found.structured_content["receipt"]
        return found, refused, await call(client, "settle", {"receipt": receipt, "outcome": "failure"})

    found, refused, settled = talk(server, work, token=agent)
    assert found.structured_content["notes"] == [] and not settled.is_error
    assert all(one.is_error and "the token does not allow it" in one.content[0].text for one in refused)


def test_what_was_left_out_of_a_recall_is_not_explained_to_a_model(server):
    for i in range(3):
        rest(server, "/v1/memories", {"key": f"a leaking tap {i}", "body": f"washer {i}"})

    async def work(client):
        receipt = (await call(client, "recall", {"task": "a leaking tap", "k": 1})).structured_content["receipt"]
        return receipt, (await call(client, "explain", {"id": receipt})).structured_content["text"]

    receipt, text = talk(server, work)
    pool = rest(server, f"/v1/explain/{receipt}")["data"]["pool"]
    assert len(pool) == 3 and sum(one["key"] in text for one in pool) == 1


def test_two_hundred_payloads_stay_one_fence_for_a_model(tmp_path):
    notes = [{"key": f"task {i // 3}", "body": payload.replace("\0", "")} for i, payload in enumerate(PAYLOADS)]
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory:
        ids, seen = memory.remember_many(notes), set()
    with served(tmp_path / ".") as one:

        async def work(client):
            return [await call(client, "recall", {"task": f"task {i}", "k": 3}) for i in range(len(PAYLOADS) // 3 + 1)]

        for result in talk(one, work):
            shown, receipt = (result.structured_content[name] for name in ("notes", "receipt"))
            said = result.content[0].text
            assert said.count("evolvent-notes") == 2 and "evolvent-notes" not in json.dumps(shown, ensure_ascii=False)
            begin, _, *lines, end, last = said.split("\n")
            assert (begin, end) == (f'<evolvent-notes receipt="{receipt}">', f'</evolvent-notes receipt="{receipt}">')
            assert [json.loads(line)["note"] for line in lines] == [note["note"] for note in shown]
            assert last.startswith(f"Receipt: {receipt}. ")
            assert all(c.isprintable() or c in "\n\t" for note in shown for c in note["note"])
            seen |= {note["id"] for note in shown}
        assert seen == set(ids)


# ------------------------------------------------------------------------------------------------ the door, the bridge
def asked(server, body=b"{}", token=None, **headers):
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    sent |= bearer(token or server.token)
    return httpx2.post(f"{server.address}/mcp", content=body, headers=sent)


def test_the_door_is_the_same_as_that_of_every_request(server):
    for answer, status, code in (
        (asked(server, token="ev1_00000000_" + "x" * 43), 401, "unauthorized"),
        (asked(server, host="evil.example"), 421, "other_host"),
        (asked(server, origin="https://evil.example"), 403, "forbidden"),
        (asked(server, b"x" * 300_000), 413, "too_large"),
        (asked(server, **{"content-type": "text/plain"}), 415, "not_json"),
        (asked(server, **{"x-evolvent-scope": "other"}), 403, "forbidden"),
        (httpx2.get(f"{server.address}/mcp", headers=bearer(server.token)), 405, "no_such_method"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert asked(server, b"{").status_code == 400 and asked(server, b"[" * 100_000).status_code == 400
    assert "Traceback" not in server.log.read_text()


def test_an_error_of_ours_stays_here(tmp_path):
    with served(tmp_path) as one:
        kept = one.store.with_suffix(".db.tokens")
        kept.chmod(0o644)
        answer = asked(one)
        assert answer.status_code == 503 and str(tmp_path) not in answer.text
        kept.chmod(0o600)
        with Memory(one.store, embedder="hash:64") as memory, memory.transaction():  # another process has the store
            memory.remember("inside", "a transaction")
            result = talk(one, lambda c: c.call_tool("recall", {"task": "anything"}))
        assert result.is_error and "too busy" in result.content[0].text and str(tmp_path) not in result.content[0].text


def test_the_bridge_says_what_is_missing_and_imports_nothing_of_the_sdk(server):
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
    ]
    said = "".join(json.dumps(line) + "\n" for line in lines) + "no json\n\n[]\n"

    def bridged(address, token=""):
        there = by_stdio(address, token)
        ended = subprocess.run(
            [there.command, "-X", "importtime", *there.args], input=said, env=there.env, capture_output=True, text=True
        )
        assert ended.returncode == 0 and not {"mcp", "pydantic", "starlette"} & set(ended.stderr.split())
        (answer,) = [json.loads(line) for line in ended.stdout.splitlines()]
        assert answer["id"] == 1
        return answer

    assert "does not answer" in bridged("http://127.0.0.1:9")["error"]["message"]
    assert "no token" in bridged(server.address)["error"]["message"]
    assert bridged(server.address, server.token)["result"] == {}


TYPESCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const [how, address, token, python, sources] = process.argv.slice(2);
const env = { EVOLVENT_SERVER: address, EVOLVENT_TOKEN: token, PYTHONPATH: sources, PATH: process.env.PATH };
const transport = how === "stdio"
  ? new StdioClientTransport({ command: python, args: ["-m", "evolvent.serve.bridge"], env })
  : new StreamableHTTPClientTransport(new URL(address + "/mcp"),
      { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const kept = await client.callTool({ name: "remember", arguments: { when: "descale the kettle", note: "vinegar" } });
const found = await client.callTool({ name: "recall", arguments: { task: "descale the kettle" } });
const { receipt } = found.structuredContent;
const told = await client.callTool({ name: "settle", arguments: { receipt, outcome: "failure" } });
const wrong = await client.callTool({ name: "recall", arguments: {} });
console.log(JSON.stringify({ tools: tools.map((t) => t.name), found: found.structuredContent, told, wrong,
  instructions: client.getInstructions() }));
await client.close();
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["http", "stdio"])
def test_the_typescript_sdk_is_served(server, how, tmp_path_factory):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.getbasetemp() / "typescript"
    if not folder.exists():
        folder.mkdir()
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "@modelcontextprotocol/sdk@1.32.2"]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"npm installs nothing here: {made.stderr[-200:]}")
    (folder / "client.mjs").write_text(TYPESCRIPT)
    arguments = [how, server.address, server.token, sys.executable, str(SOURCES)]
    ended = subprocess.run(["node", "client.mjs", *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["tools"] == ["recall", "remember", "settle", "explain"] and "`recall`" in said["instructions"]
    assert (
        said["found"]["notes"][0]["note"] == "vinegar" and said["told"]["structuredContent"]["standing"] == "recorded"
    )
    assert said["wrong"]["isError"]


def test_a_resource_that_is_not_there(server):
    async def read(client):
        with pytest.raises(MCPError, match="no such resource"):
            await client.read_resource("evolvent://memory/m1")

    talk(server, read)
