"""The vectors of a scope: those that are in a file are mapped, those behind them are in RAM."""

from __future__ import annotations

import numpy as np

_PIECE = 4096


class Vectors:
    """Rows of float32, appended only; row ``i`` stays row ``i``."""

    def __init__(self, dim: int = 0) -> None:
        self.n, self.dim = 0, dim
        self._file = np.empty((0, dim), np.float32)
        self._tail = np.empty((0, dim), np.float32)

    @property
    def in_file(self) -> int:
        """How many of them are mapped."""
        return len(self._file)

    @property
    def mapped(self) -> np.ndarray:
        """The mapped ones, float32 ``[in_file, D]``: never change, safe to read from any thread."""
        return self._file

    @property
    def tail(self) -> np.ndarray:
        """Those in RAM, float32 ``[n - in_file, D]``."""
        return self._tail[: self.n - len(self._file)]

    def room_for(self, more: int) -> None:
        """Make space for more rows."""
        used = self.n - len(self._file)
        if used + more > len(self._tail):
            self._tail = larger(self._tail, used, more)

    def extend(self, vec_ND: np.ndarray) -> None:
        """Append rows."""
        self.room_for(len(vec_ND))
        start = self.n - len(self._file)
        self._tail[start : start + len(vec_ND)] = vec_ND
        self.n += len(vec_ND)

    def truncate(self, n: int) -> None:
        """Forget the rows from ``n`` on; mapped ones stay."""
        self.n = max(n, len(self._file))

    def map(self, file_ND: np.ndarray) -> None:
        """From now on the first rows are these (the same numbers); what is behind them stays in RAM."""
        tail = self._tail[len(file_ND) - len(self._file) : self.n - len(self._file)].copy()
        self._file, self._tail = file_ND, tail
        self.n = len(file_ND) + len(tail)

    # ------------------------------------------------------------------------------------------------ looking
    def product(self, query: np.ndarray, start: int = 0) -> np.ndarray:
        """Rows from ``start`` on times a vector: float32 ``[n - start]``."""
        out = np.empty(self.n - start, np.float32)
        split = max(0, len(self._file) - start)
        if split:
            np.dot(self._file[start:], query, out=out[:split])
        if len(out) > split:
            first = max(0, start - len(self._file))
            np.dot(self.tail[first:], query, out=out[split:])
        return out

    def take(self, rows: np.ndarray) -> np.ndarray:
        """A copy of some rows, float32 ``[len(rows), D]``."""
        split = len(self._file)
        if not split:
            return self._tail[rows]
        if len(rows) == 0 or rows.max() < split:
            return self._file[rows]
        out = np.empty((len(rows), self.dim), np.float32)
        early = rows < split
        out[early], out[~early] = self._file[rows[early]], self._tail[rows[~early] - split]
        return out

    def cosines(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Products of some rows with a vector in float64 ``[len(rows)]``.

        The same bits for the same two vectors, whichever other rows are asked for and wherever they lie: sums of
        each row on its own, where a matrix product would depend on the place of the row.
        """
        wide = query.astype(np.float64)
        parts = [
            np.multiply(self.take(rows[start : start + _PIECE]), wide).sum(axis=1)
            for start in range(0, len(rows), _PIECE)
        ]
        return np.concatenate(parts) if parts else np.empty(0)


def larger(rows: np.ndarray, used: int, more: int) -> np.ndarray:
    """A copy of the first ``used`` rows with room for more; growing by half keeps the cost of a row constant."""
    new = np.empty((max(64, used + more, int(used * 1.5)), *rows.shape[1:]), rows.dtype)
    new[:used] = rows[:used]
    return new
