"""A ``Rollout`` on disk: a JSON manifest and an npz with its columns beside it.

Both can be read without this library: the manifest names each column with its axes' lengths and its dtype. What was
stored can be credited again (``RolloutLedger``), replayed, or learned from without an environment. Schema 1 had no
observations after the last row and at ends and no parts of a reward; where a run had ``ids``, each agent's one-hot
number stood behind its observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from evolvent.core.blob import blob_name, drop_old, read_blob, write_blob
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, read_object, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.rollout import Rollout

SCHEMA = 2
_COLUMNS = tuple(field.name for field in fields(Rollout) if field.name not in ("agents", "parts"))


def save_rollout(path: str | Path, rollout: Rollout, more: Mapping[str, np.ndarray] | None = None) -> None:
    """Write ``rollout`` to the manifest ``path`` (``NAME.json``) and the npz that it names, replacing both atomically.

    ``more`` are further columns by name, which ``load_columns`` reads.

    Raises:
        BadInput: a column of Python objects.
    """
    path = Path(path)
    found = {name: getattr(rollout, name) for name in _COLUMNS}
    columns = {name: np.asarray(array) for name, array in found.items() if array is not None} | dict(more or {})
    for name, array in columns.items():
        if array.dtype.kind not in "biuf":
            raise BadInput(
                f"{name} cannot be stored", got=array.dtype, expected="bool, integers or floats", where=str(path)
            )
    blob = blob_name(path, columns)
    manifest = {
        "kind": "rollout",
        "schema": SCHEMA,
        "agents": list(rollout.agents),
        "parts": list(rollout.parts),
        "file": blob,
        "columns": _described(columns),
        "more": list(more or {}),
        **provenance(),
    }
    write_blob(path, columns)
    write_atomic(path, dump(manifest, indent=1) + "\n")
    drop_old(path, blob)


def load_rollout(path: str | Path) -> Rollout:
    """Read what ``save_rollout`` wrote; columns have the dtype they had.

    Raises:
        BadInput: missing, damaged, not a rollout, or of a newer schema.
    """
    columns, manifest = _read(Path(path))
    known = {name: array for name, array in columns.items() if name in _COLUMNS}
    return Rollout(**known, agents=tuple(manifest["agents"]), parts=tuple(manifest.get("parts", ())))


def load_columns(path: str | Path) -> dict[str, np.ndarray]:
    """The further columns that ``save_rollout`` was given, by name; errors as ``load_rollout``."""
    columns, manifest = _read(Path(path))
    return {name: columns[name] for name in manifest.get("more", ())}


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All columns, and the manifest."""
    read: Any = read_object(path, "the manifest of a stored rollout (core.rollout_codec.save_rollout)")
    manifest = cast("dict[str, Any]", read if isinstance(read, dict) else {})
    if manifest.get("kind") != "rollout":
        raise BadInput("this is no stored rollout", expected='a manifest with "kind": "rollout"', where=str(path))
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise BadInput(
            f"the rollout was written by a newer version of evolvent: schema {schema}, this one reads up to {SCHEMA}",
            where=str(path),
            do="upgrade evolvent",
        )
    lacking = {"file", "columns", "agents"} - manifest.keys()
    if lacking:
        raise BadInput(
            "the manifest of a rollout lacks a field", got=sorted(manifest), expected=sorted(lacking), where=str(path)
        )
    columns = read_blob(path.with_name(Path(str(manifest["file"])).name), str(path), "file of columns")
    if _described(columns) != manifest["columns"] or not columns.keys() <= {*_COLUMNS, *manifest.get("more", ())}:
        raise BadInput(
            "the columns are not those of the manifest",
            got=_described(columns),
            expected=manifest["columns"],
            where=str(path),
        )
    return columns, manifest


def _described(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in columns.items()}
