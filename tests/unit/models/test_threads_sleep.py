"""Threads of torch sleep at a barrier: what the first import decides for the whole process."""

import os
import subprocess
import sys

import pytest

LOAD = """
import os
from evolvent import models
try:
    models.load("train:./nowhere")
except Exception as error:
    print(error)
print("after:", os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp tells what it read; others do not")
@pytest.mark.parametrize(("asked", "policy"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_of_torch_sleep_at_a_barrier_unless_the_user_says_otherwise(asked: str | None, policy: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | {"OMP_DISPLAY_ENV": "true"}
    if asked:
        environment["OMP_WAIT_POLICY"] = asked
    run = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    assert f"OMP_WAIT_POLICY = '{policy}'" in run.stderr
    assert "no such model folder" in run.stdout and f"after: {asked}" in run.stdout
