"""Shares of verdicts on calls: names, arguments, refusals and the call rate, each over what it is about."""

from evolvent.formulas.call_match import judgement, match
from evolvent.runs.account.calls import graded, shares

LOOK = {"name": "look", "arguments": {"city": "Rome"}}
OTHER = {"name": "look", "arguments": {"city": "Oslo"}}
SING = {"name": "sing", "arguments": {"city": "Rome"}}


def verdict(calls, gold):
    found = match(calls or (), gold or ())
    return judgement(calls, gold, found, right=calls is not None and found.right)


def test_each_share_is_over_its_own_tasks():
    told = [verdict(*one) for one in (([LOOK], [LOOK]), ([OTHER], [LOOK]), ([SING], [LOOK]), (None, [LOOK]))]
    told += [verdict([], []), verdict([LOOK], []), verdict(None, []), {**verdict([LOOK], None), "right": True}]
    found = {what: (one["value"], one["n"]) for what, one in shares([graded(one) for one in told]).items()}
    assert found == {
        "calls right": (2 / 5, 5),
        "functions right": (2 / 4, 4),
        "arguments right": (2 / 4, 4),
        "refusals right": (1 / 3, 3),
        "call rate": (7 / 8, 8),
    }
