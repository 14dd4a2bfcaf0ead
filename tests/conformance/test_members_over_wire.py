"""Members over MCP and A2A, both ways: real processes and sockets, the official clients, and all that goes wrong."""

import asyncio
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.protocols import Request, Task
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.models.served.several import Several
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from evolvent.play.workflow import Member, Workflow
from evolvent.teams.answers import MOST, WIRE, Answer, Function, usage_of
from evolvent.teams.members import Wired, asking, caller

pytest.importorskip("mcp", reason="the extra 'protocols' is not installed")
pytest.importorskip("a2a", reason="the extra 'protocols' is not installed")
FILE = Path(__file__).parent / "served_members.py"
SECRETS = ("sk-3c1f", "key.pem", "Traceback", str(FILE.parent), "RuntimeError")
ENV = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
COMMAND = [sys.executable, "-m", "evolvent", "teams", "serve"]
HANGS_S = 300.0  # a guard, no limit: beside other work a process has taken a minute to start
WIRES = ("mcp stdio", "mcp http", "a2a")


@contextmanager
def serving(name, *flags):
    """A server over HTTP in a process of its own, and its address."""
    process = subprocess.Popen([*COMMAND, f"{FILE}:{name}", *flags], stdout=subprocess.PIPE, text=True)
    try:
        assert select.select([process.stdout], [], [], HANGS_S)[0]
        yield process.stdout.readline().split()[-1], process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def addresses():
    with serving("solve", "--as", "mcp", "--port", "0") as (mcp, _), serving("solve", "--as", "a2a") as (a2a, _):
        yield {"mcp stdio": "mcp:" + " ".join([*COMMAND, f"{FILE}:solve", "--as", "mcp"]), "mcp http": mcp, "a2a": a2a}


@pytest.fixture(params=WIRES)
def address(request, addresses):
    return addresses[request.param]


def asked(address, *questions, timeout_s=HANGS_S, then_s=0.0, together=False):
    """What one connection answers to each, an ``Answer`` or what it raises; the limit may be short once it is open."""

    async def main():
        member = caller(address, timeout_s=timeout_s, env=ENV)
        try:
            if then_s:
                await member.call("open")
                member._timeout_s = then_s
            if together:
                return await asyncio.gather(*map(member.call, questions), return_exceptions=True)
            return [(await asyncio.gather(member.call(one), return_exceptions=True))[0] for one in questions]
        finally:
            await member.close()

    return asyncio.run(asyncio.wait_for(main(), 2 * HANGS_S))


def failed(answer, *words):
    assert isinstance(answer, ModelError), answer
    assert all(word in str(answer) for word in words), answer
    assert not [secret for secret in SECRETS if secret in str(answer)], answer
    return True


async def until(true):
    end = time.monotonic() + HANGS_S
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


# ------------------------------------------------------------------------------------------------------- what is right
def test_texts_named_arguments_and_usage_go_there_and_back(address):
    strange = 'ü “quoted” \\ \n{"a": 1} 🙂'
    texts = asked(address, "one two", strange, {"question": "one", "times": 3}, "count")
    assert texts[:3] == [Answer("one two"), Answer(strange), Answer("one one one")]
    assert texts[3] == Answer("counted", {"prompt": 17, "cached": 5, "completion": 3, "seconds": 0.5})
    assert all(isinstance(texts[3].usage[name], int) for name in ("prompt", "cached", "completion"))


def test_two_calls_go_on_side_by_side(address, tmp_path):
    one, other = f"meet {tmp_path}/a.one", f"meet {tmp_path}/a.other"
    assert asked(address, one, other, together=True) == [Answer(one), Answer(other)]


def test_the_official_mcp_client_finds_the_tool_as_the_function_describes_it(addresses):
    from mcp import Client

    async def main():
        async with Client(addresses["mcp http"].removeprefix("mcp:"), read_timeout_seconds=HANGS_S) as client:
            (tool,) = (await client.list_tools()).tools
            said = await client.call_tool("solve", {"question": "raise"})
            return client.session.instructions, tool, said, await client.call_tool("nobody", {})

    instructions, tool, said, nobody = asyncio.run(main())
    assert instructions == "Call the tool solve: Solve a question in words."
    assert tool.description == "Solve a question in words." and tool.meta == {"anthropic/alwaysLoad": True}
    assert tool.input_schema["required"] == ["question"]
    assert {name: one["type"] for name, one in tool.input_schema["properties"].items()} == {
        "question": "string",
        "times": "integer",
    }
    assert said.is_error and "a member failed" in said.content[0].text and nobody.is_error
    assert not [secret for secret in SECRETS if secret in said.model_dump_json()]


def test_the_official_a2a_client_finds_the_agent_and_hears_one_line_of_what_failed(addresses):
    from a2a.client import ClientConfig, create_client
    from a2a.helpers import new_text_message
    from a2a.types import ListTasksRequest, Role, SendMessageRequest, TaskState

    async def main(streaming):
        client = await create_client(addresses["a2a"].removeprefix("a2a:"), ClientConfig(streaming=streaming))
        heard = []
        for question in ("hello", "raise"):
            message = new_text_message(question, role=Role.ROLE_USER)
            heard.append([event async for event in client.send_message(SendMessageRequest(message=message))])
        with pytest.raises(Exception, match="not supported"):
            await client.list_tasks(ListTasksRequest())
        return client._card, heard

    card, (hello, broken) = asyncio.run(main(True))
    assert (card.name, card.description, card.skills[0].id) == ("solve", "Solve a question in words.", "solve")
    assert card.capabilities.streaming and card.supported_interfaces[0].protocol_binding == "JSONRPC"
    assert hello[0].task.status.state == TaskState.TASK_STATE_WORKING
    assert hello[1].artifact_update.artifact.parts[0].text == "hello"
    assert hello[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert broken[-1].status_update.status.message.parts[0].text == "a member failed"
    assert not [secret for secret in SECRETS if secret in str(broken)]
    _, ((whole,), _) = asyncio.run(main(False))
    assert whole.task.artifacts[0].parts[0].text == "hello"


def test_clients_of_the_protocols_before_are_answered(addresses):
    import httpx
    from mcp import Client

    async def main():
        async with Client(addresses["mcp http"].removeprefix("mcp:"), mode="legacy") as client:
            return client.protocol_version, await client.call_tool("solve", {"question": "hello"})

    version, said = asyncio.run(main())
    assert version == "2025-11-25" and said.content[0].text == "hello"
    parts = [{"kind": "text", "text": "raise"}]
    message = {"kind": "message", "messageId": "1", "role": "user", "parts": parts}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    answer = httpx.post(addresses["a2a"].removeprefix("a2a:"), json=asked, timeout=HANGS_S)
    assert answer.json()["result"]["status"]["message"]["parts"][0]["text"] == "a member failed"
    assert not [secret for secret in SECRETS if secret in answer.text]


# ------------------------------------------------------------------------------------------------------ what goes wrong
def test_who_hangs_is_given_up_and_told_and_the_next_is_answered(address, tmp_path):
    mark = tmp_path / "mark"
    (late,) = asked(address, f"hang {mark}", then_s=0.8)
    assert failed(late, "no answer in time", "0.8 s")


def test_who_no_longer_waits_ends_the_call_there_and_the_next_is_answered(address, tmp_path):
    async def main():
        member, mark = caller(address, timeout_s=HANGS_S, env=ENV), tmp_path / "mark"
        call = asyncio.create_task(member.call(f"hang {mark}"))
        await until(mark.with_suffix(".begun").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(mark.exists)
        answer = await member.call("hello")
        await member.close()
        return mark.read_text(), answer

    assert asyncio.run(main()) == ("cancelled", Answer("hello"))


def test_what_a_member_raises_stays_on_its_side(address):
    broken, refused, next_one = asked(address, "raise", "refuse", "hello")
    assert failed(broken, "a member failed") and failed(refused, "a member failed") and next_one == Answer("hello")


def test_an_answer_that_is_too_long_and_arguments_that_do_not_fit(address):
    huge, wrong, next_one = asked(address, "huge", {"frage": "hello"}, "hello")
    assert failed(huge, "too long") and failed(wrong) and next_one == Answer("hello")


def test_a_server_on_pipes_that_dies_in_a_call_is_started_again(addresses):
    first, dead, second = asked(addresses["mcp stdio"], "pid", "die", "pid")
    assert failed(dead) and "in time" not in str(dead) and int(first.text) != int(second.text)


@pytest.mark.parametrize("flags", [("--as", "mcp"), ("--as", "a2a")])
def test_a_server_that_is_killed_in_a_call_and_started_again_is_found_again(flags, tmp_path):
    async def main(address, process, mark):
        member = caller(address, timeout_s=HANGS_S)
        before = await member.call("pid")
        with_it = asyncio.create_task(member.call(f"meet {mark}"))
        await until(mark.exists)
        process.kill()
        with pytest.raises(ModelError):
            await with_it
        with pytest.raises(ModelError):  # nobody is there
            await member.call("pid")
        port = address.split(":")[3].split("/")[0]
        with serving("solve", *flags, "--port", port):
            after = await member.call("pid")
        await member.close()
        return before, after

    with serving("solve", *flags, "--port", "0") as (address, process):
        before, after = asyncio.run(main(address, process, tmp_path / "a.one"))
    assert int(before.text) != int(after.text)


class Odd(BaseHTTPRequestHandler):
    """Answers every request with the server's ``body``."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        for piece in self.server.body:
            try:
                self.wfile.write(piece)
            except OSError:
                self.server.gone = True
                return

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("kind", ["mcp", "a2a"])
@pytest.mark.parametrize("body", [[b"{not json"], [b'{"jsonrpc": "2.0", "id": 1, "result": 7}'], [b"x" * MOST] * 400])
def test_what_is_no_answer_of_the_protocol_is_an_error_and_no_more_than_a_limit_is_read(kind, body):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.body, server.gone, server.daemon_threads = body, False, True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (answer,) = asked(f"{kind}:http://127.0.0.1:{server.server_port}/mcp", "hello", timeout_s=20)
    assert failed(answer)
    if len(body) > 1:
        assert len(body) * MOST > 10 * WIRE
        asyncio.run(until(lambda: server.gone))  # or else the rest was read, too
    server.shutdown()


def test_a_command_that_prints_what_is_no_json_or_is_not_there(tmp_path):
    script = tmp_path / "odd.py"
    script.write_text("for line in open(0):\n    print('{no json', flush=True)\n")
    assert failed(asked(f"mcp:{sys.executable} {script}", "hello", timeout_s=2)[0])
    assert failed(asked("mcp:nobody-has-this-command --x", "hello")[0])
    assert failed(asked(f"mcp:{sys.executable} -c pass", "hello")[0])


def test_other_hosts_are_refused(addresses):
    import httpx

    for address in (addresses["mcp http"], addresses["a2a"]):
        url = address.partition(":")[2]
        answer = httpx.post(url, json={}, headers={"host": "evil.example"})
        assert answer.status_code in (400, 403, 421), answer.text


@pytest.mark.parametrize(
    "address",
    ["mcp", "mcp:", "a2a:x", "http://h", "a2a:http://me:sk-3c1f@h", "mcp:https://me:sk-3c1f@h/mcp", "mcp:ftp://h"],
)
def test_what_is_no_address_is_refused_without_its_password(address):
    with pytest.raises(BadInput, match="not the address") as error:
        caller(address)
    assert "sk-3c1f" not in str(error.value)


def test_usage_from_the_wire_is_numbers_or_nothing():
    assert usage_of({"prompt": 17.0, "seconds": 0.5, "other": 1, "cached": "5", "completion": -1}) == {
        "prompt": 17,
        "seconds": 0.5,
    }
    assert [usage_of(told) for told in (None, "x", [], {}, {"prompt": float("inf")})] == [None] * 5


def test_a_function_that_waits_in_a_thread_is_given_up():
    async def main():
        member = Function(lambda text: time.sleep(60) if text == "hang" else text, 0.2)
        with pytest.raises(ModelError, match="in time"):
            await member.call("hang")
        return await member.call("hello")

    assert asyncio.run(main()) == Answer("hello")


# ----------------------------------------------------------------------------------------------- as members of a team
class Once:
    """One question, one answer."""

    name, instructions, labels, stop, max_tokens, reward_range = "once", "", ("Q", "A"), ("!",), 8, (0.0, 1.0)

    def __init__(self, commands=None):
        self.commands = commands

    def reset(self, task, seed=0):
        from evolvent.core.protocols import Turn

        return Turn(task.text, self.commands)

    def step(self, action):
        from evolvent.core.protocols import Turn

        return Turn("", reward=1.0, terminated=True, success=True)


def test_a_team_whose_members_answer_over_three_wires(addresses):
    names = [wire.replace(" ", "_") for wire in WIRES]
    wired = {name: Wired(caller(addresses[wire], env=ENV)) for name, wire in zip(names, WIRES, strict=True)}
    members = [Member(name, tuple(names[:i]), kind=addresses[WIRES[i]].split(":")[0]) for i, name in enumerate(names)]
    settings = AttemptSettings(Text(), team=Workflow(tuple(members)), accounts=True)
    players = [play(Once(), Task(f"t{i}", f"count {i}"), settings, seed=0) for i in range(3)]
    episodes = run_players(players, Several(wired))
    assert [e.agents_T for e in episodes] == [names] * 3
    # the first is asked "Q: count 0\nA:" and so on: each says what it was asked
    assert "count 1" in episodes[1].answer and episodes[1].answer.count("mcp_stdio: ") == 2
    assert [e.implementations for e in episodes] == [list(zip(names, ["mcp", "mcp", "a2a"], strict=True))] * 3
    for one in wired.values():
        one.close()


def test_the_page_shows_what_can_be_asked():
    """``docs/members.md``: nothing is opened yet."""
    page = (FILE.parents[2] / "docs" / "members.md").read_text("utf-8")
    space = {}
    exec(page.split("```python\n")[1].split("```")[0], space)
    assert (space["solver"].name, space["team"].names) == ("mcp:evolvent", ("solver", "checker"))
    assert f"{MOST:,} characters" in page and f"{WIRE >> 20} MiB" in page


def test_usage_and_choices_of_a_member_over_the_wire():
    counted = Wired(Function(lambda text: Answer("left! right", {"prompt": 17, "cached": 5, "completion": 3})))
    (said,) = counted([Request("where?", 0, 8, ("!",))])
    assert (said.text, said.prompt_tokens, said.cached_tokens, said.sampled, said.stopped) == ("left", 17, 5, 3, "!")
    shown = []
    chooses = Wired(Function(lambda text: shown.append(text) or " right"))
    assert chooses([Request("where?", 0, 8, (), (" left\n", " right\n"))])[0].choice == 1
    assert shown == ["where?\nOne of these, as it stands:\nleft\nright"]
    with pytest.raises(ModelError, match="not allowed"):
        chooses([Request("where?", 0, 8, (), (" up\n", " down\n"))])


def test_a_workflow_and_a_member_of_it_as_functions():
    prompts = []
    engine = Served(Scripted(lambda prompt: prompts.append(prompt) or f"word {len(prompts)}"))
    team = Workflow((Member("planner", profile="Plan."), Member("solver", ("planner",), profile="Solve.")))
    assert asking(team, engine, Text())("2 + 2").text == "word 2"
    assert "Plan." in prompts[0] and "planner: word 1" in prompts[1]
    assert asking(team.member("solver"), engine, Text())("2 + 2").text == "word 3" and "planner" not in prompts[2]


@pytest.mark.parametrize(("name", "calls"), [("team", 2), ("solver", 1)])
def test_a_workflow_is_served_with_a_model(name, calls, tmp_path):
    script = tmp_path / "model.json"
    script.write_text(json.dumps({"replies": [f"word {i + 1}" for i in range(calls)]}))
    command = [*COMMAND, f"{FILE}:{name}", "--as", "mcp", "--model", f"scripted:{script}"]
    assert asked("mcp:" + " ".join(command), "2 + 2") == [Answer(f"word {calls}")]


def test_a_function_that_is_not_async_is_served():
    command = " ".join([*COMMAND, f"{FILE}:plain", "--as", "mcp", "--timeout-s", "1"])
    late, right = asked(f"mcp:{command}", "hang", "hello")
    assert failed(late, "in time") and right == Answer("HELLO")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing --as mcp", "no member"),
        (f"{FILE}:SECRET --as mcp", "not a member"),
        (f"{FILE}:team --as mcp", "nobody answers for it"),
        (f"{FILE}:solve --as a2a --host 192.0.2.1", "nothing can be served here"),
        (f"{FILE}:solve --as soap", "invalid choice"),
    ],
)
def test_what_cannot_be_served(words, message, capsys):
    from evolvent.cli import main

    with pytest.raises(SystemExit) as stopped:
        main(["teams", "serve", *words.split()])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_the_sdks_are_imported_where_they_are_needed():
    code = "import evolvent.cli.teams, evolvent.teams.members, sys; print({'mcp', 'a2a', 'httpx2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_clients_of_the_typescript_sdks_are_answered(wire, addresses, tmp_path_factory):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.getbasetemp() / "typescript-members"
    if not folder.exists():
        folder.mkdir()
        packages = ["@modelcontextprotocol/client@2.4.0", "@a2a-js/sdk@1.3.0"]
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"npm installs nothing here: {made.stderr[-200:]}")
        shutil.copy(FILE.with_name("members_client.mjs"), folder)
    address = addresses[wire].partition(":")[2]
    asked = {"mcp stdio": ["stdio", *address.split(" ")], "mcp http": ["http", address], "a2a": ["a2a", address]}[wire]
    command = ["node", "members_client.mjs", *asked]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANGS_S)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    if wire == "a2a":
        assert said["artifacts"][0]["parts"][0]["content"]["value"] == "2 + 2"
    else:
        assert [tool["name"] for tool in said["tools"]] == ["solve"] and said["answer"]["content"][0]["text"] == "2 + 2"
