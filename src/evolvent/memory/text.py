"""Texts on their way into the store: checked, masked, addressed by content."""

from __future__ import annotations

import hashlib
import math
import re

from evolvent.core.errors import BadInput

MAX_KEY_CHARS = 100_000
MAX_BODY_CHARS = 2_000_000

_SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\b(?:sk|rk|pk)-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_]{16,}\b"),
    re.compile(r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_[A-Za-z0-9_]{20,}\b|\bglpat-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bhf_[A-Za-z0-9]{20,}\b"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
    re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\bey[A-Za-z0-9_-]{15,}\.ey[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,}"),
)
# a named secret with a long value: keep the name, mask the value
_NAMED = re.compile(
    r"(?i)((?:api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|auth[_-]?token|access[_-]?token|password|passwd)"
    r"[\"']?\s*[:=]\s*[\"']?|\bbearer\s+)([A-Za-z0-9_\-./+=]{12,})"
)
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)([^\s@/]{3,})(@)", re.IGNORECASE)
# every pattern above needs one of these: a text without them is searched once instead of a dozen times
_HINT = re.compile(
    r"-----BEGIN|[rsp]k[-_]|gh[pousr]_|github_pat_|glpat-|hf_|A(?:KIA|SIA|Iza)|xox|\bey|://"
    r"|(?i:key|secret|token|passw|bearer)"
)
MASK = "[secret]"


def mask_secrets(text: str) -> str:
    """``text`` with everything that looks like a key, token or password replaced by ``[secret]``.

    Recognised: private key blocks, the key formats of common services, JSON web tokens, passwords in URLs, and long
    values after names such as ``api_key=`` or ``Bearer``. A filter against accidents, not against an adversary.
    """
    if not _HINT.search(text):
        return text
    for pattern in _SECRETS:
        text = pattern.sub(MASK, text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}\3", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def clean_text(text: str, *, what: str, where: str, limit: int = MAX_BODY_CHARS, empty: bool = False) -> str:
    """``text`` checked and with secrets masked, as it is stored.

    Raises:
        BadInput: not a string, empty (unless ``empty``), longer than ``limit`` characters, holds a zero byte or a lone
            surrogate: SQLite would cut or refuse those, so they are refused here, before anything is written.
    """
    if not isinstance(text, str):
        raise BadInput(f"{what} is not text", got=type(text).__name__, expected="str", where=where)
    if not empty and not text.strip():
        raise BadInput(f"{what} is empty", got=text, expected="text", where=where)
    if len(text) > limit:
        raise BadInput(
            f"{what} is too long",
            got=f"{len(text):,} characters",
            expected=f"at most {limit:,}",
            where=where,
            do="store a summary, and the long text outside with its path in the body",
        )
    if "\x00" in text:
        raise BadInput(f"{what} holds a zero byte", got=text[:40], expected="text without \\x00", where=where)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{what} holds a lone surrogate",
            got=f"position {error.start}",
            expected="valid Unicode",
            where=where,
            do="decode the bytes with errors='replace' before remembering them",
        ) from error
    return mask_secrets(text)


def clean_word(word: str, *, what: str, where: str, limit: int = 100) -> str:
    """A short name (kind, source, stage, objective, scope, idempotency key) that can be stored as it is.

    Raises:
        BadInput: not a string, empty, longer than ``limit``, with a zero byte or a lone surrogate.
    """
    ok = isinstance(word, str) and 0 < len(word) <= limit and "\x00" not in word
    if not ok or any("\ud800" <= c <= "\udfff" for c in word):
        raise BadInput(f"not {what}", got=ascii(word), expected=f"1 to {limit} characters of text", where=where)
    return word


def content_hash(text: str) -> str:
    """The address of a text: the first 128 bits of its SHA-256, as 32 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def finite(value: float, *, what: str, where: str, lo: float = -math.inf, hi: float = math.inf) -> float:
    """``value`` as a float; ``BadInput`` when it is no number, NaN, infinite or outside ``lo..hi``."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} is not a number", got=value, expected="a finite number", where=where) from error
    if not math.isfinite(number) or not lo <= number <= hi:
        raise BadInput(
            f"{what} is out of range",
            got=number,
            expected=f"a finite number in {lo:g}..{hi:g}",
            where=where,
            do="an outcome that could not be measured is settled with valid=False" if what == "reward" else "",
        )
    return number
