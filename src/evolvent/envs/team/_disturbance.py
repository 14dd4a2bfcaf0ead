"""What disturbs: ``gaussian:0.1`` and the like, read, checked and drawn."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import BadInput, closest

NOISE = ("gaussian", "uniform", "shift", "fixed", "schedule")
MODES = {"obs": (*NOISE, "adversary"), "reward": NOISE, "action": (*NOISE, "adversary"), "dynamics": NOISE}
"""By source, how it can be disturbed."""
_MORE = {"schedule": ("0.3", r"\d*\.?\d+"), "adversary": ("critic", "critic|policy")}
"""What stands behind the strength: its default, and what it may be."""


@dataclass(frozen=True)
class Disturbance:
    """One mode with its strength; ``field`` is what changes of the dynamics, ``more`` the rate of a schedule or what an
    adversary goes by.
    """

    mode: str
    strength: float = math.nan
    more: str = ""
    field: str = ""

    def __str__(self) -> str:
        words = (self.field, self.mode, "" if math.isnan(self.strength) else f"{self.strength:g}", self.more)
        return ":".join(word for word in words if word)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator, attempt: np.ndarray | int) -> np.ndarray:
        """Disturbances of that shape; ``attempt`` is the number of the attempt, for all or along the first axis."""
        if self.mode == "gaussian":
            return self.strength * rng.standard_normal(shape)
        if self.mode in ("uniform", "fixed"):
            return self.strength * rng.uniform(-1.0, 1.0, shape)
        if self.mode == "schedule":
            wave = np.sin(float(self.more) * np.asarray(attempt, float))
            return self.strength * np.broadcast_to(wave.reshape(-1, *[1] * (len(shape) - 1)), shape)
        return np.full(shape, self.strength)


def read(source: str, said: str, where: str) -> Disturbance:
    """``MODE:STRENGTH`` or ``MODE:STRENGTH:MORE``; of dynamics ``FIELD:MODE:STRENGTH`` or ``FIELD*FACTOR``.

    Where the strength is left out it is not known (NaN).

    Raises:
        BadInput: no such mode, a strength below 0, or too much.
    """
    where, field = f"{where}, {source}={said}", ""
    if source == "dynamics":
        if times := re.fullmatch(r"(\w+)\*(\d*\.?\d+)", said):
            return Disturbance("shift", float(times[2]) - 1.0, "", times[1])
        field, _, said = said.partition(":")
    mode, *rest = said.split(":") if said or source != "dynamics" else ["gaussian"]
    if mode not in MODES[source]:
        do = "a number alone is no mode: write gaussian:0.1" if re.match(r"[\d.]", mode) else ""
        raise BadInput("unknown way to disturb", got=mode, expected=closest(mode, MODES[source]), where=where, do=do)
    usual, form = _MORE.get(mode, ("", ""))
    if mode == "adversary" and rest and re.fullmatch(form, rest[0]):  # its strength is left out
        rest = ["nan", *rest]
    more = rest[1] if len(rest) > 1 else usual
    if len(rest) > 2 or not re.fullmatch(form, more):
        expected = f"{mode}:STRENGTH" + (f":{form if form.isascii() and '|' in form else 'RATE'}" if form else "")
        raise BadInput("more than a disturbance takes", got=said, expected=expected, where=where)
    strength = _number(rest[0], where) if rest and rest[0] != "nan" else math.nan
    return Disturbance(mode, strength, more, field)


def _number(text: str, where: str) -> float:
    try:
        strength = float(text)
    except ValueError:
        strength = math.nan
    if not 0.0 <= strength < math.inf:
        raise BadInput("strength of a disturbance", got=text, expected="a number of at least 0", where=where)
    return strength
