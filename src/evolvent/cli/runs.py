"""`evolvent runs`: the runs in a folder on the terminal, on one page, and as a small local server that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

from tyro.conf import Positional

from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.index import Listed, find, runs, state_of
from evolvent.evaluate.live import Live, duration
from evolvent.evaluate.pages.index_page import render
from evolvent.evaluate.pages.page import renewed, way
from evolvent.evaluate.pages.report import report
from evolvent.running import page_of

_HERE, _PORT = "127.0.0.1", 8765
_TYPES = {".html": "text/html", ".json": "application/json", ".jsonl": "text/plain"}


def index(
    folder: Annotated[Path, Positional] = Path("runs"),
    *,
    html: Path | None = None,
    serve: int | None = None,
    plain: bool = False,
) -> None:
    """List the runs in a folder, and write one page about them.

    Example: evolvent runs runs --html runs.html

    Args:
        folder: a folder of run folders; folders inside it are looked through, too.
        html: where to write the page; default: runs.html in the folder.
        serve: serve it at this port of this machine instead, up to date while runs go on; 8765 where none is given,
            0 = any that is free.
        plain: plain text output even on a terminal.
    """
    with Live(plain=True if plain else None) as live:
        found = runs(folder, page_of)
        rows: list[list[object]] = [
            [
                run.path,
                run.algo or None,
                run.env or None,
                run.score,
                run.trouble or (run.verdict and run.verdict.sentence),
                run.state,
                duration(run.seconds),
            ]
            for run in found
        ]
        live.table(str(folder), ["run", "system", "environment", "score [95 %]", "verdict", "state", "took"], rows)
        if serve is None:
            path = folder / "runs.html" if html is None else html
            write_atomic(path, _page(folder, found, path.parent))
            live.note(f"page: {path}")
            return
        if html is not None:
            raise BadInput(
                "a page or a server", got="--html and --serve", expected="one of them", where="evolvent runs"
            )
        with server(folder, serve) as listening:
            live.note(f"serving http://{_HERE}:{listening.server_port}/ until Ctrl-C")
            listening.serve_forever()


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the index and the reports, for this machine only; it writes nothing.

    Raises:
        BadInput: the port is taken.
    """
    try:
        return ThreadingHTTPServer((_HERE, port), partial(_Handler, folder))
    except (OSError, OverflowError) as error:
        raise BadInput(
            "cannot listen at this port", got=port, expected="a free port", where="--serve", do="--serve 0 takes one"
        ) from error


def _page(folder: Path, found: Sequence[Listed], at: Path) -> str:
    """The index as a file in ``at``: links to the reports that there are."""
    reports = {run.path: _place(folder, run.path) / "report.html" for run in found}
    return render(_title(folder), found, {name: way(path, at) for name, path in reports.items() if path.exists()})


def _title(folder: Path) -> str:
    return f"Runs: {folder.resolve().name}"


def _place(folder: Path, name: str) -> Path:
    return folder if (folder / "metrics.jsonl").exists() else folder / name


class _Handler(BaseHTTPRequestHandler):
    """``/``: the index; ``/run/NAME/``: the report of a run as it stands; ``/run/NAME/FILE``: a file of it."""

    def __init__(self, folder: Path, *more: object) -> None:
        self._folder = folder
        super().__init__(*more)  # pyright: ignore[reportArgumentType]

    def do_GET(self) -> None:
        """Answer a request; only names of this machine are answered, so that no other site can read along."""
        if self.headers.get("Host", "").partition(":")[0] not in (_HERE, "localhost"):
            self.send_error(403)
            return
        path = unquote(self.path.partition("?")[0])
        try:
            if path == "/":
                found = runs(self._folder, page_of)
                where = {run.path: f"/run/{quote(run.path)}/" for run in found if run.state != "broken"}
                self._send(renewed(render(_title(self._folder), found, where)).encode(), ".html")
            else:
                self._run(path)
        except BadInput as error:
            self._send(str(error).encode(), ".jsonl", 500)

    def _run(self, path: str) -> None:
        """A report or a file; names come from the folder, never from the request."""
        name, _, file = path.removeprefix("/run/").rpartition("/")
        known = {run.relative_to(self._folder).as_posix(): run for run in find(self._folder)}
        known |= {run.resolve().name: run for run in [known.pop(".", None)] if run is not None}
        run = known.get(name)
        if run is not None and not file:
            opened = RunFolder.open(run)
            html = report(opened, page_of(opened))
            self._send((html if state_of(run) == "finished" else renewed(html)).encode(), ".html")
            return
        beside = {part for one in known.values() for part in (one, one.parent, one / "games")}
        files = {(part / leaf.name) for part in beside if part.is_dir() for leaf in part.iterdir() if leaf.is_file()}
        wanted = self._folder / name / file if run is None else run / file
        if file and wanted in files and wanted.suffix in _TYPES:
            self._send(wanted.read_bytes(), wanted.suffix)
        elif not file:  # a folder of runs, or what is above it
            self.send_response(302)
            self.send_header("Location", "/")
            self.end_headers()
        else:
            self.send_error(404)

    def _send(self, content: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{_TYPES[kind]}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if "/games/" in self.path:  # a page that a model wrote is of nobody's origin, in a frame or not
            self.send_header("Content-Security-Policy", "sandbox allow-scripts")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests of a page every two seconds are not logged."""


def _main(arguments: Sequence[str]) -> None:
    """`--serve` alone means its usual port."""
    arguments = list(arguments)
    for i, word in enumerate(arguments):
        if word == "--serve" and not (i + 1 < len(arguments) and arguments[i + 1].isdecimal()):
            arguments.insert(i + 1, str(_PORT))
    parsed(index, arguments, "evolvent runs")


COMMANDS = {"runs": _main}
