"""Whether this machine can draw without a screen; chooses how MuJoCo does it before MuJoCo is imported."""

from __future__ import annotations

import ctypes.util
import functools
import os
import sys


@functools.cache
def can_draw() -> bool:
    """Whether there is a display, or EGL to draw without one; sets ``MUJOCO_GL`` for the latter if it is not set."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("MUJOCO_GL") in ("egl", "osmesa"):
        return True
    if ctypes.util.find_library("EGL") is None:
        return False
    os.environ.setdefault("MUJOCO_GL", "egl")  # its own default is a window, and drawing without a display aborts
    return os.environ["MUJOCO_GL"] == "egl"
