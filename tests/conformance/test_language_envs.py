"""The text environments for language agents keep the promises of ``Env``."""

import pytest

from evolvent.envs import load
from evolvent.testing.env import check_env

SPECS = (
    "babyai:GoToRedBallNoDists",
    "babyai:PutNextLocal,long=true,step_limit=15",
    "babyai:MiniGrid-DoorKey-5x5,step_limit=40",
)
CHECKS = ["attributes", "tasks", "splits", "attempts", "reviewer", "passes"]


@pytest.mark.parametrize("spec", SPECS)
def test_a_language_environment_keeps_its_promises(spec):
    env = load(spec)
    assert check_env(env) == CHECKS
    env.close()
