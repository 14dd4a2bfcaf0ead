"""What a wire costs and what it keeps: a member as a function, over MCP (pipes, HTTP) and over A2A; docs/members.md.

    python benchmarks/members.py             # about two minutes; writes results/members.json and the table
    python benchmarks/members.py --page      # only the table

Seven axes (survey of agent protocols, arXiv 2504.16736, section 4), one figure each, from ``--calls`` calls on this
machine's loopback. The member answers at once, so that what is measured is the wire. Server and client are
processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from evolvent.core.errors import ModelError
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.teams.answers import Caller, Function
from evolvent.teams.members import caller

HERE = Path(__file__).parent
SOURCE, PAGE = HERE / "results" / "members.json", HERE.parent / "docs" / "members.md"
SECRET = "sk-3c1f"
KILLS = 5
TOGETHER = 16
SERVE = [sys.executable, "-m", "evolvent", "teams", "serve"]
WIRES = {"function": "function", "MCP, pipes": "mcp", "MCP, HTTP": "mcp --port {port}", "A2A": "a2a --port {port}"}
AXES = {
    "efficiency": "one call, median ms (95 % of the calls within)",
    "scalability": f"calls a second, {TOGETHER} at once (one after another)",
    "security": "failed calls in whose error the secret stands",
    "reliability": f"calls lost when the server dies {KILLS} times in a call (seconds until the next answer)",
    "extensibility": "calls of a client of the protocol before that are answered",
    "operability": "packages to install",
    "interoperability": "named arguments that arrive as they were, types too",
}


# ---------------------------------------------------------------------------------------------------------- the member
async def member(text: str) -> str:
    """Says what it is told."""
    if text == "raise":
        raise RuntimeError(f"the key {SECRET} in {__file__} is wrong")
    if text == "die":
        os._exit(1)
    return text


async def echo(text: str, number: int, ratio: float, flag: bool, items: list[int], table: dict[str, float]) -> str:
    """Its arguments as JSON."""
    return json.dumps([text, number, ratio, flag, items, table])


# ------------------------------------------------------------------------------------------------------- what is asked
class Server:
    """A member behind one of the wires, which can be started again at the same address."""

    def __init__(self, wire: str, name: str, port: int = 0) -> None:
        self.wire, self.name, self.port, self.process = wire, name, port, None

    def start(self) -> str:
        """Its address."""
        words = [*SERVE, f"{__file__}:{self.name}", "--as", *WIRES[self.wire].format(port=self.port).split()]
        if "port" not in WIRES[self.wire]:
            return "mcp:" + " ".join(words)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert select.select([self.process.stdout], [], [], 300)[0]
        address = self.process.stdout.readline().split()[-1]
        self.port = int(re.search(r":(\d+)", address.partition("//")[2])[1])
        return address

    def stop(self) -> None:
        """End it at once."""
        if self.process:
            self.process.kill()
            self.process.wait()


@contextlib.asynccontextmanager
async def served(wire: str, function: Callable[..., Any]) -> AsyncIterator[tuple[Caller, Server, str]]:
    """Who can be asked, its server and its address; the first call is over."""
    if wire == "function":
        yield Function(function), Server(wire, ""), ""
        return
    server = Server(wire, function.__name__)
    address = server.start()
    asked = caller(address, timeout_s=60, env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    with contextlib.suppress(ModelError):
        await asked.call("first")
    try:
        yield asked, server, address
    finally:
        await asked.close()
        server.stop()


async def fast(wire: str, calls: int) -> dict[str, Any]:
    """Efficiency and scalability."""
    async with served(wire, member) as (asked, _, _):
        took = []
        for i in range(calls):
            began = time.perf_counter()
            assert (await asked.call(f"call {i}")).text == f"call {i}"
            took.append(1e3 * (time.perf_counter() - began))
        took.sort()
        left = iter(range(calls))

        async def one_after_another() -> None:
            for i in left:
                assert (await asked.call(f"call {i}")).text == f"call {i}"

        began = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(TOGETHER)))
        together = calls / (time.perf_counter() - began)
    one, late = took[calls // 2], took[int(0.95 * calls)]
    return {
        "efficiency": {"calls": calls, "median_ms": one, "p95_ms": late},
        "scalability": {"calls": calls, "a_second_together": together, "a_second": 1e3 * calls / sum(took)},
    }


async def secret(wire: str, calls: int) -> dict[str, Any] | None:
    """Security: errors, as who asks reads them; those of a function are his own."""
    if wire == "function":
        return None
    told = []
    async with served(wire, member) as (asked, _, _):
        for _ in range(calls):
            try:
                await asked.call("raise")
            except ModelError as error:
                told.append(str(error))
    assert len(told) == calls
    return {"calls": calls, "leaked": sum(SECRET in text or __file__ in text for text in told)}


async def killed(wire: str, calls: int) -> dict[str, Any] | None:
    """Reliability: the server ends in the middle of every ``calls / KILLS``-th call; HTTP servers are started again."""
    if wire == "function":  # it would end with the function
        return None
    lost, again = 0, []
    async with served(wire, member) as (asked, server, _):
        for i in range(calls):
            if i % (calls // KILLS) != calls // KILLS // 2:
                try:
                    assert (await asked.call(f"call {i}")).text == f"call {i}"
                except ModelError:
                    lost += 1
                continue
            began = time.perf_counter()
            try:
                await asked.call("die")
                raise AssertionError("it answered and died")
            except ModelError:
                lost += 1
            if server.process:
                server.process.wait()
                server.start()
            await asked.call("again")
            again.append(time.perf_counter() - began)
    return {"calls": calls, "kills": KILLS, "lost": lost, "again_s": sorted(again)[KILLS // 2]}


async def older(wire: str, calls: int) -> dict[str, Any] | None:
    """Extensibility: MCP 2025-11-25 by its handshake, A2A 0.3 as it was on the wire."""
    if wire == "function":
        return None
    async with served(wire, member) as (_, _, address):
        kind, _, place = address.partition(":")
        if kind == "mcp":
            from mcp import Client, StdioServerParameters

            command, *words = place.split()
            env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            target = place if "://" in place else StdioServerParameters(command=command, args=words, env=env)
            async with Client(target, mode="legacy") as client:
                said = [await client.call_tool("member", {"text": f"call {i}"}) for i in range(calls)]
                protocol = f"MCP {client.protocol_version}"
            answered = sum(one.content[0].text == f"call {i}" for i, one in enumerate(said))
        else:
            import httpx

            protocol, answered = "A2A 0.3", 0
            async with httpx.AsyncClient() as client:
                for i in range(calls):
                    parts = [{"kind": "text", "text": f"call {i}"}]
                    message = {"kind": "message", "messageId": str(i), "role": "user", "parts": parts}
                    body = {"jsonrpc": "2.0", "id": i, "method": "message/send", "params": {"message": message}}
                    answer = (await client.post(place, json=body)).json()
                    answered += answer["result"]["artifacts"][0]["parts"][0]["text"] == f"call {i}"
    return {"calls": calls, "answered": answered, "protocol": protocol}


async def typed(wire: str, calls: int) -> dict[str, Any]:
    """Interoperability: random named arguments, seed 0, and what the member saw of them."""
    draw, same = random.Random(0), 0
    async with served(wire, echo) as (asked, _, _):
        for _ in range(calls):
            given = {
                "text": "".join(
                    chr(draw.choice([9, 10, 34, 92, 233, 8364, 128578, *range(32, 127)])) for _ in range(40)
                ),
                "number": draw.randrange(-(10**9), 10**9),
                "ratio": draw.choice([0.5, 2.0, -1e-9, 1e300, draw.random()]),
                "flag": draw.random() < 0.5,
                "items": [draw.randrange(10) for _ in range(draw.randrange(4))],
                "table": {f"k{i}": draw.random() for i in range(draw.randrange(3))},
            }
            seen = (await asked.call(given)).text
            same += seen == json.dumps([*given.values()])
    return {"calls": calls, "same": same}


def packages(root: str) -> int:
    """How many packages one brings, itself among them, as installed here."""
    from packaging.requirements import Requirement

    known, left = set[str](), [Requirement(root)]
    while left:
        one = left.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        with contextlib.suppress(PackageNotFoundError):
            wanted = [Requirement(text) for text in requires(one.name) or []]
            extras = [{"extra": extra} for extra in one.extras] or [{"extra": ""}]
            chosen = [r for r in wanted if r.marker is None or any(r.marker.evaluate(extra) for extra in extras)]
            left += [r for r in chosen if name not in known or one.extras]
            one.extras.clear()
            known.add(name)
    return len(known)


def measured(wire: str, calls: int) -> dict[str, Any]:
    """The seven axes of one wire."""
    brings = {"function": 0, "A2A": packages("a2a-sdk[http-server]")}.get(wire, packages("mcp"))
    found = asyncio.run(fast(wire, calls))
    for axis, by in {"security": secret, "reliability": killed, "extensibility": older}.items():
        print(f"{wire}: {axis}", flush=True)
        found[axis] = asyncio.run(by(wire, calls))
    found["operability"] = {"packages": brings}
    return found | {"interoperability": asyncio.run(typed(wire, calls))}


# --------------------------------------------------------------------------------------------------------- the table
def parts(found: dict[str, Any]) -> dict[str, str]:
    """The generated part of the page."""
    wires, calls = found["wires"], found["calls"]
    lines = [f"| axis | figure | {' | '.join(wires)} |", "|---|---|" + "---|" * len(wires)]
    for axis, figure in AXES.items():
        cells = ["–" if one[axis] is None else _cell(axis, one[axis]) for one in wires.values()]
        lines.append(f"| {axis} | {figure} | {' | '.join(cells)} |")
    commit, versions = found["commit"], found["versions"]
    lines += [
        "",
        f"{calls:,} calls a cell but for the packages; one process each side, loopback, "
        f"{found['machine']['cores']} shared cores; mcp {versions['mcp']}, a2a-sdk {versions['a2a-sdk']}. "
        f"The function is in the process of who asks. `{found['command']}`, seed {found['seed']}, "
        f"commit {commit['id'][:10]}{' (with uncommitted changes)' * commit['dirty']}.",
    ]
    return {"wires": "\n".join(lines)}


def _cell(axis: str, one: dict[str, Any]) -> str:
    return {
        "efficiency": lambda: f"{_ms(one['median_ms'])} ({_ms(one['p95_ms'])})",
        "scalability": lambda: f"{one['a_second_together']:,.0f} ({one['a_second']:,.0f})",
        "security": lambda: f"{one['leaked']}",
        "reliability": lambda: f"{one['lost']} ({one['again_s']:.1f})",
        "extensibility": lambda: f"{one['answered']:,} ({one['protocol']})",
        "operability": lambda: f"{one['packages']}",
        "interoperability": lambda: f"{one['same']:,}",
    }[axis]()


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def main() -> None:
    """Measure, then write the table."""
    from algo_pages import filled  # not where the member alone is served

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=SOURCE)
    parser.add_argument("--page", action="store_true")
    a = parser.parse_args()
    if not a.page:
        found = {
            "command": f"python benchmarks/members.py --calls {a.calls}",
            "calls": a.calls,
            "seed": 0,
        } | provenance()
        found["wires"] = {wire: measured(wire, a.calls) for wire in WIRES}
        write_atomic(a.out, json.dumps(found, indent=1) + "\n")
    if a.out == SOURCE:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), parts(json.loads(SOURCE.read_text("utf-8")))), "utf-8")


if __name__ == "__main__":
    main()
