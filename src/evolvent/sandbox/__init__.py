"""Running programs that a model wrote: ``Sandbox.run``, and ``judge`` for verdicts that they cannot write."""

from __future__ import annotations

from evolvent.sandbox.calls import Guest, GuestError
from evolvent.sandbox.judge import Case, Verdict, judge
from evolvent.sandbox.result import Confinement, Limits, NoSandbox, Result
from evolvent.sandbox.sandbox import Sandbox

__all__ = [
    "Case",
    "Confinement",
    "Guest",
    "GuestError",
    "Limits",
    "NoSandbox",
    "Result",
    "Sandbox",
    "Verdict",
    "judge",
]
