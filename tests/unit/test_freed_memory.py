"""The allocator keeps freed blocks: the second round of large temporaries costs no fresh pages."""

import resource
import subprocess
import sys

import pytest

PROBE = """
import resource, sys
import numpy as np
from evolvent.rollout.freed_memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def round():
    blocks = [np.ones(500_000) for _ in range(20)]
round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_a_second_round_needs_no_new_pages():
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    pages = 20 * 500_000 * 8 // resource.getpagesize()
    assert faults("default") > pages // 2
    assert faults("keep") < pages // 20
