"""The whole suite on this machine: every mechanism that works here × every attempt; and every cheat."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evolvent.sandbox import Sandbox
from evolvent.sandbox.mechanisms import UNSAFE, candidates, problem
from evolvent.testing.sandbox.attempts import ATTEMPTS, Attempt
from evolvent.testing.sandbox.cheats import CHEATS, believed, judged
from evolvent.testing.sandbox.world import World

KINDS: dict[str, tuple[str, int | None]] = {
    "own+ns": ("own+ns", None),
    "own+ns, no Landlock": ("own+ns", 0),
    "own": ("own", None),
    "own, Landlock 4": ("own", 4),
    "own, Landlock 1": ("own", 1),
}
"""Mechanisms, and the Landlock version that each is pinned to: of Ubuntu 24.04 and 22.04, and of a kernel without."""
NONE = UNSAFE


def why_not(kind: str, profile: str = "python") -> str:
    """Why a kind does not work here; empty where it does."""
    name, abi = KINDS[kind]
    found = [mechanism for mechanism in candidates(abi) if mechanism.name == name]
    return problem(found[0], profile) if found else "not Linux, or a processor without a table of system calls"


@contextmanager
def sandboxes(world: World, kind: str) -> Iterator[Callable[[str], Sandbox]]:
    """``get(profile)``: sandboxes of one kind beside a world, without places kept warm."""
    made: dict[str, Sandbox] = {}

    def get(profile: str) -> Sandbox:
        if profile not in made:
            name, abi = KINDS.get(kind, ("auto", None))
            read = (str(world.library),)
            unsafe = kind == NONE
            made[profile] = Sandbox(profile, name, 0, read=read, landlock_abi=abi, unsafe_no_sandbox=unsafe)
        return made[profile]

    try:
        yield get
    finally:
        for sandbox in made.values():
            sandbox.close()


def is_open(attempt: Attempt, kind: str) -> bool:
    """Whether this kind does not claim to stop the attempt."""
    return KINDS[kind][0] in attempt.open_in


def run(progress: Callable[[str], None]) -> dict[str, Any]:
    """Attempts and cheats with what became of them.

    Returns:
        ``kinds`` (why each does not work, or empty), ``attempts`` and ``cheats``: a row each, with an entry for every
        kind that works: empty where nothing got out, else what did.
    """
    world = World()
    kinds = {kind: why_not(kind) for kind in KINDS}
    rows = {attempt: {"group": attempt.group, "name": attempt.name} for attempt in ATTEMPTS}
    cheats = {cheat: {"group": cheat.group, "name": cheat.name, "sign": cheat.sign} for cheat in CHEATS}
    try:
        for kind in [*(kind for kind, why in kinds.items() if not why), NONE]:
            with sandboxes(world, kind) as get:
                for attempt in ATTEMPTS:
                    pinned = "," in kind and attempt.group in ("limits", "leftovers")  # no part of Landlock
                    if attempt.control or (kind != NONE and not pinned):
                        progress(f"{kind}: {attempt.name}")
                        outcome = world.try_out(attempt, get("tools" if attempt.tools else "python"))
                        rows[attempt][kind] = outcome.escaped
                # how a program is confined decides about no verdict: once for each mechanism
                for cheat in CHEATS if kind in ("own", "own+ns") else ():
                    progress(f"{kind}: {cheat.name}")
                    cheats[cheat][kind] = "accepted" if judged(cheat, get("python")).passed else ""
                    if kind == "own" and cheat.group == "function":
                        cheats[cheat]["believed"] = "accepted" if believed(cheat, get("python")).ok else ""
    finally:
        world.close()
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    return {"user": user, "kinds": kinds, "attempts": list(rows.values()), "cheats": list(cheats.values())}
