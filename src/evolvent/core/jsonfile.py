"""JSON files that survive a kill: atomic replacement, whole lines, masked keys, no home folders."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from evolvent.core.errors import BadInput

LONE_SURROGATES = "backslashreplace"  # "\\ud800" is how JSON spells half a character, and reads it back exactly
_KEY_LIKE = re.compile(
    r"\b(?:sk-|hf_|ghp_|gho_|github_pat_|xox[abp]-|AKIA)[A-Za-z0-9_\-]{12,}"  # access keys of common services
    r"|(?<=://)[^/\s\"@:]+:[^/\s\"@]+(?=@)"  # user:password@ in an address
)
_SHORTEST = len("://u:p@")
_KEY_NAMES = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def dump(value: object, indent: int | None = None, *, ascii_only: bool = False) -> str:
    """JSON text that any reader accepts: numpy scalars as numbers, NaN and infinities as null, keys masked.

    ``ascii_only``: other characters as escapes, for a terminal, which obeys some of them.
    """
    text = json.dumps(_plain(value, _secrets()), ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return text.replace("\x7f", "\\u007f") if ascii_only else text


def mask_secrets(text: str) -> str:
    """``text`` with ``***`` for what looks like an access key and for the values of ``*_API_KEY``, ``*_TOKEN``, …"""
    return _masked(text, _secrets())


def _secrets() -> list[str]:
    return [value for name, value in os.environ.items() if len(value) >= 8 and name.upper().endswith(_KEY_NAMES)]


def _masked(text: str, secrets: Sequence[str]) -> str:
    if len(text) < _SHORTEST:  # most are words or tokens
        return text
    for secret in secrets:
        text = text.replace(secret, "***")
    return _KEY_LIKE.sub("***", text)


def _plain(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _masked(value, secrets)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, secrets) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item, secrets) for item in cast("Sequence[object]", value)]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _plain(value.tolist(), secrets)
    raise BadInput(
        "not a JSON value",
        got=f"{type(value).__name__}: {value!r}",
        expected="numbers, text, lists, mappings",
        where="RunFolder",
    )


def check_target(path: Path | None, where: str) -> None:
    """Refuse, before the work is done, a file that could not be written after it; ``None`` is no file.

    Raises:
        BadInput: its folder is not there, or it is a folder itself.
    """
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        what = "the target is a folder" if path.is_dir() else "no such folder"
        raise BadInput(what, got=str(path), expected="a file in a folder that is there", where=where)


def write_atomic(path: Path, content: str | bytes | Iterable[str], *, mode: int = 0o666) -> None:
    """Replace ``path`` by a file with ``content``, or its parts: temporary file, fsync, rename, fsync of the folder.

    ``mode``: who may read and write it, less what the process allows nobody.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            for part in [content] if isinstance(content, str | bytes) else content:
                file.write(part.encode("utf-8", LONE_SURROGATES) if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # a full disk, or no next part: nothing of it stays
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cut_torn_line(path: Path) -> int:
    """Cut what follows the last newline of ``path``; returns the number of bytes cut."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        file.truncate(end)
    return size - end


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a JSONL file, parsed; a torn last line is ignored, a missing file is empty."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # torn by a kill, or being written at this moment
            try:
                yield json.loads(line)
            except ValueError as error:
                raise BadInput(
                    "a line is not JSON",
                    got=line[:120],
                    expected="one JSON object a line",
                    where=f"{path}:{number}",
                    do="remove that line, or restore the file",
                ) from error


def read_object(path: Path, expected: str) -> dict[str, Any]:
    """The JSON object in ``path``; ``expected`` says in an error what the folder should have been."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInput(f"there is no {path.name}", got=str(path.parent), expected=expected, where=str(path)) from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(
            f"{path.name} is not JSON", got=text[:120], expected="one JSON object", where=str(path)
        ) from error


def lock(file: IO[bytes] | int, path: Path) -> None:
    """Hold an exclusive advisory lock on an open file (or its descriptor) until it is closed, or raise ``BadInput``.

    Raises:
        BadInput: another process holds it.
        OSError: a descriptor that cannot be locked, as of a folder on some file systems.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system: nothing to lock with
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if isinstance(file, int):
            if not isinstance(error, BlockingIOError):
                raise
        else:
            file.close()
        raise BadInput(
            "another process is writing to this run folder",
            got=str(path),
            expected="one writer at a time",
            where="RunFolder",
            do="wait until it has ended, or choose another --out",
        ) from error


def shorten_home(value: Any) -> Any:
    """Home folders name people: store them as ``~``."""
    home = str(Path.home())
    if isinstance(value, str):
        return re.sub(rf"(?<![\w.-]){re.escape(home)}(?={re.escape(os.sep)})", "~", value) if len(home) > 1 else value
    return _map_strings(value, shorten_home)


def expand_home(value: Any) -> Any:
    """The inverse of ``shorten_home``, for strings that start with ``~/``."""
    if isinstance(value, str):
        return str(Path(value).expanduser()) if value.startswith("~" + os.sep) else value
    return _map_strings(value, expand_home)


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [change(item) for item in cast("Sequence[Any]", value)]
    return value
