"""One seed tree: every random stream has a path of names below the run's seed, whatever the call order."""

from __future__ import annotations

import hashlib
import operator

import numpy as np

from evolvent.core.errors import BadInput


def seed_tree(seed: int, *path: str | int) -> int:
    """The seed at ``path`` below ``seed``: an integer in [0, 2**63), the same on every machine and in every version.

    Parts are hashed with type and length, so ``("a", "b")``, ``("ab",)``, ``("1",)`` and ``(1,)`` differ (BLAKE2b).

    Raises:
        BadInput: a part that is neither a string nor an integer.
    """
    digest = hashlib.blake2b(digest_size=8, person=b"evolvent-seed")
    for part in (seed, *path):
        if isinstance(part, str):
            tag, body = b"s", part.encode("utf-8", "surrogatepass")
        else:
            try:
                tag, body = b"i", str(operator.index(part)).encode("ascii")
            except TypeError as err:
                raise BadInput("part of a seed path", got=part, expected="str or int", where="seed_tree") from err
        digest.update(tag + len(body).to_bytes(8, "little") + body)
    return int.from_bytes(digest.digest(), "little") >> 1


def rng(seed: int, *path: str | int) -> np.random.Generator:
    """A numpy generator (PCG64) seeded by ``seed_tree(seed, *path)``."""
    return np.random.default_rng(seed_tree(seed, *path))
