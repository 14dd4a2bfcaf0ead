"""Arrays in an npz file beside the text file that describes them; its name follows its content.

So an interrupted save leaves the old pair intact, and a file that was changed or swapped does not fit its name.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import write_atomic


def blob_name(beside: Path, columns: Mapping[str, np.ndarray]) -> str:
    """``<stem>.<hash>.npz``, for the arrays that the file ``beside`` describes."""
    return f"{beside.stem}.{_digest(columns)}.npz"


def write_blob(beside: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write the arrays, none of objects, under their ``blob_name``."""
    buffer = io.BytesIO()
    np.savez(buffer, **cast("dict[str, Any]", columns))
    write_atomic(beside.with_name(blob_name(beside, columns)), buffer.getvalue())


def drop_old(beside: Path, newest: str) -> None:
    """Remove the blobs of what stood in ``beside`` before."""
    for old in beside.parent.glob(f"{beside.stem}.????????????.npz"):
        if old.name != newest:
            old.unlink()


def read_blob(path: Path, where: str, what: str) -> dict[str, np.ndarray]:
    """The arrays in the order of the file.

    Raises:
        BadInput: missing, damaged, or another one under this name; ``what`` it is, ``where`` it was asked for.
    """
    try:
        with np.load(path, allow_pickle=False) as blob:
            arrays: dict[str, np.ndarray] = {name: blob[name] for name in blob.files}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as err:
        raise BadInput(
            f"{what} cannot be read",
            got=f"{path}: {err}",
            where=where,
            do="keep the .npz beside the file that names it",
        ) from err
    if path.name.split(".")[-2] != _digest(arrays):
        raise BadInput(f"{what} does not match its name", got=_digest(arrays), expected=path.name, where=where)
    return arrays


def _digest(columns: Mapping[str, np.ndarray]) -> str:
    """Of the arrays in their order in the file."""
    return hashlib.sha256(b"".join(array.tobytes() for array in columns.values())).hexdigest()[:12]
