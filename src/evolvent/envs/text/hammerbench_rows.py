"""HammerBench's conversations: the published sample of its repository, fetched by address and hash, never shipped.

Commit cdbe885 (December 2024) of github.com/MadeAgents/HammerBench holds 100 conversations of each of 15 types in
English, heads of files that are elsewhere in full. The repository's licence, Apache-2.0, was added in March 2025.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import EnvError
from evolvent.core.fetch import cache_dir, checked_file

COMMIT = "cdbe885bb6a1318cb97a791bfcb89c982c432410"
URL = f"https://raw.githubusercontent.com/MadeAgents/HammerBench/{COMMIT}/"
_SINGLE, _MULTI = "data/en/single-turn/", "data/en/multi-turn/HammerBench_"
FILES = {
    "ST_Perfect": (_SINGLE, "d1120c9b6c4d3d58221af58c05934cb977b9dc05a404e7f22022ba48873f98bc"),
    "ST_Imperfect": (_SINGLE, "243f658bb97a685008752cf85d0500e3dbb739c428cf2903ca4c16c6300eed54"),
    "ST_External": (_SINGLE, "ebfdc68b203c3d49eab17d9d2f2d11f5753673a5de17d04d75249196f73e63d8"),
    "ir_ST_Perfect": (_SINGLE, "42dc8567c358a74a84035dde37c7395a58f40751e2d60660879d110c27aa1e92"),
    "ir_ST_Imperfect": (_SINGLE, "e5633620dcc55a69ca18d529b5a19f137346c85554f94be640f3845c40b90a0c"),
    "ir_ST_External": (_SINGLE, "d2f4f29f8b801987ef64a33a2ccd066d66c3b0e407f6b96c92730227b4804c42"),
    "Based": (_MULTI, "5b52145c7babbd3f4f2344c1f205c821dc7c512157689238acee483ba326575d"),
    "mQmA": (_MULTI, "2261c994b1a56eaa8bdf63aa79db9f34e40d0fdf294979cd2cec1727918007e1"),
    "mQsA": (_MULTI, "edbdba06b014e4134939b60e09edf318b7179c9a4b591fa253d6af3d8f8af479"),
    "sQmA": (_MULTI, "27f2d9deb2c3eb81ab2ccf44cbecc2af7c832d9f97c4951a6a9f28dfb2cfd606"),
    "IS": (_MULTI, "fe8892d813f1bcfd561089ad91b738e7d290aa331666040ec2fe68950c3f0dfa"),
    "SO_case1": (_MULTI, "00f61c6390384cbfb7a43155d6638658e63b9a71a1a8f9cdd7fc33084ce98f49"),
    "SO_case2": (_MULTI, "25b6e1be2e6fe2710f5b42a9c75fc11da3c348857a45e1198d46007f0aa7ebfc"),
    "mSv": (_MULTI, "e6c7997a867011183603309246276714247aff4117e6e74f6ec2d6c584193ac3"),
    "External": (_MULTI, "161ef69dabf5d4059347aa5854ab0257407e962687f4ea2e12a572467bfe91c6"),
}
"""By type: where in the repository, and the SHA-256 of the file."""


@dataclass(frozen=True)
class Moment:
    """A snapshot: all that was said until now, the functions there are, and the gold call; ``None`` = none fits."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]]
    gold: Mapping[str, Any] | None

    @property
    def said(self) -> str:
        """All that was said, as text."""
        return "\n".join(f"{one['role']}: {one['content']}" for one in self.messages)


@dataclass(frozen=True)
class Conversation:
    """A row: its snapshots, one a turn of the user; ``function`` is what it is about."""

    name: str
    kind: str
    function: str
    moments: Sequence[Moment]


def conversations(kind: str, folder: str | Path = "") -> list[Conversation]:
    """The conversations of one type.

    Args:
        kind: one of ``FILES``.
        folder: a clone of the repository at that commit, or where its files are downloaded to; default:
            ``data/hammerbench`` in the cache.

    Raises:
        EvolventError: no network, or another file than the one that is known here.
    """
    place = Path(folder).expanduser() if folder else cache_dir() / "data" / "hammerbench"
    start, sha256 = FILES[kind]
    return _read(checked_file(f"{URL}{start}{kind}.json", sha256, place / f"{start}{kind}.json"), kind)


@lru_cache(maxsize=len(FILES))
def _read(path: Path, kind: str) -> list[Conversation]:
    rows = json.loads(path.read_text("utf-8"))
    return [_conversation(row, kind, i) for i, row in enumerate(rows)]


def _conversation(row: Mapping[str, Any], kind: str, number: int) -> Conversation:
    """A row of the file. Turns: what the user says, the call that is then due, what the assistant says."""
    moments, history = list[Moment](), list[dict[str, Any]]()
    messages = row["messages"]
    for i, message in enumerate(messages):
        if message["role"] in ("user", "assistant"):
            history.append(message)
        if message["role"] == "user":
            due = messages[i + 1] if i + 1 < len(messages) else {}
            tools = row["multiple_tools"] if not moments else row["single_tool"]
            gold = due["content"] if due.get("role") == "function call" else None
            # of these the gold call's function was taken out of the list
            moments.append(Moment(tuple(history), tools, None if kind.startswith("ir_") else gold))
    if not moments:
        raise EnvError("a conversation without a user", got=number, where=kind)
    return Conversation(f"{kind}_{row.get('id', number)}", kind, messages[1]["content"]["name"], moments)
