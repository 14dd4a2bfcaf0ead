"""Who tells a server what happened: the standard library only, and no word where there is no server.

A file that runs alone (``python -I -S client.py``), since it starts beside every command of an agent.
"""

from __future__ import annotations

import json
import os
import socket
import sys

CONNECT_S = 0.05
"""A server on this machine answers the door at once."""
_COMMITS, _MOST = 50, 1 << 20
_REVERTS = "This reverts commit "


def settings_file() -> str:
    """Where the address and the token of this machine's server stand, unless ``EVOLVENT_SERVER`` names another."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "evolvent", "client.json")


def found() -> dict[str, str] | None:
    """``server``, ``token`` and ``scope`` (or ""); None where nobody said where a server is."""
    if server := os.environ.get("EVOLVENT_SERVER"):
        names = {"token": "EVOLVENT_TOKEN", "scope": "EVOLVENT_SCOPE"}
        return {"server": server, **{name: os.environ.get(variable, "") for name, variable in names.items()}}
    try:
        with open(settings_file(), encoding="utf-8") as file:
            kept = json.load(file)
        return {name: str(kept.get(name) or "") for name in ("server", "token", "scope")}
    except (OSError, ValueError, AttributeError):
        return None


def post(path: str, body: dict[str, object], within_s: float) -> dict[str, object] | None:
    """The answer of the server, or None: it is not there, too slow, or refused."""
    at = found()
    try:
        if at is None:
            return None
        secure, (host, port) = at["server"].startswith("https:"), _address(at["server"])
        text = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {at['token']}", "Connection": "close"}
        if at["scope"]:
            headers["X-Evolvent-Scope"] = at["scope"]
        if secure:
            from http.client import HTTPSConnection

            asked = HTTPSConnection(host, port, timeout=within_s)
            asked.request("POST", path, text, headers)
            answer = asked.getresponse()
            status, said = answer.status, answer.read(_MOST)
        else:
            status, said = _plain(host, port, path, headers, text, within_s)
        told = json.loads(said) if status == 200 else None
        return told if isinstance(told, dict) else None
    except (OSError, ValueError, KeyError):
        return None


def _address(server: str) -> tuple[str, int]:
    kind, _, rest = server.partition("://")
    host, _, port = rest.partition("/")[0].rpartition(":")
    return (host.strip("[]"), int(port)) if host else (port, 443 if kind == "https" else 80)


def _plain(host: str, port: int, path: str, headers: dict[str, str], body: bytes, within_s: float) -> tuple[int, bytes]:
    """Status and body of an answer; http.client alone would take as long to load as all of this."""
    here = host in ("127.0.0.1", "localhost", "::1")
    with socket.create_connection((host, port), CONNECT_S if here else within_s) as to:
        to.settimeout(within_s)
        every = {
            "Host": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            **headers,
            "Content-Length": len(body),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        to.sendall(f"POST {path} HTTP/1.0\r\n{head}\r\n".encode() + body)
        said = bytearray()
        while len(said) < _MOST and (part := to.recv(65_536)):
            said += part
    head, _, text = bytes(said).partition(b"\r\n\r\n")
    return int(head.split()[1]), text


# ------------------------------------------------------------------------------------------------------------- git
def top(folder: str) -> str:
    """The repository of a folder; the folder itself where there is none."""
    here = os.path.realpath(folder)
    while not os.path.exists(os.path.join(here, ".git")):
        if here == (here := os.path.dirname(here)):
            return os.path.realpath(folder)
    return here


def git(repo: str) -> dict[str, object] | None:
    """The newest commits of the branch that is checked out, for the server to see which are new and which revert."""
    import subprocess

    command = ["git", "-C", repo, "log", "-n", str(_COMMITS), "--first-parent", "-z", "--format=%H %ct %B"]
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=2.0
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commits = list[dict[str, object]]()
    for text in said.stdout.decode("utf-8", "replace").split("\0"):
        sha, _, rest = text.partition(" ")
        at, _, message = rest.partition(" ")
        if at.isdigit():
            one: dict[str, object] = {"sha": sha, "at": int(at)}
            reverted = message.partition(_REVERTS)[2][: len(sha)]
            if len(reverted) == len(sha) and all(c in "0123456789abcdef" for c in reverted):
                one["reverts"] = reverted
            commits.append(one)
    return {"repo": repo, "commits": commits} if commits else None


def tell(kind: str, folder: str, within_s: float, **said: object) -> None:
    """Say what a run in a folder came to: ``POST /v1/evidence``. Silent in every case."""
    if found() is None:
        return
    repo = top(folder)
    body = {"kind": kind, "about": {"repo": repo}, **said}
    if (seen := git(repo)) is not None:
        body["git"] = seen
    post("/v1/evidence", body, within_s)


if __name__ == "__main__":
    sys.exit(0)
