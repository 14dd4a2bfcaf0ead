"""A real browser for pages that a model wrote: Chromium without a window, in the sandbox, driven over a pipe.

A page is handed over from memory. It reaches nothing: every request is refused, its origin is nobody's (no storage, no
dialogs, no windows), and the sandbox around Chromium has no network and none of this user's files. What is said about a
page comes from the browser and from a world of its own beside the page's script, which the page cannot change.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolvent.core.errors import EvolventError
from evolvent.sandbox.jail.watch import Use, descendants, use
from evolvent.sandbox.process import Program
from evolvent.sandbox.result import MB, Limits
from evolvent.sandbox.sandbox import Sandbox

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
SIZE = (480, 320)
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"
)
"""What a page may load: nothing but itself."""
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowUp": 38, " ": 32, "Enter": 13}
_ADDRESS = "http://page.invalid/"
_LIMITS = Limits(
    wall=3600.0,
    cpu=900.0,
    memory=3072 * MB,
    disk=256 * MB,
    inodes=20_000,
    file=64 * MB,
    output=4 * MB,
    processes=40,
    threads=600,
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--no-zygote",
    "--in-process-gpu",
    "--disable-gpu",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--mute-audio",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--js-flags=--max-old-space-size=256",
    "--log-level=3",
)
_FRAMES = "window.frames_seen = 0; (function next() { frames_seen++; requestAnimationFrame(next); })()"
_FRAMES_A_SECOND = 30
_CPU_S, _WALL_S = 4.0, 90.0
_PAGES, _LINGERING = 40, 24
"""Then a fresh browser: pages; processes, for those of closed pages go when the machine has time for it."""
_FLOOD_BYTES, _FLOOD_MESSAGES = 8 * MB, 2000
_LOOK = """(() => {
  const pictures = [...document.querySelectorAll('canvas')].filter((c) => c.width && c.height);
  if (!pictures.length) return [0, document.body ? document.body.innerText.length : 0];
  const small = new OffscreenCanvas(96, 64).getContext('2d', {willReadFrequently: true});
  small.drawImage(pictures[0], 0, 0, 96, 64);
  const seen = new Set(); let sum = 0;
  const d = small.getImageData(0, 0, 96, 64).data;
  for (let i = 0; i < d.length; i += 4) {
    const c = d[i] << 24 | d[i + 1] << 16 | d[i + 2] << 8 | d[i + 3]; seen.add(c);
    sum = Math.imul((sum << 5 | sum >>> 27) ^ c, 0x9e3779b1);
  }
  return [seen.size, sum];
})()"""


class NoBrowser(EvolventError, RuntimeError):
    """There is no browser here, or it does not run in the sandbox; no page was opened."""


@dataclass(frozen=True)
class Seen:
    """What a browser saw of a page. The texts of ``errors`` are the page's own words."""

    loaded: bool = False
    painted: bool = False
    """Its canvas shows more than one colour."""
    changes: bool = False
    """What it shows changes, by itself or when keys are pressed."""
    errors: tuple[str, ...] = ()
    """Uncaught errors, errors on the console, what the browser refused (a dialog, a window, an address)."""
    warnings: tuple[str, ...] = ()
    ended: str = ""
    """Why it was stopped: ``hangs``, ``floods`` (its console), ``leaves`` (for another page), ``crashed``."""
    picture: bytes = b""
    """JPEG, as it looked at the end."""
    seconds: float = 0.0

    @property
    def playable(self) -> bool:
        """It painted, and nothing went wrong."""
        return self.loaded and self.painted and not self.errors and not self.ended


class _Over(Exception):
    """A page is stopped; the word of ``Seen.ended``."""


class _Patience:
    """How long an answer is waited for: by the processor time that the browser takes meanwhile, so that a busy machine
    makes no page hang.
    """

    def __init__(self, program: Program | None, cpu: float = _CPU_S, wall: float = _WALL_S) -> None:
        self._program, self._cpu, self._until = program, cpu, time.monotonic() + wall
        self._began = _uses(program).cpu

    def over(self) -> bool:
        """Whether it has been long enough."""
        return time.monotonic() > self._until or _uses(self._program).cpu - self._began > self._cpu

    def look(self) -> float:
        """Until when to wait before the next look.

        Raises:
            _Over: no longer.
        """
        if self.over():
            raise _Over("hangs")
        return time.monotonic() + 0.25


def _uses(program: Program | None) -> Use:
    """What the browser and its pages use; nothing before it runs."""
    root = 0 if program is None else int(program.running.get("running", 0))
    if not root:
        return Use(0, 0.0, 0, 0, {})
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return use(proc, [root, *descendants(proc, root)])
    finally:
        os.close(proc)


def find_browser() -> str:
    """Path of a Chromium: ``$EVOLVENT_CHROMIUM``, or one on the path.

    Raises:
        NoBrowser: there is none.
    """
    named = os.environ.get("EVOLVENT_CHROMIUM")
    found = named if named and os.access(named, os.X_OK) else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise NoBrowser(
            "there is no browser, so no page was opened",
            got=named or "none on the path",
            expected=" or ".join(NAMES),
            where="browser",
            do="apt install chromium-headless-shell (or chromium), or name one in EVOLVENT_CHROMIUM",
        )
    # the launcher of a distribution is a script for desktops; the program lies beside its libraries
    program = Path(f"/usr/lib/{Path(found).name}/{Path(found).name}")
    return str(program if program.is_file() else Path(found).resolve())


class Browser:
    """One Chromium in the sandbox; ``see`` opens a page in it. It starts at first use and again when a page broke it.

    Args:
        mechanism: as of ``Sandbox``.

    Raises:
        NoBrowser: there is none.
        NoSandbox: nothing here confines it.
    """

    def __init__(self, mechanism: str = "auto") -> None:
        self.path = find_browser()
        home = str(Path(self.path).parent)
        read = [p for p in ("/etc/fonts", *([] if home.startswith("/usr/") else [home])) if os.path.exists(p)]
        self._sandbox = Sandbox("browser", mechanism, 0, read=read)
        self._program: Program | None = None
        self._to = self._from = -1
        self._buffer, self._number, self._pages, self._bytes = b"", 0, 0, 0
        self._events: list[dict[str, Any]] = []
        self.version = ""

    def start(self) -> str:
        """Start it, and say which it is.

        Raises:
            NoBrowser: it does not start in the sandbox.
        """
        if self._program is None:
            theirs, self._to = os.pipe()
            self._from, its = os.pipe()
            program = self._program = self._sandbox.program({}, _LIMITS)
            place = program.slot.path
            argv = [self.path, *_FLAGS, f"--browser-subprocess-path={self.path}", f"--user-data-dir={place}/profile"]
            program.start({"kind": "exec", "argv": [*argv, "about:blank"]}, b"", (theirs, its))
            os.close(theirs)
            os.close(its)
            self._buffer, self._pages, self._bytes = b"", 0, 0
            self._events.clear()
            try:
                self.version = str(self._call("Browser.getVersion", start=True)["product"])
            except _Over as over:
                said = f"{over}: " + program.err.decode("utf-8", "replace")[-600:]
                self._kill()
                raise NoBrowser("the browser does not start in the sandbox", got=said, where=self.path) from None
        return self.version

    def see(self, html: str, *, seconds: float = 1.0, keys: Sequence[str] = tuple(KEYS)) -> Seen:
        """Open a page, watch it, press keys, and say what came of it.

        Args:
            html: the page.
            seconds: how long it is played; on a busy machine longer, until it has had 30 frames a second.
            keys: what is pressed, one after another, of ``KEYS``.
        """
        self.start()
        began = time.monotonic()
        self._events.clear()
        self._bytes = 0
        seen, target = Seen(), ""
        try:
            context = self._call("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
            target = self._call(
                "Target.createTarget", url="about:blank", browserContextId=context, width=SIZE[0], height=SIZE[1]
            )["targetId"]
            page = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            seen = self._open(page, html)
            seen = self._played(page, seen, seconds, keys)
            self._call("Target.closeTarget", targetId=target)
            self._call("Target.disposeBrowserContext", browserContextId=context)
        except _Over as over:
            # of a busy browser: the words that flood it are what it is busy with
            flooded = str(over) == "hangs" and self._bytes > _FLOOD_BYTES / 8
            seen = replace(seen, ended="floods" if flooded else str(over))
            self._kill()
        errors, warnings = self._complaints()
        self._pages += 1
        if self._pages >= _PAGES or _uses(self._program).processes > _LINGERING:
            self._kill()
        return replace(seen, errors=errors, warnings=warnings, seconds=time.monotonic() - began)

    def close(self) -> None:
        """End it; nothing of it stays."""
        self._kill()
        self._sandbox.close()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------ one page
    def _open(self, page: str, html: str) -> Seen:
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable", page)
        self._call("Fetch.enable", page, patterns=[{"urlPattern": "*"}])
        self._call("Emulation.setFocusEmulationEnabled", page, enabled=True)  # else keys go to no page
        self._call(
            "Emulation.setDeviceMetricsOverride", page, width=SIZE[0], height=SIZE[1], deviceScaleFactor=1, mobile=False
        )
        self._html: str | None = html
        self._send("Page.navigate", page, url=_ADDRESS)
        patience = _Patience(self._program)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._pump(patience.look())
        return Seen(loaded=True)

    def _played(self, page: str, seen: Seen, seconds: float, keys: Sequence[str]) -> Seen:
        frame = self._call("Page.getFrameTree", page)["frameTree"]["frame"]["id"]
        world = self._call("Page.createIsolatedWorld", page, frameId=frame)["executionContextId"]

        def evaluated(expression: str) -> Any:
            done = self._call("Runtime.evaluate", page, expression=expression, contextId=world, returnByValue=True)
            return done["result"].get("value")

        def look() -> tuple[int, int]:
            colours, sum_ = evaluated(_LOOK) or (0, 0)
            return int(colours), int(sum_)

        evaluated(_FRAMES)
        looks = [look()]
        middle = {"x": SIZE[0] // 2, "y": SIZE[1] // 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", page, type=kind, **middle)
        for key in keys:
            pressed = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
            self._call("Input.dispatchKeyEvent", page, type="keyDown", **pressed)
            self._idle(seconds / max(1, len(keys)))
            looks.append(look())
            self._call("Input.dispatchKeyEvent", page, type="keyUp", **pressed)
        # a busy machine draws few pictures; an error, or the first change, may come in a later one
        patience, enough = _Patience(self._program, cpu=2.0 * seconds, wall=20.0 * seconds), _FRAMES_A_SECOND * seconds
        while (evaluated("frames_seen") or 0) < enough * (1 if len(set(looks)) > 1 else 10) and not patience.over():
            self._idle(0.1)
            looks.append(look())
        shot = self._call("Page.captureScreenshot", page, format="jpeg", quality=70)["data"]
        return replace(
            seen, painted=max(n for n, _ in looks) > 1, changes=len(set(looks)) > 1, picture=base64.b64decode(shot)
        )

    def _complaints(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found: dict[str, list[str]] = {"error": [], "warning": []}
        for event in self._events:
            params, kind, text = event["params"], "error", ""
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                text = str(details.get("exception", {}).get("description") or details["text"])
                text = f"{text.splitlines()[0]} (line {details.get('lineNumber', 0) + 1})"
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert", "warning"):
                kind = "warning" if params["type"] == "warning" else "error"
                text = " ".join(str(one.get("value", one.get("description", ""))) for one in params["args"])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in found:
                kind, text = params["entry"]["level"], params["entry"]["text"]
            elif event["method"] == "asked":
                text = f"it asks for {params['url']}"
            text = " ".join(text.split())[:200]
            if text and text not in found[kind] and len(found[kind]) < 10:
                found[kind].append(text)
        return tuple(found["error"]), tuple(found["warning"])

    # ------------------------------------------------------------------------------------------------ the pipe
    def _send(self, method: str, page: str = "", **params: Any) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": page} if page else {})
        data = memoryview(json.dumps(message).encode() + b"\0")
        try:
            while data:
                if not select.select([], [self._to], [], _WALL_S)[1]:
                    raise _Over("hangs")
                data = data[os.write(self._to, data[: select.PIPE_BUF]) :]
        except BrokenPipeError:
            raise _Over("crashed") from None
        return self._number

    def _call(self, method: str, page: str = "", *, start: bool = False, **params: Any) -> dict[str, Any]:
        number = self._send(method, page, **params)
        patience = _Patience(self._program, *((10 * _CPU_S, 3 * _WALL_S) if start else ()))
        while True:
            for message in self._pump(patience.look()):
                if message.get("id") == number:
                    if "error" in message:
                        raise _Over("leaves" if "context" in str(message["error"]) else "crashed")
                    return message["result"]

    def _idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._pump(until)

    def _pump(self, until: float) -> list[dict[str, Any]]:
        """Answers that came by ``until`` (or one read's worth of them); events are kept, and requests refused."""
        program = self._program
        assert program is not None
        program.wait(until, self._from)
        if not select.select([self._from], [], [], 0)[0]:
            if program.end or program.error or program.limit:
                raise _Over("crashed")
            return []
        data = os.read(self._from, 1 << 18)
        if not data:
            raise _Over("crashed")
        self._bytes += len(data)
        *whole, self._buffer = (self._buffer + data).split(b"\0")
        answers: list[dict[str, Any]] = []
        for message in map(json.loads, whole):
            if "method" not in message:
                answers.append(message)
            else:
                self._event(message)
        if self._bytes > _FLOOD_BYTES or len(self._events) > _FLOOD_MESSAGES:
            raise _Over("floods")
        return answers

    def _event(self, message: dict[str, Any]) -> None:
        params, page = message["params"], message.get("sessionId", "")
        if message["method"] == "Fetch.requestPaused":
            self._request(page, params)
        elif message["method"] == "Page.javascriptDialogOpening":
            self._events.append({"method": "asked", "params": {"url": f"a dialog: {params['message']}"}})
            self._send("Page.handleJavaScriptDialog", page, accept=False)
        elif message["method"] == "Inspector.targetCrashed":
            raise _Over("crashed")
        elif message["method"] == "Page.frameNavigated" and params["frame"].get("url") not in (_ADDRESS, "about:blank"):
            raise _Over("leaves")
        else:
            self._events.append(message)

    def _request(self, page: str, params: dict[str, Any]) -> None:
        if params["request"]["url"] == _ADDRESS and self._html is not None:
            body, self._html = base64.b64encode(self._html.encode("utf-8", "replace")).decode(), None
            headers = [
                {"name": "Content-Type", "value": "text/html; charset=utf-8"},
                {"name": "Content-Security-Policy", "value": f"{POLICY}; sandbox allow-scripts"},
            ]
            self._send(
                "Fetch.fulfillRequest",
                page,
                requestId=params["requestId"],
                responseCode=200,
                responseHeaders=headers,
                body=body,
            )
            return
        if not params["request"]["url"].endswith("/favicon.ico"):
            self._events.append({"method": "asked", "params": {"url": params["request"]["url"][:150]}})
        self._send("Fetch.failRequest", page, requestId=params["requestId"], errorReason="AccessDenied")

    def _kill(self) -> None:
        if self._program is not None:
            self._program.stop()
            self._program.finish()
            self._program = None
            for fd in (self._to, self._from):
                with contextlib.suppress(OSError):
                    os.close(fd)
