"""Searches over attempts: what is asked, what is replayed, what it costs, and the record that comes of it."""

from dataclasses import replace

import numpy as np
import pytest

from evolvent.core.branches import branches
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Task, Turn
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.settings import Budget as Limits
from evolvent.runs.search.outcome import chosen
from evolvent.search import beam, best_of_n, bfs_v, cot_sc, dfsdt, mcts_alpha, mcts_rollout, rap, rstar, values
from evolvent.search.attempts import Attempts
from evolvent.search.budget import Budget
from evolvent.search.record import records
from evolvent.search.search import Search, flat
from evolvent.search.tree import Tree


class Sums:
    """Say numbers, a line each; a blank line ends the answer, which is right when they add up to the question."""

    name, instructions, labels, stop, max_tokens = "sums", "Add up.\n", ("Q", "A"), ("\n\n",), 40
    reward_range = (0.0, 1.0)

    def reset(self, task, seed=0):
        self.goal = int(task.text)
        return Turn(task.text)

    def step(self, action):
        said = [int(x) for x in action.split() if x.isdigit()]
        right = sum(said) == self.goal
        return Turn("", reward=float(right), terminated=True, success=right, info={"action": str(sum(said))})


class Walk:
    """Three steps left or right; only right, left, right is paid."""

    name, instructions, labels, stop, max_tokens = "walk", "", ("At", "Go"), ("\n",), 4
    reward_range, conversation = (0.0, 1.0), False

    def reset(self, task, seed=0):
        self.path = ""
        return Turn("start", admissible=("left", "right"))

    def step(self, action):
        self.path += action[0]
        done = len(self.path) == 3
        right = self.path == "rlr"
        key = f"{self.path.count('l')} left, {self.path.count('r')} right"
        return Turn(key, ("left", "right"), reward=float(right), terminated=done, success=right)


class Writer:
    """An engine that writes one token a character, the same for the same prompt and seed."""

    def __init__(self, alphabet="123", lines=3, logp=True):
        self.alphabet, self.lines, self.logp, self.asked = alphabet, lines, logp, []

    def __call__(self, requests):
        out = []
        self.asked.append(len(requests))
        for request in requests:
            answer = request.prompt.split("A:")[1]
            text, stopped = "", ""
            draw = np.random.default_rng(request.seed)
            while True:
                whole = answer + text
                at_end = whole.endswith("\n") or not whole.strip()
                done = whole.count("\n") >= self.lines and at_end
                text += "\n" if done or not at_end else draw.choice(list(self.alphabet))
                hit = [s for s in request.stop if s in (answer[-1:] + text if s == "\n\n" else text)]
                if hit or len(text) >= request.max_tokens:
                    break
            ids = np.array([ord(c) for c in text], np.int32)
            logp = np.log(np.full(len(ids), 0.5, np.float32)) if self.logp else np.zeros(0, np.float32)
            if hit:
                stopped = "\n\n" if "\n\n" in hit else hit[0]
                text = text[: -len(stopped)] if text.endswith(stopped) else ""
            out.append(
                Completion(text, ids, logp, len(request.prompt), finish="stop" if hit else "length", stopped=stopped)
            )
        return out


def of(env, questions, engine, *, unit="line", value=flat, comparable=False, settings=None, **more):
    tree = Tree(len(questions))

    def start(question):
        def begin(limit):
            how = AttemptSettings(Text(), budget=Limits(turns=limit)) if settings is None else settings(limit)
            return play(env(), Task(f"t{question}", question), how, seed=7, group=question)

        return begin

    space = Attempts(
        tree, [start(q) for q in questions], engine, questions, unit=unit, longest=12, comparable=comparable
    )
    return Search(tree, space, value, **more), space


def test_lines_of_an_answer_are_moves_and_equal_ones_are_one():
    writer = Writer()
    search, space = of(Sums, ["6"], writer, widths=(6,))
    search.expand([0])
    children = search.tree.children(0)
    lines = [space.state(int(n)).steps for n in children]
    assert len(lines) == len(set(lines)) <= 3
    assert all(len(line) == 1 and line[0] in "123" for line in lines)
    assert search.tree.prior[children].sum() == pytest.approx(1)
    assert search.tree.tokens[children].tolist() == [2] * len(children)  # the digit and the end of its line
    assert search.meter.tokens[0] == 12
    assert (search.meter.calls[0], search.meter.batches, writer.asked) == (6, 1, [6])


def test_a_search_finds_the_answer_by_a_value_of_its_steps():
    def toward_six(states):
        return [-abs(6 - sum(int(x) for s in state.steps for x in s.split())) for state in states]

    search, space = of(Sums, ["6", "6"], Writer(), widths=(8,), value=toward_six)
    beam.run(search, beam.Config(keep=(3,)))
    for task in (0, 1):
        best = max(search.of(task), key=lambda p: p.value)
        episode = space.episode(best.leaf)
        assert episode.success
        assert episode.answer == "6"


@pytest.mark.parametrize(
    "run", [mcts_alpha.run, mcts_rollout.run, rap.run, rstar.run, dfsdt.run, bfs_v.run, cot_sc.run]
)
@pytest.mark.parametrize("unit", ["line", "token", "answer"])
def test_every_search_over_every_unit_ends_and_is_recorded(run, unit):
    search, space = of(Sums, ["5"], Writer(), unit=unit, widths=(3,), verifier=values.reward)
    run(search)
    found = search.of(0)
    assert found
    assert all(p.ended for p in found)
    for tree in records(search, space, [p.leaf for p in found]):
        again = Episode.from_dict(tree.to_dict())
        for one in branches(again):
            text = "".join(map(chr, one.token_ids))
            said = [int(c) for c in text if c.isdigit()]
            assert one.success == (sum(said) == 5) == bool(one.total_reward)
            assert one.n_steps == {"line": 4, "token": len(text), "answer": 1}[unit]
            head = "".join(map(chr, one.context_ids(one.n_steps - 1)))
            assert text.startswith(head)
            if unit != "answer":
                assert set(one.notes) >= {"visits", "search_value"}
                if run in (rap.run, mcts_rollout.run, rstar.run):  # all that begin at the task
                    assert (np.diff(one.notes["visits"]) <= 0).all()


def test_what_several_paths_share_stands_once():
    search, space = of(Sums, ["5"], Writer(), widths=(3,))
    rap.run(search, rap.Config(paths=8))
    trees = records(search, space, [p.leaf for p in search.of(0)])
    attempts = [one for tree in trees for one in branches(tree)]
    assert len(attempts) == len({int(search.tree.state[p.leaf]) for p in search.paths})
    assert sum(tree.n_steps for tree in trees) < sum(one.n_steps for one in attempts)


def test_actions_on_a_list_are_moves_and_worlds_are_replayed():
    search, space = of(Walk, ["go"], Served(Scripted()), widths=(2,), verifier=values.reward)
    rap.run(search, rap.Config(paths=12))
    best = max(search.of(0), key=lambda p: p.value)
    assert space.state(best.leaf).steps == ("right", "left", "right")
    assert space.episode(best.leaf).rewards_T.tolist() == [0.0, 0.0, 1.0]
    assert search.meter.calls[0] == 1 + 2 + 4  # one a decision
    assert (search.tree.terminal[: search.tree.n]).sum() == len({p.leaf for p in search.paths})


@pytest.mark.parametrize("tokens", [True, False])
def test_listed_actions_that_were_not_drawn_have_a_likelihood_too(tokens):
    """By the model's scores of all of them: a torch model says which tokens they are, an endpoint does not."""

    def engine(requests):
        def one(r):
            scores = -(np.arange(1.0, 1.0 + len(r.choices)) ** 2)
            ids = np.zeros(4 if tokens else 0, np.int32)
            return Completion(str(r.choices[0]), ids, np.zeros(0, np.float32), choice=0, scores_N=scores)

        return list(map(one, requests))

    search, space = of(Walk, ["go"], engine, widths=(2,), value=values.likelihood)
    rap.run(search, rap.Config(paths=6))
    states = [space.state(node) for node in range(1, search.tree.n)]
    found = values.likelihood(states)
    assert ((found > 0.0) & (found < 1.0)).all() and len({round(x, 6) for x in found}) > 1


def test_an_only_action_is_not_scored():
    class Corridor(Walk):
        def step(self, action):
            turn = super().step(action)
            return replace(turn, admissible=("left",)) if len(self.path) == 1 else turn

    model, asked = Scripted(), []
    score = model.score
    model.score = lambda prompt, texts: asked.append(len(texts)) or score(prompt, texts)
    search, space = of(Corridor, ["go"], Served(model), widths=(2,))
    rap.run(search, rap.Config(paths=8))
    assert asked == [2, 2, 2] and search.meter.calls[0] == 1 + 2 + 2  # a decision counts, with or without a choice
    assert {space.state(p.leaf).steps[1] for p in search.of(0)} == {"left"}


def test_equal_states_are_searched_once_where_they_can_be_compared():
    alone, _ = of(Walk, ["go"], Served(Scripted()), widths=(2,))
    joined, _ = of(Walk, ["go"], Served(Scripted()), widths=(2,), comparable=True)
    for search in (alone, joined):
        rap.run(search, rap.Config(paths=12))
    assert alone.meter.calls[0] == 7
    assert joined.meter.calls[0] == 6  # left, right and right, left are one state
    assert joined.tree.n < alone.tree.n


def test_a_path_that_the_budget_cut_off_is_an_attempt_that_was_truncated():
    search, space = of(Walk, ["go"], Served(Scripted()), widths=(2,), budget=Budget(calls=2))
    bfs_v.run(search)
    (path,) = search.of(0)
    assert not path.ended
    episode = space.episode(path.leaf)
    assert (episode.truncated, episode.stop, episode.n_steps) == (True, "turns", 2)
    lines, space = of(Sums, ["5"], Writer(), widths=(2,), budget=Budget(tokens=5))
    bfs_v.run(lines)
    (path,) = lines.of(0)
    assert not path.ended
    assert space.episode(path.leaf).answer in "123"  # what was said so far is the answer


@pytest.mark.parametrize("tokens", [1, 7, 20, 33, 61])
@pytest.mark.parametrize("run", [best_of_n.run, mcts_alpha.run, beam.run, dfsdt.run])
def test_tokens_are_never_more_than_the_budget(run, tokens):
    search, _ = of(Sums, ["5", "6"], Writer(), widths=(4,), budget=Budget(tokens=tokens))
    run(search)
    assert (search.meter.tokens <= tokens).all()
    assert all(search.of(task) for task in (0, 1))


def test_samples_fill_a_budget():
    search, _ = of(Sums, ["5"], Writer(), budget=Budget(tokens=100))
    best_of_n.run(search, best_of_n.Config(paths=1000))
    assert 12 <= len(search.paths) <= 100 // 7  # three lines of two, and the end
    assert 93 < search.meter.tokens[0] <= 100


@pytest.mark.parametrize(("tokens", "finished"), [(7, 1), (10, 1), (14, 2), (21, 3), (28, 4), (50, 7), (140, 20)])
def test_a_small_budget_is_spent_on_samples_that_it_can_finish(tokens, finished):
    search, _ = of(Sums, ["5", "6"], Writer(), budget=Budget(tokens=tokens))
    best_of_n.run(search, best_of_n.Config(paths=1000, parallel=16))
    assert [sum(path.ended for path in search.of(task)) for task in (0, 1)] == [finished, finished]


@pytest.mark.parametrize("run", [beam.run, mcts_alpha.run, rap.run])
def test_a_first_expansion_is_not_cut_short_by_a_small_budget(run):
    writer = Writer()
    search, _ = of(Sums, ["5", "6"], writer, unit="answer", widths=(8,), budget=Budget(tokens=50))
    run(search)
    for task in (0, 1):
        assert all(path.ended for path in search.of(task)) and search.meter.calls[task] == 50 // 7
    assert writer.asked[:2] == [2, 12]  # one of each task, then what it can pay for


def test_a_vote_takes_the_first_path_to_its_answer_whatever_a_value_says():
    search, space = of(Sums, ["5"], Writer())
    cot_sc.run(search, cot_sc.Config(paths=30))
    search.paths[:] = [replace(path, value=i / 30) for i, path in enumerate(search.paths)]
    voted, valued = chosen(search, space, 0, "cot_sc"), chosen(search, space, 0, "last_vote")
    to_it = [path for path in search.paths if space.episode(path.leaf).answer == voted.answer]
    assert len(to_it) > 1 and voted.path is to_it[0]
    assert valued.path is [p for p in search.paths if space.episode(p.leaf).answer == valued.answer][-1]


def test_samples_are_drawn_anew_and_the_same_in_a_batch():
    search, space = of(Sums, ["5"], Writer())
    best_of_n.run(search, best_of_n.Config(paths=12))
    found = [space.state(p.leaf).steps for p in search.paths]
    assert len(set(found)) > 6
    together, other = of(Sums, ["9", "5"], Writer())
    best_of_n.run(together, best_of_n.Config(paths=12))
    assert [other.state(p.leaf).steps for p in together.of(1)] == found


def test_a_model_without_log_probabilities_has_uniform_priors_and_says_so():
    search, space = of(Sums, ["5"], Writer(logp=False), widths=(3,))
    search.expand([0])
    prior = search.tree.prior[search.tree.children(0)]
    assert prior.tolist() == pytest.approx([1 / len(prior)] * len(prior))
    assert space.notes == ["the model gives no log-probabilities: priors are uniform"]


@pytest.mark.parametrize("stopped", [None, "\n"])
def test_an_endpoint_that_says_nothing_but_text_can_be_searched(stopped):
    replies = iter(["1", "2", ""])

    def engine(requests):
        none = (np.zeros(0, np.int32), np.zeros(0, np.float32))
        return [Completion(next(replies), *none, finish="stop", stopped=stopped) for _ in requests]

    search, space = of(Sums, ["3"], engine, widths=(1,))
    rap.run(search, rap.Config(paths=1))
    (path,) = search.of(0)
    assert space.episode(path.leaf).answer == "3"
    assert any("four bytes" in note for note in space.notes)


def test_rollouts_judge_states_before_they_are_searched():
    search, space = of(Sums, ["3"], Writer(alphabet="12"), widths=(4,), value=values.Rollouts(6))
    search.expand([0])
    worth = {space.state(int(n)).steps[0]: search.tree.value[n] for n in search.tree.children(0)}
    assert worth["2"] < worth["1"] or worth["2"] == 0.0  # 1 + 1 + 1 alone makes 3
    assert worth["2"] == 0.0


def test_deeper_states_are_judged_by_fewer_samples_where_that_is_asked_for():
    """Of three ones every sample makes three; a sum that is right already at a deeper state is still one sample."""
    counts, chains = [], values.chains

    def counted(search, nodes, **how):
        counts.append({n: nodes.count(n) for n in dict.fromkeys(nodes)})
        return chains(search, nodes, **how)

    search, _ = of(Sums, ["3"], Writer(alphabet="1"), widths=(2,), value=values.Rollouts(12, least=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "chains", counted)
        search.expand([0])
        search.expand(search.tree.children(0))
    assert [set(count.values()) for count in counts] == [{6}, {5}]  # 12 // 2, then no fewer than 5
    for wrong in ({"n": 0}, {"n": 4, "least": 5}, {"least": -1}):
        with pytest.raises(BadInput, match="samples of a state"):
            values.Rollouts(**wrong)


def test_a_world_that_does_not_repeat_itself_is_refused():
    ends = iter([False] * 4 + [True] * 20)

    class Shifting(Walk):
        def step(self, action):
            turn = super().step(action)
            return Turn(turn.observation, ("left", "right"), terminated=next(ends) or turn.terminated)

    search, _ = of(Shifting, ["go"], Served(Scripted()), widths=(2,))
    with pytest.raises(EnvError, match="the same answers led elsewhere"):
        rap.run(search, rap.Config(paths=8))


def test_a_verifier_that_raises_is_named_with_what_it_read():
    def broken(question, text):
        return 1 / 0

    search, _ = of(Sums, ["5"], Writer(), widths=(2,), verifier=values.verifier(broken))
    with pytest.raises(EnvError, match="the verifier failed") as error:
        rap.run(search)
    assert "ZeroDivisionError" in str(error.value)


def test_a_process_model_must_score_every_step():
    def short(question, steps):
        return [0.5] * (len(steps) - 1)

    search, _ = of(Sums, ["5"], Writer(), widths=(2,), value=values.process(short))
    with pytest.raises(Exception, match="must score every step"):
        search.expand([0])


def test_values_add_up():
    one = values.mixture(
        (0.5, values.process(lambda q, steps: [float(len(steps))] * len(steps))), (2.0, values.likelihood)
    )
    search, _ = of(Sums, ["5"], Writer(), widths=(2,), value=one)
    search.expand([0])
    assert search.tree.value[search.tree.children(0)].tolist() == pytest.approx([0.5 + 2 * 0.5] * search.tree.width[0])
