"""How the engine is loaded: what the first import of the library decides for the whole process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("xllamacpp", reason="needs the extra llama")

LOAD = """
import os
from evolvent.models.served import engine
engine.load()
print("after:", os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp tells what it read; others do not")
@pytest.mark.parametrize(("asked", "policy"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_sleep_at_a_barrier_unless_the_user_says_otherwise(asked: str | None, policy: str) -> None:
    """Spinning threads make tokens many times slower beside another busy process; the user's own setting stands."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | {"OMP_DISPLAY_ENV": "true"}
    if asked:
        environment["OMP_WAIT_POLICY"] = asked
    run = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    assert f"OMP_WAIT_POLICY = '{policy}'" in run.stderr
    assert f"after: {asked}" in run.stdout
