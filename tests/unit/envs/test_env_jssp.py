"""Job shops as an environment: what is paid, what is seen, and files that hold no instance."""

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.envs.team import _job_shops
from evolvent.envs.team.jssp import FEATURES
from evolvent.formulas.job_shop import RULES, Instance, dispatched, makespan

FT06 = """6 6
2 1 0 3 1 6 3 7 5 3 4 6
1 8 2 5 4 10 5 10 0 10 3 4
2 5 3 4 5 8 0 9 1 1 4 7
1 5 0 5 2 5 3 3 4 8 5 9
2 9 1 3 4 5 5 4 0 3 3 1
1 3 3 3 5 9 0 10 4 4 2 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("# Fisher and Thompson\n" + FT06)
    return path


def played(env, rule):
    """Returns, makespans and starts of one attempt in every copy, by a rule."""
    frame, gained = env.reset(0), 0.0
    shops = env.env.shops
    while True:
        score = np.where(shops.open(), RULES[rule](shops).astype(float), -np.inf)
        frame = env.step(score.argmax(axis=1)[:, None])
        gained += frame.reward_BA[:, 0]
        if frame.done_B.any():
            assert frame.done_B.all()
            return gained, frame.info["makespan"], env.env.ended_BJM


@pytest.mark.parametrize("rule", RULES)
def test_an_attempt_is_the_schedule_of_its_choices_and_earns_the_bound_minus_its_makespan(file, rule):
    env = envs.load_team(f"jssp:train={file}", 2)
    instance = _job_shops.instances(str(file), "")[0]
    gained, ends, starts = played(env, rule)
    assert (starts == dispatched(instance, RULES[rule])[0]).all()
    assert (ends == makespan(instance, starts[0])).all()
    assert (gained == 47 - ends).all()  # the longest job of ft06 takes 47


def test_what_is_seen_has_no_unit_of_time(file, tmp_path):
    slow = tmp_path / "slow.txt"
    header, *rows = (line.split() for line in FT06.splitlines())
    tenfold = [[word + "0" * (k % 2) for k, word in enumerate(row)] for row in rows]
    slow.write_text("\n".join(" ".join(row) for row in (header, *tenfold)))
    a, b = (envs.load_team(f"jssp:train={one}", 1) for one in (file, slow))
    first, second = a.reset(0), b.reset(0)
    for _ in range(8):
        np.testing.assert_allclose(first.obs_BAD, second.obs_BAD, rtol=1e-5, atol=1e-6)
        job = first.available_BAN.argmax(axis=2)
        first, second = a.step(job), b.step(job)
    assert first.obs_BAD.shape == (1, 1, 36 * len(FEATURES))


def test_problems_drawn_are_permutations_and_differ():
    env = envs.load_team("jssp:train=4x3", 5)
    env.reset(0)
    machine, duration = env.env.shops.machine_BJM, env.env.shops.duration_BJM
    assert (np.sort(machine, axis=2) == np.arange(3)).all() and duration.min() >= 1 and duration.max() <= 99
    assert len({one.tobytes() for one in duration}) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2 2\n0 1 0 2\n1 1 0 2\n", "uses a machine twice"),
        ("2 2\n0 1 2 2\n1 1 0 2\n", "no such machine"),
        ("2 2\n0 1 1 -2\n1 1 0 2\n", "negative duration"),
        ("2 2\n0 1 1 2\n1 1 0\n", "3 numbers in line 3"),
        ("3 2\n0 1 1 2\n1 1 0 1\n", "not an instance"),
        ("2 2\n0 1 1 x\n1 1 0 1\n", "not an instance"),
        ("", "not an instance"),
    ],
)
def test_a_file_that_holds_no_instance(tmp_path, text, said):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(BadInput, match=said):
        envs.load_team(f"jssp:train={tmp_path / 'bad.txt'}", 1)


@pytest.mark.parametrize("train", ["1x6", "0x6", "999x999", ""])
def test_sizes_that_are_refused(train):
    with pytest.raises(BadInput, match="what to train on"):
        envs.load_team(f"jssp:train={train}", 1)


def test_an_unknown_instance_names_the_closest(monkeypatch):
    known = {"ft06": Instance("ft06", np.array([[0]]), np.array([[1]]))}
    monkeypatch.setattr(_job_shops, "_all", lambda: known)
    with pytest.raises(BadInput, match="did you mean 'ft06'"):
        envs.load_team("jssp:test=ft6", 1)
