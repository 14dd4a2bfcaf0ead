"""`evolvent-mcp`: the tools of a server that runs, for clients that speak MCP on standard input and output.

Each line is posted to the server that ``client.found`` knows, or to the default address, and what comes back is a line.
The standard library alone, so that it is there before a client stops waiting for its tools.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from evolvent.serve.client import found

_WITHIN_S = 60.0
_MOST = 8 * 1024 * 1024  # bytes of an answer
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_FAILED = -32000
# of this machine mostly: no proxy stands between, and an answer that points elsewhere is none
_opener = urllib.request.OpenerDirector()
for _handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler):
    _opener.add_handler(_handler())
_opener.add_handler(urllib.request.HTTPErrorProcessor())


class Bridge:
    """What is said on one side, said on the other.

    Args:
        server: its address.
        token: "": none is needed.
        scope: "": the token's only one.
    """

    def __init__(self, server: str = "http://127.0.0.1:8765", token: str = "", scope: str = "") -> None:
        self._url, self._token, self._scope = server.rstrip("/") + "/mcp", token, scope
        self._agreed, self._lock = "", threading.Lock()

    def hear(self, line: bytes, pool: ThreadPoolExecutor) -> None:
        """Answer a line; only what agrees on a revision is waited for."""
        try:
            said = json.loads(line)
            method = said["method"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # an answer to a question that was never asked, or nothing
        if method == "initialize":
            self._agreed = self._post(said).get("result", {}).get("protocolVersion", "")
        else:
            pool.submit(self._post, said)

    def _post(self, said: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._asked(said)
        except Exception as error:  # noqa: BLE001 - the client is told, and asks again or goes on without
            answer = _error(f"the memory's server does not answer at {self._url} ({type(error).__name__}): start it")
        if said.get("id") is None:
            return {}
        answer = {"jsonrpc": "2.0", "id": said["id"], **answer}
        with self._lock:
            sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
            sys.stdout.flush()
        return answer

    def _asked(self, said: dict[str, Any]) -> dict[str, Any]:
        method, params = said["method"], said.get("params") or {}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._scope:
            headers["X-Evolvent-Scope"] = self._scope
        if modern := params.get("_meta", {}).get(_VERSION):
            headers |= {"MCP-Protocol-Version": modern, "Mcp-Method": method}
            if name := params.get(_NAMES.get(method, "")):
                headers["Mcp-Name"] = _in_header(name)
        elif self._agreed:
            headers["MCP-Protocol-Version"] = self._agreed
        request = urllib.request.Request(self._url, json.dumps(said).encode(), headers, method="POST")
        try:
            with _opener.open(request, timeout=_WITHIN_S) as came:
                found = json.loads(came.read(_MOST) or b"{}")
        except urllib.error.HTTPError as error:
            found = json.loads(error.read(_MOST) or b"{}")
        if "title" in found:  # a problem of ours (RFC 9457)
            return _error("; ".join(str(found[name]) for name in ("title", "do") if name in found))
        return {name: found[name] for name in ("result", "error") if name in found}


def _error(what: str) -> dict[str, Any]:
    return {"error": {"code": _FAILED, "message": what}}


def _in_header(name: str) -> str:
    """As the protocol puts a name into a header."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?"):
        return name
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="


def main() -> None:
    """Until the client closes standard input."""
    bridge = Bridge(**(found() or {}))
    with ThreadPoolExecutor(8) as pool:
        for line in sys.stdin.buffer:
            bridge.hear(line, pool)


if __name__ == "__main__":
    main()
