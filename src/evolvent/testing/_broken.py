"""How the checks say that a promise was broken."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.outside import line_of

T = TypeVar("T")


def broken(rule: Any, promise: str, got: object, expected: object) -> NoReturn:
    """Raise ``BadInput`` for a credit rule."""
    name = getattr(rule, "__name__", type(rule).__name__)
    raise BadInput(promise, got=got, expected=expected, where=f"credit rule {name}", do="see testing.check_credit")


@contextmanager
def speaking(rule: Any) -> Generator[None]:
    """An exception of a credit rule is told with its own words and line, not as one of the checks."""
    try:
        yield
    except EvolventError:
        raise
    except Exception as error:
        name = getattr(rule, "__name__", type(rule).__name__)
        raise BadInput(
            "the rule fails on the episodes of the checks", got=f"{type(error).__name__}: {error}",
            expected="a ledger for any episodes: of different lengths, invalid ones, none at all",
            where=f"credit rule {name}: {line_of(error)}", do="see testing.credit.sample_episodes",
        ) from error  # fmt: skip


class Promise:
    """Says what is wrong with an environment: what was got, what was expected, where, what to do."""

    def __init__(self, who: str) -> None:
        self.who = who

    def holds(
        self, holds: object, what: str, got: object, expected: object = "", where: str = "", do: str = ""
    ) -> None:  # fmt: skip
        """Raise ``BadInput`` where it does not hold."""
        if not holds:
            place = f"{self.who}{', ' if where else ''}{where}"
            raise BadInput(
                f"the environment breaks its protocol: {what}", got=got, expected=expected, where=place, do=do
            )

    def called(self, call: str, function: Callable[[], T]) -> T:
        """What the environment's ``function`` returns; what it raises is told with its line."""
        try:
            return function()
        except Exception as error:
            raise self.failure(call, error, "no exception") from error

    def failure(self, call: str, error: Exception, expected: str, do: str = "") -> BadInput:
        """The error for an exception that should not have been, or should have been another."""
        return BadInput(
            f"the environment breaks its protocol: {call} raises {type(error).__name__}", got=str(error) or repr(error),
            expected=expected, where=f"{self.who}, {line_of(error)}", do=do,
        )  # fmt: skip
