"""Every attempt of the suite, in every mechanism of this machine; and without one, where most get out."""

import os

import pytest

from evolvent.sandbox import Sandbox
from evolvent.sandbox.mechanisms import candidates, problem
from evolvent.testing.sandbox.attempts import ATTEMPTS
from evolvent.testing.sandbox.world import World

PINNED = {"own": (None, 1, 4), "own+ns": (None, 0)}
"""Landlock versions that each mechanism is also tried with: those of Ubuntu 22.04 and 24.04, and a kernel without."""
KINDS = [(name, abi) for name in PINNED for abi in PINNED[name]]


@pytest.fixture(scope="module")
def world():
    world = World()
    yield world
    world.close()


@pytest.fixture(scope="module")
def sandbox(world):
    """``sandbox(mechanism, abi, profile)``; a mechanism that does not work here skips the test, and says why."""
    made = {}

    def get(name, abi, profile):
        key = name, abi, profile
        if key not in made:
            (mechanism,) = [m for m in candidates(abi) if m.name == name]
            if why := problem(mechanism, profile):
                pytest.skip(f"{name}: {why}")
            made[key] = Sandbox(profile, name, warm=0, read=(str(world.library),), landlock_abi=abi)
        return made[key]

    yield get
    for one in made.values():
        one.close()


def attempts(group):
    """Those of a group; what costs seconds runs once for each mechanism, not for each version of it."""
    return [a for a in ATTEMPTS if a.group == group]


@pytest.mark.parametrize(("name", "abi"), KINDS)
@pytest.mark.parametrize("group", sorted({a.group for a in ATTEMPTS}))
def test_nothing_gets_out(world, sandbox, name, abi, group):
    if group in ("limits", "what stays") and abi is not None:
        pytest.skip("the same code as with the newest Landlock")
    escaped = []
    for attempt in attempts(group):
        outcome = world.try_out(attempt, sandbox(name, abi, "tools" if attempt.tools else "python"))
        if outcome.escaped and name not in attempt.open_in:
            escaped.append((attempt.name, outcome.escaped, outcome.result))
    assert not escaped


@pytest.mark.parametrize(("name", "abi"), KINDS)
@pytest.mark.parametrize("group", ["files", "network", "kernel"])
def test_nothing_gets_out_of_the_profile_that_starts_programs(world, sandbox, name, abi, group):
    outcomes = [world.try_out(a, sandbox(name, abi, "tools")) for a in attempts(group)]
    assert not [(o.attempt.name, o.escaped, o.result) for o in outcomes if o.escaped and name not in o.attempt.open_in]


def test_what_is_said_not_to_be_covered_is_not(world, sandbox):
    for attempt in ATTEMPTS:
        for name in attempt.open_in:
            assert world.try_out(attempt, sandbox(name, None, "python")).escaped, attempt.name
    text = str(sandbox("own", None, "python").describe())
    assert "stat and readlink are not refused" in text


def test_the_attempts_get_out_where_nothing_confines(world):
    """So that a blocked attempt says something about the sandbox, not about a mistake in the attempt."""
    missed = []
    with Sandbox(warm=0, unsafe_no_sandbox=True) as sandbox:
        for attempt in ATTEMPTS:
            if attempt.control and not world.try_out(attempt, sandbox).escaped:
                missed.append(attempt.name)
    assert len([a for a in ATTEMPTS if a.control]) >= 90
    # what depends on the machine: file systems without attributes, kernels without a feature, rights of the user
    assert len(missed) <= (3 if os.geteuid() == 0 else 25), missed
