"""A credit rule as it is called: one of ``credit/``, of a file of your own, or of an installed package.

``evolvent.catalogue.credit_rule`` finds one by name.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evolvent.core import config as configs
from evolvent.core import outside
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import LEVELS, Ledger
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger


@dataclass(frozen=True)
class CreditRule:
    """A credit rule, wherever it comes from.

    Attributes in capitals are declared by the rule. ``UNBIASED`` is ``None`` where nothing is declared. ``RECORD`` says
    what it reads: ``"episode"`` or ``"rollout"``. ``source`` is the module or object that it was made from.
    """

    name: str
    summary: str
    LEVEL: str
    UNBIASED: bool | str | None
    RECORD: str
    Config: type | None
    """Its settings, a frozen dataclass; ``None`` where it has none."""
    function: Callable[..., Any]
    source: Any
    home: str
    """The file of a rule of your own; ``""`` for one of the package."""

    def assign(self, record: Sequence[Episode] | Rollout, config: Any = None, **columns: Any) -> Any:
        """Its ledger: of episodes a ``Ledger``, of a rollout a ``RolloutLedger``.

        ``config`` is an instance of ``Config``, or ``None`` for the defaults; ``columns`` are arrays that a rule over
        rollouts asks for.

        Raises:
            BadInput: what the rule raises; of a rule outside the package also its other exceptions, with their line,
                and a result that is no ledger of the record.
        """
        given = (record,) if self.Config is None else (record, self.Config() if config is None else config)
        if self.Config is None and config is not None:
            raise BadInput("this rule has no settings", got=config, where=self.name, do="leave the settings out")
        if not self.home:
            return self.function(*given, **columns)
        with outside.own_faults(self.home, f"the credit rule {self.name} failed"):
            ledger = self.function(*given, **columns)
        kind = RolloutLedger if self.RECORD == "rollout" else Ledger
        others = isinstance(ledger, Ledger) and not isinstance(record, Rollout) and ledger.episodes != tuple(record)
        if not isinstance(ledger, kind) or others:
            raise BadInput(
                "a credit rule must return a ledger",
                got=f"{type(ledger).__name__}: {ledger!r}",
                expected=kind.__name__,
                where=self.home,
                do="ledger = Ledger.for_episodes(episodes); ledger.set(LEVEL, values); return ledger",
            )
        return ledger

    def settings(self, pairs: Iterable[str]) -> Any:
        """Its configuration from ``key=value`` texts, the defaults for the others; ``None`` for a rule without any.

        Raises:
            BadInput: no such setting, or a value of another type; names the closest.
        """
        given = list(pairs)
        if self.Config is None:
            if given:
                raise BadInput("this rule has no settings", got=" ".join(given), where=self.name)
            return None
        values = values_of(given, self.name)
        kind: Any = self.Config
        called = {field.name for field in dataclasses.fields(kind) if "Callable" in str(field.type)}
        if called & values.keys():
            names = ", ".join(sorted(called & values.keys()))
            raise BadInput(
                "a setting that is a function has no text", got=names, where=self.name, do="give it in Python"
            )
        return configs.from_json(kind, values, self.name)


def values_of(pairs: Iterable[str], where: str) -> dict[str, Any]:
    """``key=value`` texts as values: what reads as a Python value is one, everything else is text.

    Raises:
        BadInput: a word without "=".
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise BadInput("a setting without a value", got=pair, expected="key=value", where=where)
        try:
            values[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[key] = {"true": True, "false": False}.get(text.lower(), text)
    return values


def rule_of(name: str, found: Any, module: Any, home: str, *, whole: bool) -> CreditRule:
    """A rule of a function, or an object with ``assign``, in a file or module ``home`` ("" in the package).

    What it does not declare itself its module may. ``whole``: the module is the rule, and checks read its docstring and
    claims.

    Raises:
        BadInput: neither, or no level is declared.
    """
    function = found if inspect.isroutine(found) else getattr(found, "assign", None)
    if function is None or inspect.isclass(found):
        raise BadInput(
            "not a credit rule",
            got=f"{name}: {type(found).__name__}",
            where=home,
            expected="a function assign(episodes, config) -> Ledger, or an object that has one",
        )
    said = {key: getattr(found, key, getattr(module, key, None)) for key in ("LEVEL", "UNBIASED", "RECORD", "Config")}
    level = said["LEVEL"]
    if level not in LEVELS:
        what = "the credit rule does not say its level" if level is None else "the level of the credit rule is not one"
        do = 'write LEVEL = "step" in its file, the level of the units that it pays'
        raise BadInput(what, got=level, expected=" or ".join(LEVELS), where=home or name, do=do)
    source = module if whole and module is not None else found
    doc = inspect.getdoc(module if whole else found) or inspect.getdoc(module) or ""
    config = said["Config"] if _takes_config(function, name, home) else None
    summary, record = doc.partition("\n")[0].rstrip("."), said["RECORD"] or "episode"
    return CreditRule(name, summary, level, said["UNBIASED"], record, config, function, source, home)


def _takes_config(function: Callable[..., Any], name: str, home: str) -> bool:
    """Whether it has a second place, for its settings."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    if not places:
        raise BadInput("a credit rule takes nothing", got=name, expected="assign(episodes, config)", where=home or name)
    return len(places) > 1
