"""The five verbs in any order against a plain dictionary, on PostgreSQL."""

from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from test_memory_machine import ALPHA, FiveVerbs

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

_NUMBER = count()


@pytest.mark.postgres
def test_five_verbs_on_postgresql(postgres_store):
    class OnPostgres(FiveVerbs):
        def connect(self):
            if not hasattr(self, "url"):
                self.url = postgres_store(f"machine_{next(_NUMBER)}")
            policy = preset("memrl", gate=-1.0, pool=20, k=3, alpha=ALPHA)
            return Memory(self.url, policy=policy, embedder="hash:32", sync="normal")

    few = settings(max_examples=6, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    run_state_machine_as_test(OnPostgres, settings=few)
