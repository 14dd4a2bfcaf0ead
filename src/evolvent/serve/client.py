"""Who tells a server what happened: the standard library only, and no word where there is no server.

A file that runs alone (``python -I -S client.py claude UserPromptSubmit``): hooks of coding agents start it, with what
happened as JSON on standard input. It ends with 0 and is silent, unless there are notes for the prompt.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys

CONNECT_S = 0.05
"""A server on this machine answers the door at once."""
_COMMITS, _NAMES, _TESTS, _MOST = 50, 50, 12_000, 1 << 20
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


def tests(passed: dict[str, bool]) -> dict[str, object]:
    """Tests by name as evidence has them: eight hexadecimal digits each, which is all that is compared."""
    from hashlib import sha256

    def told(want: bool) -> str:
        names = [name for name, ok in passed.items() if ok is want]
        return "".join(sha256(name.encode("utf-8", "replace")).hexdigest()[:8] for name in names[:_TESTS])

    failed = [name[:300] for name, ok in passed.items() if not ok]
    return {"passed": told(True), "failed": told(False), "names": failed[:_NAMES]}


def tell(kind: str, folder: str, within_s: float, **said: object) -> None:
    """Say what a run in a folder came to: ``POST /v1/evidence``. Silent in every case."""
    if found() is None:
        return
    repo = top(folder)
    body = {"kind": kind, "about": {"repo": repo}, **said}
    if (seen := git(repo)) is not None:
        body["git"] = seen
    post("/v1/evidence", body, within_s)


# ----------------------------------------------------------------------------------------------------------- hooks
PROMPT, ENDS, TOOLS = (
    ("UserPromptSubmit", "BeforeAgent"),
    ("Stop", "AfterAgent", "SessionEnd"),
    (
        "PostToolUse",
        "PostToolUseFailure",
    ),
)
AGENTS = ("claude", "codex", "gemini")
_PROMPT_S, _ELSE_S, _INPUT = 0.3, 1.0, 8 << 20
# what agents run to see whether they are right; the exit code of another command says nothing about the work
_CHECKS = re.compile(
    r"\b(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|mypy|pyright|tsc|eslint)\b|"
    r"\b(?:make|npm|pnpm|yarn|bun|cargo|go|gradlew?|mvn|dotnet|mix|bazel|just|ruff)\b[^;&|]*"
    r"\b(?:test|tests|check|lint|build|vet|clippy|verify|typecheck)\b"
)
_FAILED = re.compile(r"Exit code (\d{1,3})\b")


def hook(agent: str, event: str, said: dict[str, object]) -> dict[str, object] | None:
    """What is printed for an event of an agent; everything else is told to the server.

    A prompt opens an attempt, and its notes become context. A check that the agent ran is evidence with its exit code,
    where the agent tells that: Claude Code does, Codex does not. The end of a turn says which commits are new.
    """
    if not _there():
        return None
    name = {"session": f"{agent}:{said.get('session_id', '')}"[:200]}
    repo = top(str(said.get("cwd") or os.getcwd()))
    if event in PROMPT:
        task = str(said.get("prompt") or "")[:8000]
        turn = said.get("prompt_id") or said.get("turn_id")
        asked: dict[str, object] = {"task": task, "repo": repo, "without": list(AGENTS), **name}
        asked |= {"attempt": f"{name['session']}:{turn}"[:500]} if turn else {}
        asked |= {"git": seen} if (seen := git(repo)) else {}
        answer = post("/v1/recall", {**asked, "deadline_ms": int(1e3 * _PROMPT_S)}, _PROMPT_S) if task.strip() else None
        if answer and answer.get("fenced"):
            return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer["fenced"]}}
    elif event in TOOLS:
        given = said.get("tool_input")
        command = str(given.get("command") or "")[:4000] if isinstance(given, dict) else ""
        code = 0
        if event == "PostToolUseFailure":
            failed = _FAILED.match(str(said.get("error") or ""))
            code = int(failed[1]) if failed else -1
        if agent == "claude" and code >= 0 and _CHECKS.search(command):
            run = {"command": command, "code": code}
            if used := said.get("tool_use_id"):
                run["key"] = f"hook:{used}"[:500]
            post("/v1/evidence", {"kind": "exit", "about": name, **run}, _ELSE_S)
    elif event in ENDS and (seen := git(repo)):
        post("/v1/evidence", {"git": seen}, _ELSE_S)
    return None


def _there() -> bool:
    """Whether the server answers the door: before a process is started for it."""
    try:
        at = found()
        if at is None:
            return False
        socket.create_connection(_address(at["server"]), CONNECT_S).close()
    except (OSError, ValueError):
        return False
    return True


def fired(agent: str) -> str:
    """The file whose time says when a hook of the agent last ran."""
    return os.path.join(os.path.dirname(settings_file()), f"fired-{agent}")


def main(words: list[str]) -> None:
    """Called by an agent: ``client.py AGENT EVENT``."""
    try:
        agent, event = words
        with open(fired(agent), "a"):
            os.utime(fired(agent))
        said = json.loads(sys.stdin.buffer.read(_INPUT))
        if (shown := hook(agent, event, said)) is not None:
            sys.stdout.write(json.dumps(shown))
            sys.stdout.flush()
    except Exception:  # noqa: BLE001 - an agent goes on, whatever is wrong here
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
