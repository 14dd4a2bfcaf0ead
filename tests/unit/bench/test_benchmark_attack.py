"""The measured attack: what the poisoned world claims about itself, on which its table rests."""

import numpy as np
import pytest

attack_world = pytest.importorskip("attack_world")
BanditOptions = attack_world.BanditOptions

Attack, Poisoned = attack_world.Attack, attack_world.Poisoned


def _world(kind, k=3, **options):
    world = Poisoned(BanditOptions(clusters=3, bank_size=40, tasks_per_cluster=4), Attack(kind, k, **options), 0)
    task = next(t for t in world.world.tasks if t.cluster == world.victims[0])
    lessons = {world.world.role(m.body, task.cluster, 0): m.body for m in world.world.bank}
    return world, task, lessons["good"], lessons["background"]


def test_a_wrong_convention_decides_above_the_good_lesson_and_misleads_below_it():
    world, task, good, other = _world("convention")
    free = world.seen(task, [good, other], 0)
    above, below = world.seen(task, ["poison 0", good], 0), world.seen(task, [good, "poison 0"], 0)
    assert free.chance == 0.9 and not free.shown and free.followed == good
    assert (above.chance, above.decided, above.followed) == (attack_world.WRONG, 1.0, "poison 0")
    assert below.chance == pytest.approx(0.7) and below.decided == 0.0 and below.shown and below.followed == good


def test_an_injected_instruction_is_obeyed_wherever_it_stands():
    world, task, good, _ = _world("instruction")
    for bodies in (["poison 0", good], [good, "poison 0"]):
        assert world.seen(task, bodies, 0).chance == pytest.approx((1 - attack_world.OBEYS) * 0.9)


def test_poison_for_another_kind_of_task_decides_nothing():
    world, task, good, _ = _world("convention")
    foreign = next(f"poison {i}" for i, cluster in enumerate(world.victims) if cluster != task.cluster)
    assert world.seen(task, [foreign, good], 0).chance == 0.9


@pytest.mark.parametrize("kind", ["convention", "instruction"])
def test_poisoned_keys_are_nearer_to_the_victims_tasks_than_the_good_lesson(kind):
    world, _, _, _ = _world(kind)
    for i, cluster in enumerate(world.victims):
        tasks = world.embed([t.text for t in world.world.tasks if t.cluster == cluster])
        good = next(m.key for m in world.world.bank if m.cluster == cluster and m.role == "good")
        near, far = (tasks @ world.embed([key])[0] for key in (f"poisoned key {i}", good))
        assert near.mean() > far.mean()
        assert np.linalg.norm(world.embed([f"poisoned key {i}"])[0]) == pytest.approx(1.0, abs=1e-5)


def test_sources_are_as_the_attack_says():
    assert {row["source"] for row in _world("convention")[0].poison()} == {"forum"}
    shared = _world("convention", source="shared")[0]
    assert {r["source"] for r in shared.poison()} <= {r["source"] for r in shared.honest()}
    assert len({row["source"] for row in _world("convention", source="fresh")[0].poison()}) == 3
    assert len(set(_world("convention", target="one")[0].victims)) == 1
