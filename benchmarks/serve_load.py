"""What a served memory costs, beside a bare Starlette application that writes to SQLite; docs/server.md.

    python benchmarks/serve_load.py                 # about five minutes; writes results/serve_load.json and the table
    python benchmarks/serve_load.py --page          # only the table
    python benchmarks/serve_load.py --tenants 50 --requests 100000    # instead: reads across tenants, which must be 0

Both are processes of their own, on this machine's loopback, in one run and one after the other, with the same client
and the same requests: so many a second, sent when they are due whether or not earlier ones are answered (open loop).
Two latencies: of the server, from the header of a request to that of its answer (Server-Timing), and of the client,
from when the request was due, which also holds the client's own lag. CPU is that of the server's process. The bare
application answers a recall by reading a row and an outcome by writing one, with SQLite as a memory has it (WAL,
synchronous=FULL); it is what HTTP and a durable row cost, no memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from evolvent import Memory
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance

HERE = Path(__file__).parent
SOURCE, PAGE = HERE / "results" / "serve_load.json", HERE.parent / "docs" / "server.md"
MIX = {"outcome": 0.41, "known": 0.38, "explain": 0.12, "new": 0.065, "remember": 0.025}
"""Share of each kind of request; known and new: recalls of a task that was asked before, or never."""
NEW = {"new": 1.0}
COLUMNS = (
    "offered a second",
    "answered",
    "refused",
    "server ms, p50 / p99",
    "client ms, p50 / p99",
    "CPU ms a request",
)


# ------------------------------------------------------------------------------------------------------- the servers
def bare(folder: str) -> None:
    """The application to compare with; prints its address."""
    import sqlite3

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from evolvent.cli.listening import listen

    db = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, body)",
    ):
        db.execute(statement)

    async def timed(scope: Any, receive: Any, send: Any) -> None:
        began = time.perf_counter()

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                took = f"total;dur={1e3 * (time.perf_counter() - began):.1f}"
                message["headers"] = [*message["headers"], (b"server-timing", took.encode())]
            await send(message)

        await app(scope, receive, sent)

    async def write(request: Request) -> JSONResponse:
        row = db.execute("INSERT INTO t(body) VALUES(?) RETURNING id", (json.dumps(await request.json()),)).fetchone()
        return JSONResponse({"receipt": str(row[0]), "id": str(row[0])})

    async def read(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"receipt": "1", "row": db.execute("SELECT body FROM t WHERE id=1").fetchone()})

    routes = [Route(path, write, methods=["POST"]) for path in ("/v1/outcomes", "/v1/memories")]
    routes += [Route("/v1/recall", read, methods=["POST"]), Route("/v1/explain/{id}", read)]
    app = Starlette(routes=routes)
    listening, at = listen("127.0.0.1", 0)
    sys.stdout.write(f"bare is served at http://{at}\n")
    sys.stdout.flush()
    config = uvicorn.Config(timed, http="h11", loop="asyncio", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


def started(command: list[str]) -> tuple[subprocess.Popen[str], str, str]:
    """A server, its address and its token."""
    process, token = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), ""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("token"):
            token = line.split()[-1]
        if " is served at " in line:
            return process, line.split(" is served at ")[1].split(",")[0].strip(), token
    raise SystemExit("the server did not start")


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --------------------------------------------------------------------------------------------------------- the client
def task(i: int) -> str:
    """A task that is known."""
    return f"How many flights of carrier {i} left Newark in month {i % 12}?"


class Load:
    """Requests of a mix at a rate, and what came of them."""

    def __init__(self, client: httpx.AsyncClient, mix: dict[str, float], memories: int, seed: int) -> None:
        self.client, self.mix, self.memories, self.draw = client, mix, memories, random.Random(seed)
        self.receipts: list[str] = []
        self.codes: Counter[int] = Counter()
        self.took: list[float] = []
        self.served: list[float] = []

    async def one(self, number: int, due: float) -> None:
        kind = self.draw.choices([*self.mix], [*self.mix.values()])[0]
        if kind == "outcome" and not self.receipts:
            kind = "known"
        if kind == "explain":
            answer = await self.client.get(f"/v1/explain/m{1 + self.draw.randrange(self.memories)}")
        else:
            i = self.draw.randrange(self.memories)
            path, body = {
                "known": lambda: ("/v1/recall", {"task": task(i)}),
                "new": lambda: ("/v1/recall", {"task": f"a question number {number} that nobody asked before: {i}?"}),
                "remember": lambda: ("/v1/memories", {"key": f"lesson {number}", "body": f"do {number}"}),
                "outcome": lambda: ("/v1/outcomes", {"receipt": self.receipts.pop(), "reward": i % 3 > 0}),
            }[kind]()
            answer = await self.client.post(path, json=body)
        self.codes[answer.status_code] += 1
        if answer.status_code == 200:
            self.took.append(1e3 * (time.perf_counter() - due))
            self.served.append(float(answer.headers["server-timing"].rpartition("=")[2]))
            if kind in ("known", "new"):
                self.receipts.append(answer.json()["receipt"])

    async def run(self, rate: float, seconds: float) -> None:
        """Send each request when it is due."""
        began, tasks = time.perf_counter(), []
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(self.one(number, due)))
        await asyncio.gather(*tasks)


async def measured(command: list[str], mix: dict[str, float], a: argparse.Namespace) -> dict[str, Any]:
    """One server under one load."""
    process, address, token = started(command)
    try:
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        headers = {"Authorization": f"Bearer {token or None}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, limits=limits) as client:
            await client.post("/v1/memories", json={"key": "the first row", "body": "of the bare application"})
            await Load(client, MIX, a.memories, seed=1).run(min(50.0, a.rate), a.warm)
            load, before, began = Load(client, mix, a.memories, seed=0), cpu_s(process.pid), time.perf_counter()
            await load.run(a.rate, a.seconds)
            took_s, used = time.perf_counter() - began, cpu_s(process.pid) - before
    finally:
        process.terminate()
        process.wait()
    bad = {str(code): n for code, n in load.codes.items() if code not in (200, 503)}
    assert not bad, bad
    return {
        "rate": a.rate,
        "sent": load.codes.total(),
        "answered": load.codes[200],
        "refused": load.codes[503],
        "a_second": load.codes[200] / took_s,
        "server_ms": middle_and_late(load.served),
        "client_ms": middle_and_late(load.took),
        "cpu_ms": 1e3 * used / load.codes.total(),
    }


def middle_and_late(took: list[float]) -> list[float]:
    """Median and 99th percentile."""
    return np.quantile(took, [0.5, 0.99]).tolist()


def filled_store(path: str, a: argparse.Namespace) -> None:
    """A store with memories, each with an outcome."""
    with Memory(path, embedder=a.embedder) as memory:
        memory.remember_many([{"key": task(i), "body": f"SELECT {i}"} for i in range(a.memories)])


# ---------------------------------------------------------------------------------------------------------- the table
def parts(found: dict[str, Any]) -> dict[str, str]:
    """The generated part of the page."""
    lines = [f"| server | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for name, one in found["servers"].items():
        cells = [f"{one['rate']:g}", f"{one['answered']:,}", f"{one['refused']:,}"]
        cells += [" / ".join(f"{ms:.0f}" for ms in one[of]) for of in ("server_ms", "client_ms")]
        cells.append(f"{one['cpu_ms']:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    commit = found["commit"]
    lines += [
        "",
        f"{found['memories']:,} memories, embedder {found['embedder']}, {found['seconds']:g} s a row, client and "
        f"server on {found['machine']['cores']} shared cores; latencies are those of this machine in this run, to read "
        f"beside the bare application's; of answered requests alone. `{found['command']}`, "
        f"commit {commit['id'][:10]}{' (with uncommitted changes)' * commit['dirty']}.",
    ]
    return {"load": "\n".join(lines)}


def tenants(number: int, requests: int) -> int:
    """How often a tenant read what another one wrote (the client of ``tests/e2e/test_server.py``)."""
    sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "e2e")]
    from test_server import canaries

    from serving import served

    with tempfile.TemporaryDirectory() as folder, served(f"{folder}/.") as server:
        leaks, codes = canaries(server, number, requests)
    print(f"{len(codes):,} requests of {number} tenants, {dict(Counter(codes))}: {len(leaks)} read what another wrote")
    return len(leaks)


def main() -> None:
    """Measure, then write the table."""
    from algo_pages import filled

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--tenants", type=int, default=0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=SOURCE)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.bare:
        bare(a.bare)
        return
    if a.tenants:
        sys.exit(tenants(a.tenants, a.requests) > 0)
    if not a.page:
        given = {name: getattr(a, name) for name in ("rate", "seconds", "memories", "embedder")}
        options = " ".join(f"--{name} {value}" for name, value in given.items())
        found = {"command": f"python benchmarks/serve_load.py {options}", **given} | provenance()
        found["servers"] = {}
        with tempfile.TemporaryDirectory() as folder:
            filled_store(f"{folder}/a.db", a)
            serve = [sys.executable, "-m", "evolvent", "serve", f"{folder}/a.db", "--port", "0"]
            for name, command, mix in (
                ("bare Starlette + SQLite, the mix", [sys.executable, __file__, "--bare", folder], MIX),
                ("the memory, the mix", serve, MIX),
                ("the memory, new tasks alone", serve, NEW),
            ):
                for tokens in Path(folder).glob("*.tokens"):
                    tokens.unlink()  # so that the next one tells its token
                print(name, flush=True)
                found["servers"][name] = asyncio.run(measured(command, mix, a))
                print(found["servers"][name], flush=True)
        write_atomic(a.out, json.dumps(found, indent=1) + "\n")
    if a.out == SOURCE:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), parts(json.loads(SOURCE.read_text("utf-8")))), "utf-8")


if __name__ == "__main__":
    main()
