"""Episodes on disk: one strict-JSON object a line (``episodes.jsonl``).

The text is UTF-8 and readable without this library. Reading what was written gives equal episodes, NaN included. Files
of earlier versions may have long token arrays in an npz beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from evolvent.core.blob import drop_old, read_blob
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import write_atomic


def encode_episode(episode: Episode) -> str:
    """One line (without its newline), tokens inline.

    Raises:
        BadInput: text that is not Unicode (a lone surrogate); the message shows the place.
    """
    line = json.dumps(episode.to_dict(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as err:
        around = ascii(line[max(0, err.start - 40) : err.end + 20])
        raise BadInput(
            "text is not valid Unicode: lone surrogate",
            got=around,
            expected="text that can be written as UTF-8",
            where=f"episode {episode.id}",
            do="decode the source with errors='replace' before recording it",
        ) from err
    return line


def decode_episode(line: str | bytes) -> Episode:
    """The inverse of ``encode_episode``."""
    where = "decode_episode"
    record = _parse(line, where)
    if "tokens" in record:
        raise BadInput(
            "tokens of this episode are in another file", got=record["tokens"], where=where, do="use load_episodes"
        )
    return _build(record, where, None)


def save_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write ``episodes`` to the JSONL file ``path``, replacing it atomically.

    Raises:
        BadInput: as ``encode_episode``; the file stays as it was.
    """
    path = Path(path)
    write_atomic(path, "".join(encode_episode(episode) + "\n" for episode in episodes))
    drop_old(path, newest="")


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
            columns = None
            if "tokens" in record:
                at = record["tokens"]
                name = at["file"]
                if name not in blobs:
                    blobs[name] = read_blob(path.with_name(Path(name).name), where, "token file")
                if not {"token_ids", "logp"} <= blobs[name].keys():
                    raise BadInput("token file lacks its columns", got=sorted(blobs[name]), where=where)
                columns = {
                    key: array[int(at.get("seen", 0) if key == "seen_ids" else at["start"]) :]
                    for key, array in blobs[name].items()
                }
            episodes.append(_build(record, where, columns))
    return episodes


def _parse(line: str | bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as err:  # also bytes that are not UTF-8
        raise BadInput("line is not JSON", got=str(err), where=where, do="drop the line if a run was cut off") from err
    if not isinstance(record, dict):
        raise BadInput("line is not a JSON object", got=type(record).__name__, where=where)
    return cast("dict[str, Any]", record)


def _build(record: dict[str, Any], where: str, columns: dict[str, np.ndarray] | None) -> Episode:
    try:
        return Episode.from_dict(record, columns=columns)
    except KeyError as err:
        raise BadInput("episode lacks a field", got=sorted(record), expected=err.args[0], where=where) from err
