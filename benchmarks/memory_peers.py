"""The memory beside its peers: mem0, LangGraph's store, chromadb and a plain sqlite-vec table, same vectors everywhere.

    python -m venv .venv-peers && .venv-peers/bin/pip install -r benchmarks/requirements-peers.txt -e ".[memory,scale]"
    .venv-peers/bin/python benchmarks/memory_peers.py --sizes 1000 10000 100000

Every store runs in processes of its own, in an order that turns with each repetition; each search is timed in turn with
the bare matrix product over the same vectors and each write with a bare fsync, so that ratios hold on a busy machine.
Texts are embedded once by the real model and looked up: what an embedding costs is reported beside the table.
Guarantees are tried, not quoted: kill -9 after acknowledged writes, two processes on one store, a count of fsync calls.
Rows that are in the result file are not run again (``--redo PEER``); the page is written by peers_page.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from importlib.metadata import version

from peers_page import write_page
from peers_stores import PACKAGES, PEERS
from peers_texts import embedded, every_text

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance

HERE = Path(__file__).parent
KILLED_AFTER, SHARED, COUNTED = 100, 100, 50
PATIENCE_S = 3600.0


def main() -> None:
    """Run what is missing, then write the page."""
    a = _arguments()
    path = Path(a.out)
    old = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    rows = [r for r in old if r["peer"] not in a.redo]
    vectors, cost = _vectors(Path(a.cache))

    def keep(row: dict[str, Any]) -> None:
        rows.append(
            {
                **row,
                "command": " ".join(["python", "benchmarks/memory_peers.py", *sys.argv[1:]]),
                "packages": {p: version(p) for p in PACKAGES[row["peer"]]},
                **provenance(),
            }
        )
        print(json.dumps(row), flush=True)
        write_atomic(path, dump({"benchmark": "memory_peers", "embedding_cpu_s": cost, "rows": rows}, indent=1) + "\n")

    def there(**key: Any) -> bool:
        return any(key.items() <= r.items() for r in rows)

    path.parent.mkdir(parents=True, exist_ok=True)
    for size in a.sizes:
        for repetition in range(a.repeat):
            for peer in _turned(a.peers, repetition):
                if not there(what="speed", peer=peer, size=size, repetition=repetition):
                    keep(
                        {"what": "speed", "peer": peer, "size": size, "repetition": repetition}
                        | _speed(peer, size, vectors, a)
                    )
    for peer in a.peers:
        if not there(what="guarantees", peer=peer):
            keep({"what": "guarantees", "peer": peer} | _guarantees(peer, vectors, a))
    write_page(json.loads(path.read_text("utf-8")), Path(a.page))


def _vectors(cache: Path) -> tuple[Path, dict[str, float]]:
    vec_ND, cost = embedded(cache, every_text())
    return Path(str(vec_ND.filename)), cost  # pyright: ignore[reportAttributeAccessIssue]


def _turned(peers: list[str], by: int) -> list[str]:
    by %= len(peers)
    return [*peers[by:], *peers[:by]]


def _speed(peer: str, size: int, vectors: Path, a: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=a.disk) as folder:
        limit = ["--limit-s", str(a.limit_s)]
        row = _run("measure", peer, folder, vectors, "--size", str(size), *limit)
        if "cut" not in row and "failed" not in row and peer != "langgraph memory":
            row["reopened"] = _run("reopen", peer, folder, vectors)
    return row


def _guarantees(peer: str, vectors: Path, a: argparse.Namespace) -> dict[str, Any]:
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=a.disk) as folder:
        row["killed"] = [_killed(peer, Path(folder) / str(i), vectors) for i in range(a.kills)]
        row["shared"] = _shared(peer, Path(folder) / "shared", vectors)
        row["syncs"] = _syncs(peer, Path(folder) / "syncs", vectors)
    return row


def _killed(peer: str, folder: Path, vectors: Path) -> dict[str, Any]:
    """kill -9 right after the hundredth acknowledged add; then a fresh process counts."""
    folder.mkdir()
    with _start("adds", peer, folder, vectors, "--size", str(KILLED_AFTER), "--stay") as process:
        acknowledged = 0
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = json.loads(line).get("added", 0)
            if acknowledged == KILLED_AFTER:
                break
        process.send_signal(signal.SIGKILL)
    return {"acknowledged": acknowledged} | _run("count", peer, folder, vectors, "--size", str(KILLED_AFTER))


def _shared(peer: str, folder: Path, vectors: Path) -> dict[str, Any]:
    """Two processes open one store, write at the same time, then each looks for the other's last item."""
    folder.mkdir()
    _run("adds", peer, folder, vectors, "--size", "1")
    both = [_start("pair", peer, folder, vectors, "--size", str(SHARED), "--number", str(i)) for i in range(2)]
    lines: list[dict[str, Any]] = [{}, {}]
    for _ in range(3):  # ready, written, result
        for i, process in enumerate(both):
            assert process.stdout is not None
            line = process.stdout.readline()
            lines[i] = json.loads(line) if line else {"died": process.wait()}
        for process in both:
            if process.poll() is None and process.stdin is not None:
                try:
                    process.stdin.write("\n")
                    process.stdin.flush()
                except BrokenPipeError:
                    continue  # it said its last line and went
    for process in both:
        process.wait()
    return {"processes": lines} | _run("count", peer, folder, vectors, "--size", "1")


def _syncs(peer: str, folder: Path, vectors: Path) -> dict[str, float] | None:
    """fsync, fdatasync and msync calls per add and per update, counted by strace; ``None`` without strace."""
    if shutil.which("strace") is None:
        return None
    counts, many = [], ["--size", str(1 + COUNTED)]
    for i, extra in enumerate((["--size", "1"], many, [*many, "--updates"])):
        place = folder.with_name(f"syncs{i}")
        place.mkdir()
        log = place / "trace"
        watch = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,msync", "-o", str(log)]
        _run("adds", peer, place, vectors, *extra, before=watch)
        counts.append(
            sum("resumed" not in line for line in log.read_text("utf-8", "replace").splitlines() if "sync(" in line)
        )
    return {"add": (counts[1] - counts[0]) / COUNTED, "update": (counts[2] - counts[1]) / (1 + COUNTED)}


def _command(mode: str, peer: str, folder: str | Path, vectors: Path, *more: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(HERE / "peers_worker.py"), mode, peer, str(folder), str(vectors), *more]


def _start(mode: str, peer: str, folder: Path, vectors: Path, *more: str) -> subprocess.Popen[str]:
    command = _command(mode, peer, folder, vectors, *more)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def _run(
    mode: str, peer: str, folder: str | Path, vectors: Path, *more: str, before: list[str] | None = None
) -> dict[str, Any]:
    """The last line that a worker said; how it failed where it did."""
    command = [*(before or []), *_command(mode, peer, folder, vectors, *more)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return {"failed": said.replace(str(folder), "FOLDER")[:300]}
    return json.loads(done.stdout.splitlines()[-1])


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    p.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    p.add_argument("--repeat", type=int, default=1, help="whole rounds over all stores, in another order")
    p.add_argument("--kills", type=int, default=3, help="how often each store is killed")
    p.add_argument("--limit-s", type=float, default=600.0, help="a store that would take longer to fill is cut")
    p.add_argument("--redo", nargs="*", default=[], choices=[*PEERS, []], help="run these again")
    p.add_argument("--cache", default=str(HERE / "runs" / "memory_peers"), help="where the embedded texts are kept")
    p.add_argument("--disk", default=None, help="a folder on a real disk; default: the temporary folder")
    p.add_argument("--out", default=str(HERE / "results" / "memory_peers.json"))
    p.add_argument("--page", default=str(HERE.parent / "docs" / "results" / "memory-peers.md"))
    return p.parse_args()


if __name__ == "__main__":
    main()
