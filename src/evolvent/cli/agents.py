"""`evolvent agents`: hooks by which coding agents recall notes and tell what came of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from evolvent.cli import serve
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.live import Live
from evolvent.serve import client
from evolvent.serve.tokens import Token, Tokens

Agent = Literal["claude", "codex", "gemini"]
Project = Annotated[Path | None, arg(help="of this folder alone; default: of the user.")]
_OURS = re.compile(r"[/\\\\]serve[/\\\\]client\.py'? (claude|codex|gemini) ")
_WHERE = "evolvent agents"


@dataclass(frozen=True)
class _Kind:
    """Where an agent keeps its hooks, and which of its events say something.

    Args:
        home: variable that names its folder.
        folder, file: of its settings, in the user's or a project's folder.
        events: with the tools that an event is about ("" for all).
        second: what a second is in its timeouts.
        then: what a person must still do.
    """

    home: str
    folder: str
    file: str
    events: dict[str, str]
    second: int
    then: str


# PreToolUse, BeforeModel, AfterModel, …: not asked for; routing requests of Gemini are no turns and fire no BeforeAgent
KINDS: dict[str, _Kind] = {
    "claude": _Kind(
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "settings.json",
        {"UserPromptSubmit": "", "PostToolUse": "Bash", "PostToolUseFailure": "Bash", "Stop": "", "SessionEnd": ""},
        1,
        "sessions that run now see it when they are started again",
    ),
    "codex": _Kind(
        "CODEX_HOME",
        ".codex",
        "hooks.json",
        {"UserPromptSubmit": "", "Stop": ""},
        1,
        "open /hooks in Codex and trust them: until then it skips them without a word. It does not tell exit codes: "
        "run checks by `evolvent watch`, or pytest with the plug-in",
    ),
    "gemini": _Kind(
        "",
        ".gemini",
        "settings.json",
        {"BeforeAgent": "", "AfterAgent": ""},
        1000,
        "start it again. It does not tell exit codes: run checks by `evolvent watch`, or pytest with the plug-in",
    ),
}


def install(agent: Positional[Agent], *, store: str = "", project: Project = None, tokens: serve.File = None) -> None:
    """Put hooks into the settings of a coding agent; other settings stay, a copy of the file is kept beside it.

    Its prompts recall notes, its checks and commits say what came of them. Where no server runs, it works as before.

    Example: evolvent agents install claude --store agent.db

    Args:
        agent: claude (Claude Code), codex or gemini.
        store: the memory that is served; needed where this machine has no token yet.
    """
    with Live(plain=True) as live:
        if store:
            kept = Tokens(serve.tokens_file(store, tokens))
            if agent in kept.named:
                kept.revoke(agent)
            token = Token(agent, ("default",), ("recall", "outcome", "remember"), ("tests", "proxy"))
            live.note(serve.keep(store, kept.new(token), token.scopes))
        elif client.found() is None:
            do = f"evolvent agents install {agent} --store agent.db"
            raise BadInput("which server?", expected="--store, once on this machine", where=_WHERE, do=do)
        path, kind = _path(agent, project), KINDS[agent]
        before = path.read_bytes() if path.is_file() else b""
        found = _without(_read(path, before))
        for event, tools in kind.events.items():
            command = shlex.join([sys.executable, "-I", "-S", str(Path(client.__file__).resolve()), agent, event])
            one: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": 2 * kind.second}]}
            found.setdefault("hooks", {}).setdefault(event, []).append({"matcher": tools, **one} if tools else one)
        text = _text(found, before)
        if text != before:
            path.parent.mkdir(parents=True, exist_ok=True)
            if before and not _commands(_read(path, before)):
                write_atomic(_backup(path), before.decode(), mode=path.stat().st_mode & 0o777)
            write_atomic(path, text.decode(), mode=path.stat().st_mode & 0o777 if before else 0o600)
        live.note(f"{path}: hooks for {', '.join(kind.events)}; {kind.then}")


def remove(agent: Positional[Agent], *, project: Project = None) -> None:
    """Take the hooks out of an agent's settings again. A file that nobody changed since is what it was, byte for byte.

    Example: evolvent agents remove claude
    """
    path = _path(agent, project)
    now = path.read_bytes() if path.is_file() else b""
    backup, found = _backup(path), _without(_read(path, now))
    if _commands(_read(path, now)):
        first = backup.read_bytes() if backup.is_file() else b""
        if _read(path, first) != found:
            first = _text(found, now)
        if first:
            write_atomic(path, first.decode(), mode=path.stat().st_mode & 0o777)
        else:  # it was made by us
            path.unlink()
    backup.unlink(missing_ok=True)
    sys.stdout.write(f"{path}: no hooks of evolvent\n")


def status(*, project: Project = None) -> None:
    """Which agents have hooks, and when one of theirs last ran.

    Example: evolvent agents status
    """
    with Live(plain=True) as live:
        rows = []
        for agent in KINDS:
            path = _path(agent, project)
            events = len(_commands(_read(path, path.read_bytes()))) if path.is_file() else 0
            rows.append([agent, str(path), f"{events} hooks" if events else "none", _fired(agent)])
        live.table("Agents", ["agent", "settings", "installed", "last ran"], rows)


def doctor(agent: Positional[Agent], *, project: Project = None) -> None:
    """Look what keeps an agent's hooks from working; exit code 2 where something does.

    Example: evolvent agents doctor claude
    """
    path, kind, wrong = _path(agent, project), KINDS[agent], list[str]()
    commands = _commands(_read(path, path.read_bytes())) if path.is_file() else []
    if len(commands) != len(kind.events):
        wrong.append(f"{path} has {len(commands)} of {len(kind.events)} hooks: evolvent agents install {agent}")
    for file in {word for command in commands for word in shlex.split(command) if os.path.isabs(word)}:
        if not os.path.exists(file):
            wrong.append(f"{file} is gone: evolvent agents install {agent}")
    wrong += [said] if (said := _server()) else []
    if commands and _fired(agent) == "never":
        wrong.append(f"the hooks never ran: {kind.then}")
    with Live(plain=True) as live:
        for line in wrong or [f"{agent}: hooks are installed, ran ({_fired(agent)}), and the server answers"]:
            live.note(line)
    if wrong:
        sys.exit(2)


def _server() -> str:
    """What is wrong with the server or the token; "" where nothing is."""
    at = client.found()
    if at is None:
        return f"no server is named in {client.settings_file()}: evolvent agents install AGENT --store STORE"
    headers = {"Authorization": f"Bearer {at['token']}", "Content-Type": "application/json"}
    headers |= {"X-Evolvent-Scope": at["scope"]} if at["scope"] else {}
    try:
        urllib.request.urlopen(urllib.request.Request(f"{at['server']}/v1/evidence", b"{}", headers), timeout=5.0)
    except urllib.error.HTTPError as error:  # that nothing was said is refused, after the token was looked at
        refusal = f"{at['server']} refuses the token ({error.code}): evolvent agents install AGENT --store STORE"
        return "" if error.code == 422 else refusal
    except OSError as error:
        return f"{at['server']} does not answer ({error}): evolvent serve STORE"
    return ""


def _path(agent: str, project: Path | None) -> Path:
    kind = KINDS[agent]
    if project is not None:
        return project / kind.folder / kind.file
    home = os.environ.get(kind.home) if kind.home else None
    return (Path(home) if home else Path.home() / kind.folder) / kind.file


def _backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-evolvent")


def _read(path: Path, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode() or "{}")
        groups = found.setdefault("hooks", {}).values()
        if not all(isinstance(one, dict) for group in groups for one in group):
            raise TypeError("hooks are no lists of objects")
    except (ValueError, TypeError, AttributeError) as error:
        do = "mend it, or put the hooks in by hand: docs/server.md"
        raise BadInput("these settings cannot be read", got=str(error), where=str(path), do=do) from error
    return found


def _text(found: dict[str, Any], before: bytes) -> bytes:
    """Settings as they were written: their indent, and whether a line ends them."""
    indent = re.search(rb"\n([ \t]+)\"", before)
    kept = {name: value for name, value in found.items() if name != "hooks" or value}
    text = json.dumps(kept, ensure_ascii=False, indent=indent[1].decode() if indent else 2)
    return (text if before and not before.endswith(b"\n") else f"{text}\n").encode()


def _is_ours(one: Any) -> bool:
    return isinstance(one, dict) and _OURS.search(str(one.get("command"))) is not None


def _commands(found: dict[str, Any]) -> list[str]:
    groups = [group for event in found["hooks"].values() for group in event]
    return [one["command"] for group in groups for one in group.get("hooks", ()) if _is_ours(one)]


def _without(found: dict[str, Any]) -> dict[str, Any]:
    """Settings without our hooks; what others put beside them stays."""
    events = dict[str, Any]()
    for event, groups in found["hooks"].items():
        kept = list[Any]()
        for group in groups:
            hooks = [one for one in group.get("hooks", ()) if not _is_ours(one)]
            if len(hooks) == len(group.get("hooks", ())):
                kept.append(group)
            elif hooks:
                kept.append({**group, "hooks": hooks})
        if kept or not groups:
            events[event] = kept
    return {**found, "hooks": events}


def _fired(agent: str) -> str:
    try:
        ago = time.time() - os.stat(client.fired(agent)).st_mtime
    except OSError:
        return "never"
    return (
        "a minute ago" if ago < 120 else f"{ago / 60:.0f} minutes ago" if ago < 7200 else f"{ago / 3600:.0f} hours ago"
    )


def _agents(arguments: Sequence[str]) -> None:
    parsed({"install": install, "remove": remove, "status": status, "doctor": doctor}, arguments, _WHERE)


COMMANDS = {"agents": _agents}
