"""Weights of another run: its newest checkpoint put into the parts at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.folder import RunFolder
from evolvent.learn import checkpoint
from evolvent.runs.team.observed import PART


def start_from(folder: Path, parts: Mapping[str, Any], env: str) -> str:
    """Start with the policy of another run, of the same or of another team; returns what was taken, in words.

    A joint policy (part ``policy``) brings its critic and the scale of its values (``norm``); of separate actors only
    these are taken. Both bring the statistics of what they saw, where they have some. Optimizers start anew.

    Raises:
        BadInput: no such run, or no checkpoint in it.
        ModelError: the weights do not fit.
    """
    other = RunFolder.open(folder)
    names = ("policy", "norm", PART) if "policy" in parts else ("actors", PART)
    state = load_parts(folder, {name: parts[name] for name in names if name in parts}, other.manifest()["env"], env)
    return f"starting with the weights of {folder}, {other.manifest()['env']}, update {state['update']}"


def load_parts(folder: Path, parts: Mapping[str, Any], trained_on: str, env: str) -> dict[str, Any]:
    """Put the newest checkpoint of a run into ``parts``; returns its plain data.

    The checkpoint may hold more parts. ``trained_on`` is the environment of that run, ``env`` the one at hand.

    A part with a method ``adopt`` takes its weights through it.

    Raises:
        BadInput: the run has no checkpoint.
        ModelError: the weights do not fit.
    """
    newest = checkpoint.latest(folder / "checkpoints")
    if newest is None:
        raise BadInput(
            "the run has no checkpoint",
            got=str(folder),
            expected="a run of a team that has saved one",
            where="checkpoints/",
            do="let it come to its first checkpoint (--save-every)",
        )
    adopting = {
        name: SimpleNamespace(load_state_dict=part.adopt) for name, part in parts.items() if hasattr(part, "adopt")
    }
    try:
        return checkpoint.load(newest, {**parts, **adopting})
    except ModelError as error:
        if trained_on == env:
            raise
        inside = " ".join(str(error.got).split())  # it may be an error's text of several lines
        raise ModelError(
            "the weights do not fit this environment",
            got=f"trained on {trained_on}; {inside}",
            expected=env,
            where=str(newest),
            do="a joint policy, or one actor for all, fits a team of another size where an agent's observation and "
            "actions keep theirs and are of the same kind (choices, numbers): train with --no-ids, since the one-hot "
            "number of an agent grows with the team",
        ) from error
