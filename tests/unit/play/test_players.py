"""Attempts as coroutines: what the record holds, budgets, conversations, environments that break or are slow."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Request, Task, Turn
from evolvent.core.reward_kinds import reward_kinds, reward_total, rewards_of
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.models.served.several import Several
from evolvent.play.attempt import allowed, play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.together import run_players
from evolvent.play.workflow import Member, Workflow


class Countdown:
    """Say the number that is shown, until it is zero."""

    name, instructions, labels, stop, max_tokens = "countdown", "Count.\n", ("N", "Said"), ("\n",), 4
    reward_range = (0.0, 3.0)

    def __init__(self, start=3, limit=9, commands=False, breaks_at=-1, wait=None):
        self.start, self.limit, self.commands, self.breaks_at, self.wait = start, limit, commands, breaks_at, wait

    def reset(self, task, seed=0):
        self.now, self.steps = self.start, 0
        return self._turn(0.0)

    def step(self, action):
        self.steps += 1
        if self.wait is not None:
            assert self.wait.wait(timeout=300), "the others were held up"
        if self.steps == self.breaks_at:
            raise EnvError("it broke", where=self.name)
        right = action == str(self.now)
        self.now -= right
        return self._turn(float(right))

    def _turn(self, reward):
        options = ("0", "1", "2", "3") if self.commands else None
        return Turn(
            f"{self.now}",
            options,
            reward,
            terminated=self.now == 0,
            truncated=self.steps >= self.limit,
            success=self.now == 0,
        )


class Letters:
    """One token a character."""

    def first(self, env, turn, examples=""):
        return np.array([ord(c) for c in f"{env.instructions}{turn.observation}"], np.int32)

    def more(self, env, turn, before):
        return np.array([ord(c) for c in f";{turn.observation}"], np.int32)

    def command(self, text):
        return np.array([ord(c) for c in text], np.int32)


def says_what_it_sees(requests):
    """Repeats the last character of the context; a choice is the index of it."""
    out = []
    for request in requests:
        last = int(request.prompt[-1])
        chosen = [i for i, ids in enumerate(request.choices) if ids.tolist() == [last]]
        notes = {"entropy": np.array([0.5], np.float32)}
        choice = chosen[0] if chosen else -1
        out.append(Completion(chr(last), np.array([last]), np.array([-0.5]), choice=choice, notes=notes))
    return out


def attempt(env, **settings):
    return play(env, Task("t", "count"), AttemptSettings(Letters(), **settings), seed=1, group="g")


def text(ids):
    return "".join(map(chr, ids))


def test_fresh_prompts_and_what_is_recorded():
    (episode,) = run_players([attempt(Countdown())], says_what_it_sees)
    assert episode.success and episode.terminated and episode.total_reward == 3.0 and episode.stop == "env"
    assert [text(episode.context_ids(t)) for t in range(3)] == ["Count.\n3", "Count.\n2", "Count.\n1"]
    assert text(episode.token_ids) == "321" and episode.notes["entropy"].tolist() == [0.5] * 3
    assert episode.finish_T == ["stop"] * 3 and episode.group == "g"


@pytest.mark.parametrize("own", [False, True])
def test_a_conversation_holds_the_sampled_tokens(own):
    talk = Countdown()
    talk.conversation = own
    (episode,) = run_players([attempt(talk, transcript=not own)], says_what_it_sees)
    assert [text(episode.context_ids(t)) for t in range(3)] == ["Count.\n3", "Count.\n33;2", "Count.\n33;22;1"]


def test_choices_are_recorded_and_followed():
    (episode,) = run_players([attempt(Countdown(commands=True))], says_what_it_sees)
    assert episode.success and episode.choices(0) == [[48], [49], [50], [51]]


@pytest.mark.parametrize(
    ("budget", "stop", "steps"),
    [(Budget(turns=2), "turns", 2), (Budget(tokens=1), "tokens", 1)],
)
def test_a_budget_truncates_and_says_so(budget, stop, steps):
    (episode,) = run_players([attempt(Countdown(), budget=budget)], says_what_it_sees)
    assert (episode.stop, episode.n_steps) == (stop, steps)
    assert episode.truncated and not episode.terminated
    last = list(episode.nodes)[-1]
    assert last.kind == "observation" and text(episode.tokens_to(last.index)) == f"Count.\n{3 - steps}"


def test_a_conversation_ends_where_the_context_does():
    (episode,) = run_players([attempt(Countdown(), transcript=True, budget=Budget(context=11))], says_what_it_sees)
    assert episode.stop == "context" and episode.n_steps == 1 and episode.truncated
    assert text(episode.tokens_to(episode.n_nodes - 1)) == "Count.\n33;2"


def test_a_prompt_that_does_not_fit_is_an_error_and_not_an_empty_attempt():
    (error,) = run_players([attempt(Countdown(), budget=Budget(context=8))], says_what_it_sees)
    assert isinstance(error, EnvError) and "8 tokens" in str(error) and "task t" in str(error)


def test_rooms_shrink_with_the_budget():
    rooms = []

    def note(requests):
        rooms.extend(request.max_tokens for request in requests)
        return says_what_it_sees(requests)

    run_players([attempt(Countdown(), budget=Budget(tokens=3, answer=2))], note)
    assert rooms == [2, 2, 1]


def test_an_allowed_action_is_said_whole_or_not_at_all():
    class Long(Letters):
        def command(self, text):
            return np.full(6, ord(text), np.int32)

    rooms = []

    def choose(requests):
        rooms.extend(request.max_tokens for request in requests)
        ids = [next(c for c in request.choices if c[0] == request.prompt[-1]) for request in requests]
        return [Completion("", c, np.zeros(6), choice=int(chr(c[0]))) for c in ids]

    env = Countdown(commands=True)  # its own answers have 4 tokens
    (whole,) = run_players([play(env, Task("t", ""), AttemptSettings(Long()), seed=0)], choose)
    assert whole.success and rooms == [6, 6, 6]
    cut = play(env, Task("t", ""), AttemptSettings(Long(), budget=Budget(tokens=10)), seed=0)
    (cut,) = run_players([cut], choose)
    assert cut.n_steps == 1 and cut.truncated


def test_a_command_that_begins_another_ends_with_a_line_break():
    assert [text(ids) for ids in allowed(Letters(), ["go", "stay"])] == ["go", "stay"]
    commands = ["take jar", "look", "take jar from shelf", "take"]
    assert [text(ids) for ids in allowed(Letters(), commands)] == [f"{command}\n" for command in commands]
    assert [text(ids) for ids in allowed(Letters(), ["go", "go"])] == ["go", "go"]


def test_a_limit_of_the_environment_leaves_the_last_observation():
    (episode,) = run_players([attempt(Countdown(limit=2))], says_what_it_sees)
    assert episode.truncated and [n.kind for n in episode.nodes][-2:] == ["action", "observation"]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_broken_environment_takes_only_its_own_attempt(workers):
    envs = [Countdown(), Countdown(breaks_at=2), Countdown(start=1)]
    heard = []
    first, broken, last = run_players(
        [attempt(env) for env in envs], says_what_it_sees, workers=workers, heard=heard.append
    )
    assert first.success and last.success and isinstance(broken, EnvError) and heard[-1] == 3


def test_a_slow_tool_holds_up_nobody_but_its_own_attempt():
    others_done = threading.Event()

    def heard(done):
        if done == 2:
            others_done.set()

    envs = [Countdown(wait=others_done), Countdown(), Countdown()]
    episodes = run_players([attempt(env) for env in envs], says_what_it_sees, workers=3, heard=heard)
    assert all(e.success for e in episodes)


def test_draws_do_not_depend_on_who_waits_together():
    def seeds(n, workers):
        seen = {}

        def note(requests: list[Request]):
            for request in requests:
                seen.setdefault(request.seed, 0)
                seen[request.seed] += 1
            return says_what_it_sees(requests)

        run_players(
            [play(Countdown(), Task("t", ""), AttemptSettings(Letters()), seed=s) for s in range(n)],
            note,
            workers=workers,
        )
        return set(seen)

    assert seeds(2, 0) < seeds(3, 0) == seeds(3, 2) and len(seeds(3, 0)) == 9


class Reporting(Countdown):
    """Tells more than its reward: ``given(step)`` in ``info``."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def step(self, action):
        return replace(super().step(action), info=self.given(self.steps))


def test_what_the_environment_pays_besides_and_the_answer_are_kept():
    env = Reporting(lambda n: {"rewards": {"form": n / 4} | ({"tests": 0.5} if n == 3 else {}), "action": f"read {n}"})
    (episode,) = run_players([attempt(env)], says_what_it_sees)
    assert rewards_of(episode, "form").tolist() == [0.25, 0.5, 0.75] and reward_total(episode, "tests") == 0.5
    assert episode.answer == "read 3" and episode.total_reward == 3.0
    (plain,) = run_players([attempt(Countdown())], says_what_it_sees)
    assert plain.answer == "1" and reward_kinds(plain) == []


def test_a_kind_of_reward_that_comes_now_and_then_is_the_fault_of_the_environment():
    (error,) = run_players(
        [attempt(Reporting(lambda n: {"rewards": {"form": 1.0}} if n == 2 else {}))], says_what_it_sees
    )
    assert isinstance(error, EnvError) and "now and then" in str(error)
    with pytest.raises(BadInput, match="do not fit"):
        run_players([attempt(Reporting(lambda n: {"rewards": {"form": float("nan")}}))], says_what_it_sees)


def team_of_models(kind=""):
    """A planner and a counter, each a model of its own: a function whose tokens nobody counts, and one that counts."""

    def counter(requests):
        said = [request.prompt.rpartition("N: ")[2][:1] for request in requests]
        return [Completion(text, np.array([7]), np.array([-0.5]), 30, 10, 0.25) for text in said]

    planner = Served(Scripted(lambda prompt: "look closely"))
    team = Workflow((Member("planner", kind="by hand"), Member("counter", ("planner",), kind=kind)))
    return Several({"planner": planner, "counter": counter}), team


def test_members_are_models_of_their_own_and_the_record_says_which_ran_and_what_it_took():
    engine, team = team_of_models("strong")
    settings = AttemptSettings(Text(), team=team, accounts=True)
    episode = run_players([play(Countdown(2), Task("t", "count"), settings, seed=1)], engine)[0]
    assert episode.agents_T == ["planner", "counter"] * 2 and episode.success
    assert episode.implementations == [("planner", "by hand"), ("counter", "strong")]
    ran = [node for node in episode.nodes if node.kind == "component"]
    assert [node.agent for node in ran] == episode.agents_T
    assert [node.index + 1 for node in ran] == episode.step_nodes_T.tolist()
    counted = {"prompt": 30, "cached": 10, "completion": 1, "seconds": 0.25}
    assert episode.usage_T == [{}, counted] * 2 and episode.usage["prompt"] is None


def test_without_accounts_nothing_of_it_is_recorded():
    engine, team = team_of_models()
    episode = run_players([play(Countdown(1), Task("t", "count"), AttemptSettings(Text(), team=team), seed=1)], engine)[
        0
    ]
    assert episode.components == [] and episode.usage_T == [{}, {}]


def test_a_member_whose_model_nobody_is():
    engine = Several({"planer": Served(Scripted())})
    with pytest.raises(BadInput, match="no such model"):
        engine([Request("x", 0, 4, adapter="planner")])
