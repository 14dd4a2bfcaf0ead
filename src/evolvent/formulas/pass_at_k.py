"""pass@k: the chance that one of k attempts succeeds, from n attempts of which c did.

Source: Chen et al. 2021, arXiv 2107.03374, section 2.1. 1 − (1 − c/n)^k is biased; this is not.
"""

from __future__ import annotations

import math

from evolvent.core.errors import BadInput


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k): the share of the sets of ``k`` attempts that hold a success; unbiased.

    Args:
        n: attempts.
        c: of them successful.
        k: attempts that are allowed, 1 to ``n``.

    Raises:
        BadInput: other numbers.
    """
    if not (1 <= k <= n and 0 <= c <= n):
        raise BadInput("pass@k", got=(n, c, k), expected="1 <= k <= n and 0 <= c <= n", where="formulas.pass_at_k")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)
