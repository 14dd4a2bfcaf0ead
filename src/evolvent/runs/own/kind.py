"""The kind of a system that names none: its page shows whatever it logged."""

from __future__ import annotations

from evolvent.runs.kind import Kind
from evolvent.runs.own.account import account

KIND = Kind("", "of your own", account)
