"""How the checks of credit rules say that a promise was broken."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.outside import line_of
from evolvent.testing.exact import Critic, GradientReport, finding


def broken(rule: Any, promise: str, got: object, expected: object) -> NoReturn:
    """Raise ``BadInput`` for a credit rule."""
    name = getattr(rule, "__name__", type(rule).__name__)
    raise BadInput(promise, got=got, expected=expected, where=f"credit rule {name}", do="see testing.check_credit")


def claims(rule: Any) -> list[tuple[Critic, Any, Any]]:
    """Whatever a rule declares of its gradient: under which critic, with which settings (``None``: default), what."""
    return [
        ("wrong", None, rule.UNBIASED),
        *(("wrong", *claim) for claim in getattr(rule, "CLAIMS", ())),
        *(("exact", *claim) for claim in getattr(rule, "CLAIMS_EXACT_CRITIC", ())),
    ]


def check_claim(rule: Any, reports: Sequence[GradientReport], critic: Critic, settings: Any, claim: Any) -> None:
    """What was measured is what is declared, neither better nor worse."""
    found = finding(reports)
    if found != claim or type(found) is not type(claim):
        worst = min(reports, key=lambda r: (r.cosine, -r.relative_error))
        expected = f"{claim} ({settings}, {critic} critic)"
        broken(rule, "the exact gradient is not what is declared", f"{found}: {worst}", expected)


@contextmanager
def speaking(rule: Any) -> Generator[None]:
    """An exception of a credit rule is reported with its own words and line, not as one of the checks."""
    try:
        yield
    except EvolventError:
        raise
    except Exception as error:
        name = getattr(rule, "__name__", type(rule).__name__)
        raise BadInput(
            "the rule fails on the episodes of the checks",
            got=f"{type(error).__name__}: {error}",
            expected="a ledger for any episodes: of different lengths, invalid ones, none at all",
            where=f"credit rule {name}: {line_of(error)}",
            do="see testing.credit.sample_episodes",
        ) from error
