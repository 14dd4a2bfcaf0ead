"""The microwave case study: its one solution, its end, its exact success probability."""

import itertools

import pytest

from evolvent.envs.text import microwave


def play(env, actions):
    turn = env.reset(env.tasks("train", 1, 0)[0])
    rewards = []
    for action in actions:
        assert action in (turn.admissible or ())
        turn = env.step(action)
        rewards.append(turn.reward)
    return turn, rewards


@pytest.mark.parametrize("long", [False, True])
def test_open_put_close_is_paid_at_the_end_only(long):
    env = microwave.make(long=long)
    opened, put, closed = microwave._LONG if long else microwave._SHORT
    turn, rewards = play(env, (opened, put, closed))
    assert rewards == [0.0, 0.0, 1.0] and turn.success and turn.terminated and not turn.truncated


def test_the_fifth_command_costs_one_unless_it_heats():
    opened, put, closed = microwave._SHORT
    turn, rewards = play(microwave.make(), (closed, closed, closed, closed, opened))
    assert rewards == [0, 0, 0, 0, -1] and turn.terminated and not turn.success
    turn, rewards = play(microwave.make(), (closed, opened, put, opened, closed))
    assert rewards == [0, 0, 0, 0, 1] and turn.success


@pytest.mark.parametrize(("p", "q", "limit"), [(0.5, 0.5, 5), (0.9, 0.3, 5), (0.2, 0.6, 7), (1.0, 1.0, 3)])
def test_success_probability_is_that_of_all_attempts_enumerated(p, q, limit):
    env, total = microwave.make(step_limit=limit), 0.0
    for right in itertools.product((True, False), repeat=limit):
        turn, chance, state, left = env.reset(env.tasks("train", 1, 0)[0]), 1.0, 0, list(right)
        while not turn.done:
            good = left.pop(0)
            if len(turn.admissible) == 1:
                action, chance, state = turn.admissible[0], chance * good, 1  # a forced command is not drawn
            else:
                chance *= (q if state else p) if good else 1 - (q if state else p)
                action = turn.admissible[bool(state) == good]
            turn = env.step(action)
        total += chance * all(left) * turn.success
    assert microwave.success_probability(p, q, limit) == pytest.approx(total, abs=1e-12)


def test_long_commands_have_eleven_words_and_are_decided_by_the_first():
    short, long = microwave._SHORT, microwave._LONG
    assert all(len(command.split()) >= 11 for command in long)
    assert [command.split()[0] for command in long] == [command.split()[0] for command in short]
    assert long[0].split()[1:] == long[2].split()[1:]
