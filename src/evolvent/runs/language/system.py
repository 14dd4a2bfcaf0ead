"""What the file of a system is made of: settings, credit, what it needs, the run and its loop.

A system names most of it: here in one import, where six would say the same.
"""

from __future__ import annotations

from evolvent.runs.language.config import (
    ClippedConfig,
    CriticConfig,
    CriticPlan,
    LanguageConfig,
    PPOConfig,
    Way,
    check_stages,
)
from evolvent.runs.language.credit import Rule, compared, left_out
from evolvent.runs.language.frozen import evaluate_language
from evolvent.runs.language.loop import Logged, learn
from evolvent.runs.language.run import LanguageRun, open_language
from evolvent.runs.language.start import CRITIC, EXECUTED, REFERENCE, Needs

__all__ = [
    "CRITIC",
    "EXECUTED",
    "REFERENCE",
    "ClippedConfig",
    "CriticConfig",
    "CriticPlan",
    "LanguageConfig",
    "LanguageRun",
    "Logged",
    "Needs",
    "PPOConfig",
    "Rule",
    "Way",
    "check_stages",
    "compared",
    "evaluate_language",
    "learn",
    "left_out",
    "open_language",
]
