"""Every attempt of the suite, in every mechanism of this machine; and without one, where most get out."""

import os

import pytest

from evolvent.testing.sandbox.attempts import ATTEMPTS
from evolvent.testing.sandbox.suite import KINDS, NONE, is_open, sandboxes, why_not
from evolvent.testing.sandbox.world import World


@pytest.fixture(scope="module")
def world():
    world = World()
    yield world
    world.close()


RARE = ("own+ns, no Landlock", "own, Landlock 4")  # between the strongest and the weakest of their kind


@pytest.fixture(scope="module", params=[pytest.param(k, marks=[pytest.mark.slow] if k in RARE else []) for k in KINDS])
def kind(request):
    """A mechanism, pinned or not; one that does not work here skips its tests, and says why."""
    if why := why_not(request.param):
        pytest.skip(f"{request.param}: {why}")
    return request.param


@pytest.fixture(scope="module")
def sandbox(world, kind):
    with sandboxes(world, kind) as get:
        yield get


def escaped(world, kind, attempts, sandbox_of):
    outcomes = [world.try_out(attempt, sandbox_of(attempt)) for attempt in attempts]
    return [(o.attempt.name, o.escaped, o.result) for o in outcomes if o.escaped and not is_open(o.attempt, kind)]


@pytest.mark.parametrize("group", sorted({a.group for a in ATTEMPTS}))
def test_nothing_gets_out(world, kind, sandbox, group):
    if group in ("limits", "leftovers") and "," in kind:
        pytest.skip("the same code as with the newest Landlock")
    attempts = [a for a in ATTEMPTS if a.group == group]
    assert not escaped(world, kind, attempts, lambda a: sandbox("tools" if a.tools else "python"))


@pytest.mark.parametrize("profile", ["tools", "browser"])
@pytest.mark.parametrize("group", ["files", "network", "kernel"])
def test_nothing_gets_out_of_the_profiles_that_start_programs(world, kind, sandbox, group, profile):
    attempts = [a for a in ATTEMPTS if a.group == group]
    if profile == "browser":  # it has pairs of packets, which no address leads out of, and a local socket that connects
        has = ("sequenced pair", "Bluetooth, crypto, other families")  # to nothing: other attempts try to use one
        attempts = [a for a in attempts if a.name not in has]
    assert not escaped(world, kind, attempts, lambda _: sandbox(profile))


def test_what_is_said_not_to_be_covered_is_not(world, kind, sandbox):
    for attempt in ATTEMPTS:
        if is_open(attempt, kind):
            assert world.try_out(attempt, sandbox("python")).escaped, attempt.name
    says = "stat and readlink are not refused" in str(sandbox("python").describe())
    assert says == (not kind.startswith("own+ns"))


def test_the_attempts_get_out_where_nothing_confines(world):
    """So that a blocked attempt says something about the sandbox, not about a mistake in the attempt."""
    with sandboxes(world, NONE) as get:
        missed = [a.name for a in ATTEMPTS if a.control and not world.try_out(a, get("python")).escaped]
    assert len([a for a in ATTEMPTS if a.control]) >= 90
    # what depends on the machine: file systems without attributes, kernels without a feature, rights of the user
    assert len(missed) <= (3 if os.geteuid() == 0 else 25), missed
