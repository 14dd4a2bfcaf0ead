"""HammerBench's metrics: calls of a conversation against the arguments that are known so far, turn by turn.

After every turn of the user (a snapshot) a model says the call that all turns until then ask for. Wang et al. (arXiv
2412.16516); the rules are those of the released evaluator at commit cdbe885, which these functions equal on English:

    right arguments   the same texts, or: no argument too much, and each with a ROUGE-L F of at least .7
    PHR, PMR          share of snapshots with an argument too much (hallucinated), with one missing
    Func              share of conversations whose first call has the right function
    Args              share of snapshots with right arguments
    PR, SR            share of snapshots before the first wrong one; share of conversations without a wrong one

PHR and PMR leave conversations with a wrong function out; in Args, PR and SR nothing of these is right. The function of
later snapshots is not looked at. Where the evaluator raises an exception (``IS``, whose last gold is a refusal; answers
in Chinese that are no call), ours goes on: an answer that is no call has no right arguments and misses all of them, and
a refusal is right where gold is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = Mapping[str, Any]
LEAST = 0.7
_EDGES = ".?! "


@dataclass(frozen=True)
class Snapshot:
    """A call against gold: whether function and arguments are right, arguments too much and missing."""

    function: bool
    arguments: bool
    extra: int
    missing: int


def snapshot(said: Call | None, gold: Call | None) -> Snapshot:
    """One call, or none, against gold; of both, arguments that are empty texts count as left out.

    Args:
        said: ``{"name", "arguments"}``; ``None`` = no call, or none that could be read.
        gold: ``None`` = no function fits.
    """
    given = {} if said is None else cleaned(said["arguments"])
    if gold is None:
        return Snapshot(said is None, said is None, len(given), 0)
    wanted: Mapping[str, Any] = gold["arguments"]
    if said is None:
        return Snapshot(False, False, 0, len(wanted))
    extra, missing = len(given.keys() - wanted.keys()), len(wanted.keys() - given.keys())
    return Snapshot(said["name"] == gold["name"], same_arguments(given, wanted), extra, missing)


def cleaned(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that say nothing: the empty text, or a backslash."""
    return {key: value for key, value in arguments.items() if not (isinstance(value, str) and value in ("", "\\"))}


def same_arguments(said: Mapping[str, Any], gold: Mapping[str, Any]) -> bool:
    """Whether arguments say the same: none too much, and each like gold's as a text."""
    given, wanted = ({key: str(value) for key, value in one.items() if value != ""} for one in (said, gold))
    if given.keys() - wanted.keys():
        return False
    if given == wanted:
        return True
    if wanted.pop("kwargs", None) is not None:
        given.pop("kwargs", None)
    likes = [_like(value, given[key]) if key in given else 0.0 for key, value in wanted.items()]
    return given == wanted or (bool(likes) and min(likes) >= LEAST)


def metrics(conversations: Sequence[Sequence[Snapshot]]) -> dict[str, float]:
    """Func, PHR, PMR, Args, PR and SR over conversations of at least one snapshot each; NaN where nothing counts."""
    right = [one for one in conversations if one[0].function]
    counted = [each for one in right for each in one]
    total = sum(map(len, conversations))
    return {
        "Func": _share(len(right), len(conversations)),
        "PHR": _share(sum(one.extra > 0 for one in counted), len(counted)),
        "PMR": _share(sum(one.missing > 0 for one in counted), len(counted)),
        "Args": _share(sum(one.arguments for one in counted), total),
        "PR": _share(sum(progress(one) for one in conversations), len(conversations)),
        "SR": _share(sum(progress(one) == 1.0 for one in conversations), len(conversations)),
    }


def progress(conversation: Sequence[Snapshot]) -> float:
    """The share of snapshots before the first one with wrong arguments; 0 where the first function is wrong."""
    if not conversation[0].function:
        return 0.0
    wrong = (i for i, one in enumerate(conversation) if not one.arguments)
    return next(wrong, len(conversation)) / len(conversation)


def _share(count: float, of: int) -> float:
    return count / of if of else float("nan")


# ------------------------------------------------------------------------------------------------ likeness of texts
def _like(gold: str, said: str) -> float:
    if not gold or not said:
        return float(gold == said)
    return rouge_l(gold.strip(_EDGES).lower(), said.strip(_EDGES).lower())


def rouge_l(reference: str, said: str) -> float:
    """ROUGE-L F as the package ``rouge`` 1.0.1 computes it: full stops end sentences, each word counts once.

    The words of the longest common subsequences of all pairs of sentences, over the words of either text.
    """
    wanted, given = _sentences(reference), _sentences(said)
    common = {word for one in wanted for other in given for word in _common(one, other)}
    texts = [{word for one in text for word in one} for text in (given, wanted)]
    if not common:
        return 0.0
    precision, recall = (len(common) / len(words) for words in texts)
    return 2 * precision * recall / (precision + recall + 1e-8)


def _sentences(text: str) -> list[list[str]]:
    return [" ".join(one.split()).split(" ") for one in text.split(".") if one]


def _common(x: Sequence[str], y: Sequence[str]) -> list[str]:
    """A longest common subsequence, that which the package finds."""
    table = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i, word in enumerate(x):
        for j, other in enumerate(y):
            table[i + 1][j + 1] = table[i][j] + 1 if word == other else max(table[i][j + 1], table[i + 1][j])
    found, i, j = list[str](), len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            found, i, j = [*found, x[i - 1]], i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found
