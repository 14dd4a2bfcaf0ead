"""CoT-SC: independent samples, to be put to the vote (self-consistency); no value is asked.

Paper: Wang et al. 2022 (arXiv 2203.11171).

Deviations: none; see ``best_of_n`` for what a budget does.
"""

from __future__ import annotations

from evolvent.search.best_of_n import Config as Config
from evolvent.search.best_of_n import draw
from evolvent.search.search import Search

PAPER = "arXiv 2203.11171"
AGGREGATE = "majority"
DRAWS = True
PARALLEL = 16


def run(search: Search, config: Config = Config()) -> None:
    """Draw ``paths`` samples for every task."""
    draw(search, config.paths, config.parallel)
