"""Episodes on disk: one strict-JSON object a line (``episodes.jsonl``), long token arrays in an npz beside it.

The text is UTF-8 and readable without this library. Reading what was written gives equal episodes, NaN included.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput

INLINE_TOKENS = 512
"""Episodes with more tokens than this keep them in the npz file."""


def encode_episode(episode: Episode) -> str:
    """One line (without its newline), tokens inline.

    Raises:
        BadInput: text that is not Unicode (a lone surrogate); the message shows the place.
    """
    return _line(episode.to_dict(), episode.id)


def decode_episode(line: str | bytes, *, where: str = "decode_episode") -> Episode:
    """The inverse of ``encode_episode``; ``where`` names file and line in errors."""
    record = _parse(line, where)
    if "tokens" in record:
        raise BadInput(
            "tokens of this episode are in another file", got=record["tokens"], where=where, do="use load_episodes"
        )
    return _build(record, where, None)


def save_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write ``episodes`` to the JSONL file ``path``, replacing it atomically.

    Token arrays of long episodes go to ``<stem>.<hash>.npz`` beside it: ``token_ids`` int32 and ``logp`` float32, one
    after the other, found by the ``tokens`` entry of the line. The name follows the content, so an interrupted save
    leaves the old pair intact.
    """
    path = Path(path)
    records: list[dict[str, Any]] = []
    ids: list[np.ndarray] = [np.empty(0, np.int32)]
    logps: list[np.ndarray] = [np.empty(0, np.float32)]
    start = 0
    for episode in episodes:
        inline = episode.n_tokens <= INLINE_TOKENS
        record = episode.to_dict(inline_tokens=inline)
        if not inline:
            record["tokens"] = {"file": "", "start": start}
            start += episode.n_tokens
            ids.append(episode.token_ids)
            logps.append(episode.logp)
        records.append(record)
    all_ids, all_logp, blob = np.concatenate(ids), np.concatenate(logps), ""
    if start:
        blob = f"{path.stem}.{_digest(all_ids, all_logp)}.npz"
        for record in records:
            if "tokens" in record:
                record["tokens"]["file"] = blob
    lines = [_line(record, record["id"]) + "\n" for record in records]  # before anything is written: it may refuse
    if start:
        buffer = io.BytesIO()
        np.savez(buffer, token_ids=all_ids, logp=all_logp)
        _replace(path.with_name(blob), buffer.getvalue())
    _replace(path, "".join(lines).encode("utf-8"))
    for old in path.parent.glob(f"{path.stem}.????????????.npz"):
        if old.name != blob:
            old.unlink()


def load_episodes(path: str | Path) -> list[Episode]:
    """Read a file that ``save_episodes`` (or line after line of ``encode_episode``) wrote.

    Raises:
        BadInput: no such file, a broken line, another schema, or a token file that is missing or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput("no such file of episodes", got=str(path), where="load_episodes")
    blobs: dict[str, dict[str, np.ndarray]] = {}
    episodes: list[Episode] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            record = _parse(line, where)
            tokens = None
            if "tokens" in record:
                name, at = record["tokens"]["file"], int(record["tokens"]["start"])
                if name not in blobs:
                    blobs[name] = _read_blob(path.with_name(Path(name).name), where)
                tokens = {key: array[at:] for key, array in blobs[name].items()}
            episodes.append(_build(record, where, tokens))
    return episodes


def _line(record: dict[str, Any], name: str) -> str:
    line = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as err:
        around = ascii(line[max(0, err.start - 40) : err.end + 20])
        raise BadInput(
            "text is not valid Unicode: lone surrogate",
            got=around,
            expected="text that can be written as UTF-8",
            where=f"episode {name}",
            do="decode the source with errors='replace' before recording it",
        ) from err
    return line


def _parse(line: str | bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as err:  # also bytes that are not UTF-8
        raise BadInput("line is not JSON", got=str(err), where=where, do="drop the line if a run was cut off") from err
    if not isinstance(record, dict):
        raise BadInput("line is not a JSON object", got=type(record).__name__, where=where)
    return cast("dict[str, Any]", record)


def _build(record: dict[str, Any], where: str, tokens: dict[str, np.ndarray] | None) -> Episode:
    try:
        if tokens is None:
            return Episode.from_dict(record)
        return Episode.from_dict(record, token_ids=tokens["token_ids"], logp=tokens["logp"])
    except KeyError as err:
        raise BadInput("episode lacks a field", got=sorted(record), expected=err.args[0], where=where) from err


def _read_blob(path: Path, where: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as blob:
            arrays = {name: blob[name] for name in ("token_ids", "logp")}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as err:
        raise BadInput(
            "token file cannot be read", got=f"{path}: {err}", where=where, do="keep the .npz beside its .jsonl"
        ) from err
    digest = _digest(arrays["token_ids"], arrays["logp"])
    if path.name.split(".")[-2] != digest:
        raise BadInput("token file does not match its name", got=digest, expected=path.name, where=where)
    return arrays


def _digest(token_ids: np.ndarray, logp: np.ndarray) -> str:
    return hashlib.sha256(token_ids.tobytes() + logp.tobytes()).hexdigest()[:12]


def _replace(path: Path, content: bytes) -> None:
    """Write beside ``path``, flush to disk, then rename over it."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
