"""Every promise of the memory, one test each, on both engines."""

import pytest
from promises import CHECKS

from evolvent.memory.memory import Memory

SLOW = {"killed_processes_leave_a_consistent_store"}


NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CHECKS]


@pytest.mark.parametrize("name", NAMES)
def test_promise(name, tmp_path):
    def factory(store="a", **options):
        return Memory(tmp_path / f"{store}.db", **{"sync": "normal", **options})

    CHECKS[name](factory)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow)
        if n in SLOW | {"omission_separates_a_useful_memory_from_its_companion"}
        else n
        for n in CHECKS
    ],
)
def test_promise_on_postgresql(name, postgres_store):
    def factory(store="a", **options):
        return Memory(postgres_store(store), **{"sync": "normal", **options})

    CHECKS[name](factory)


def test_a_broken_promise_is_found(tmp_path):
    class Forgetful(Memory):
        def archive(self, id, reason):
            """Forgets to archive."""

    def factory(store="a", **options):
        return Forgetful(tmp_path / f"{store}.db", **{"sync": "normal", **options})

    with pytest.raises(AssertionError):
        CHECKS["archiving_keeps_everything_but_recall"](factory)
