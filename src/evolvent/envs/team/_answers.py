"""What a parallel environment returns, in PettingZoo's form; where it has another, what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from evolvent.core.errors import EnvError

READ = ("action_mask", "success", "is_success")
"""What is read of an agent's infos."""


class Stepped(NamedTuple):
    """What ``step`` returns; dictionaries by agent."""

    observations: Mapping[str, Any]
    rewards: Mapping[str, Any]
    terminations: Mapping[str, Any]
    truncations: Mapping[str, Any]
    infos: Mapping[str, Any]


def started(shown: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Observations and infos that ``reset`` returned; observations alone are taken, too.

    Raises:
        EnvError: it returned something else.
    """
    if isinstance(shown, Mapping):
        return shown, {}
    if not isinstance(shown, tuple) or len(shown) != 2:
        raise EnvError(
            f"reset returned {_counted(shown)}", expected="2 values: observations and infos, dictionaries by agent"
        )
    return _by_agent("observations", shown[0], "reset"), _by_agent("infos", shown[1], "reset")


def stepped(shown: Any) -> Stepped:
    """What ``step`` returned.

    Raises:
        EnvError: it returned something else.
    """
    names = Stepped._fields
    if not isinstance(shown, tuple | list) or len(shown) != len(names):
        raise EnvError(
            f"step returned {_counted(shown)}",
            expected=f"{len(names)} values, as in PettingZoo: {', '.join(names)}",
            do="say apart what ended by its own rules (terminations) and what was cut off (truncations)"
            if isinstance(shown, tuple | list) and len(shown) == 4
            else "",
        )
    return Stepped(*(_by_agent(name, value, "step") for name, value in zip(names, shown, strict=True)))


def complete(what: str, by_agent: Mapping[str, Any], agents: Collection[str]) -> None:
    """Every one of ``agents`` has got one."""
    missing = [agent for agent in agents if agent not in by_agent]
    if missing:
        raise EnvError(f"no {what} for an agent", got=list(by_agent), expected=missing)


def mask_of(given: Any, choices: int, agent: str) -> np.ndarray:
    """The choices that are allowed, bool ``[N]``."""
    mask = np.asarray(given).reshape(-1)
    if not choices or mask.size != choices or mask.dtype.kind not in "biuf":
        expected = f"{choices} numbers, 1 = allowed" if choices else "none: its action is no choice"
        raise EnvError("a mask of actions that does not fit", got=given, expected=expected, where=f"agent {agent}")
    return mask.astype(np.bool_)


def success_of(info: Mapping[str, Any], agent: str) -> float | None:
    """What an agent's info says of success: ``success`` or ``is_success``, a truth value or a share; else ``None``."""
    given = next((info[name] for name in READ[1:] if info.get(name) is not None), None)
    if given is None:
        return None
    share = np.asarray(given)
    if share.size != 1 or share.dtype.kind not in "biuf" or not 0.0 <= share.item() <= 1.0:
        raise EnvError("a success that is none", got=given, expected="True, False or 0 to 1", where=f"agent {agent}")
    return float(share.item())


def _by_agent(name: str, value: Any, call: str) -> Mapping[str, Any]:
    if value is None and name == "infos":
        return {}
    if not isinstance(value, Mapping):
        raise EnvError(f"{name} of {call} are no dictionary", got=value, expected="a dictionary by agent")
    return value


def _counted(shown: Any) -> str:
    return f"{len(shown)} values" if isinstance(shown, tuple | list) else f"one {type(shown).__name__}"
