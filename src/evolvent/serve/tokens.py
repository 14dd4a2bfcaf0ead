"""Tokens: who may do what in which scopes. Only their hashes are kept, in a file that its owner alone can read."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from evolvent.core.errors import BadInput, closest
from evolvent.core.jsonfile import read_object, write_atomic
from evolvent.memory.outcome import SOURCES
from evolvent.memory.text import clean_word

MAY = ("recall", "outcome", "remember", "read")
_TOKEN = re.compile(r"ev1_([0-9a-f]{8})_([\w-]{43})", re.ASCII)


@dataclass(frozen=True)
class Token:
    """What a token allows.

    Args:
        name: who has it; memories that it writes have it as their source.
        scopes: of the store, by name; never all.
        may: of ``MAY``.
        sources: of outcomes, that it may claim.
    """

    name: str
    scopes: tuple[str, ...]
    may: tuple[str, ...] = MAY
    sources: tuple[str, ...] = SOURCES

    def __post_init__(self) -> None:
        clean_word(self.name, what="a name", where="a token")
        for scope in self.scopes:
            clean_word(scope, what="a scope", where="a token", limit=200)
        for given, known in ((self.may, MAY), (self.sources, SOURCES)):
            for word in given:
                if word not in known:
                    raise BadInput("a token cannot allow that", got=word, expected=closest(word, known))
        if not self.scopes or not self.may:
            raise BadInput("a token that allows nothing", got=self.name, expected="at least one scope and permission")


class Tokens:
    """The tokens of a store, and the key of its handles. What another process changes is seen at the next request.

    Args:
        path: the file; made when missing.

    Raises:
        BadInput: others can read it, or it is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._kept: dict[str, dict[str, Any]] = {}
        self.key = b""
        if not path.exists():
            self.key = secrets.token_bytes(32)
            self._write({})
        self._read()

    def new(self, token: Token) -> str:
        """Add a token; its text is told here and never again."""
        self._read()
        if token.name in self.named:
            do = "take another name, or revoke it first"
            raise BadInput("there is such a token", got=token.name, where=str(self.path), do=do)
        id_ = secrets.token_hex(4)
        text = f"ev1_{id_}_{secrets.token_urlsafe(32)}"
        self._write({**self._kept, id_: {"sha256": _hash(text), **asdict(token)}})
        return text

    def revoke(self, name: str) -> None:
        """Remove a token; requests that are under way are finished."""
        self._read()
        if name not in self.named:
            raise BadInput("no such token", got=name, expected=closest(name, self.named), where=str(self.path))
        self._write({id_: one for id_, one in self._kept.items() if one["name"] != name})

    @property
    def named(self) -> dict[str, Token]:
        """All tokens by their name."""
        self._read()
        return {one["name"]: _token(one) for one in self._kept.values()}

    def of(self, text: str) -> Token | None:
        """What a text allows; ``None`` where it is no token of ours."""
        self._read()
        found = _TOKEN.fullmatch(text)
        one = self._kept.get(found[1]) if found else None
        return _token(one) if one and hmac.compare_digest(one["sha256"], _hash(text)) else None

    def _read(self) -> None:
        state = self.path.stat()
        if self._seen == (seen := (state.st_mtime_ns, state.st_ino)):
            return
        if state.st_mode & 0o077:
            do = f"chmod 600 {self.path}"
            raise BadInput("others can read the tokens", got=oct(state.st_mode & 0o777), where=str(self.path), do=do)
        found = read_object(self.path, "the tokens of a store")
        try:
            self.key, self._kept, self._seen = bytes.fromhex(found["key"]), found["tokens"], seen
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput("these are no tokens", got=str(self.path), expected="a file that serve made") from error

    def _write(self, kept: dict[str, dict[str, Any]]) -> None:
        write_atomic(self.path, json.dumps({"key": self.key.hex(), "tokens": kept}, indent=1) + "\n", mode=0o600)


def _token(kept: dict[str, Any]) -> Token:
    lists = {name: tuple(cast("Sequence[str]", kept[name])) for name in ("scopes", "may", "sources")}
    return Token(kept["name"], **lists)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def handle(key: bytes, scope: str, receipt: str) -> str:
    """A receipt as clients name it, ``r12.`` and 16 letters: nobody can guess it, and it holds in its scope alone."""
    tail = hmac.digest(key, f"{len(scope)}:{scope}:{receipt}".encode(), "sha256")[:10]
    return f"{receipt}.{base64.b32encode(tail).decode().lower()}"


def receipt_of(key: bytes, scope: str, given: str) -> str:
    """The receipt that a handle names.

    Raises:
        BadInput: none of this scope.
    """
    receipt = given.partition(".")[0]
    if not hmac.compare_digest(given.encode(), handle(key, scope, receipt).encode()):
        raise BadInput(
            "unknown receipt",
            got=given,
            expected="the receipt that a recall answered with, under a token of the same scope",
            code="unknown_receipt",
        )
    return receipt
