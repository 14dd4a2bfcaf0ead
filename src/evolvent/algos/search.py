"""Search: a frozen model looks ahead before it answers; several searches are compared at the same budget.

Papers: Feng et al. 2023 (TS-LLM, arXiv 2309.17179) and OpenR (arXiv 2410.09671); each search names its own. A tree is
grown over lines, tokens, answers or actions (``--unit``); what a state is worth (``--value``) is judged without knowing
the right answer, unless ``--value rollouts`` or ``--verifier`` say otherwise. Every search has the same budget for each
task and says what it spent; ``an oracle's choice`` is how often a right path was among those it found.

Deviations: a value is trained elsewhere (``ts_llm``, ``openr``); ``--value FOLDER`` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.runs.search.config import SearchConfig
from evolvent.runs.search.run import run as search_tasks

PAPER = "arXiv 2309.17179"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(SearchConfig):
    """Settings of a search run."""


run = search_tasks
