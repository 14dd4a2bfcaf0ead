"""Attempts that share a beginning: exact to the token, within the budget, the same after a break."""

import numpy as np
import pytest
from test_players import Countdown, Letters

import tiny_language
from evolvent.algos.aepo.branching import branch_score, branched, turn_entropies, whole_attempts
from evolvent.core.branches import Branch, trees_of
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Task
from evolvent.learn.tokens.batch import token_batch
from evolvent.play.attempt import play
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from language_runs import rows, settings, start
from run_folders import timeless

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=1024)


@pytest.fixture(scope="module")
def updates(model, tmp_path_factory):
    """Two updates of AEPO: the lines of the metrics, and what was trained on."""
    config = settings("aepo", model, group=6, plan={"record": 99})
    folder, seen, _ = start("aepo", config, tmp_path_factory.mktemp("run") / "run")
    return rows(folder), seen


def parted_from(episode):
    """The decisions that it shares with the attempt it parted from; of an attempt from the task 0."""
    return episode.shared if isinstance(episode, Branch) else 0


def of(episode, attempts):
    """The attempt that it parted from."""
    number = episode.tree.forks[episode.number].of
    return next(e for e in attempts if isinstance(e, Branch) and e.tree is episode.tree and e.number == number)


# ------------------------------------------------------------------------------------------------ formulas
def test_half_of_the_attempts_start_afresh_unless_entropy_says_otherwise():
    assert whole_attempts(1.0, 1.0, 16) == 9, "floor(16 / 2) + 1, as released"
    assert whole_attempts(3.0, 0.0, 16) == 14 and whole_attempts(0.0, 3.0, 16) == 3
    assert whole_attempts(99.0, 0.0, 4) == 4 and whole_attempts(0.0, 99.0, 4) == 1
    assert whole_attempts(0.0, 0.0, 1) == 1
    with pytest.raises(BadInput, match="budget"):
        whole_attempts(0.0, 0.0, 0)


def test_a_branch_right_after_branches_is_less_likely():
    assert branch_score(0.5, 0.0, 0) == 0.5
    assert branch_score(0.5, 1.0, 0) == pytest.approx(0.7)
    assert branch_score(0.5, 1.0, 4) == pytest.approx(0.7 * 0.8)
    assert branch_score(0.9, 9.0, 0) == 1.0 and branch_score(0.1, -9.0, 0) == 0.0
    assert branch_score(0.9, 0.0, 30) == 0.0, "not negative"


# ------------------------------------------------------------------------------------------------ attempts of a run
def test_a_branch_shares_its_beginning_to_the_bit_and_goes_on_by_itself(updates):
    branches = parted = 0
    for _, episodes, _ in updates[1]:
        for group in {e.group for e in episodes}:
            attempts = [e for e in episodes if e.group == group]
            assert len(attempts) == 6 and len({e.seed for e in attempts}) == 6
            for e in attempts:
                if not parted_from(e):
                    continue
                branches += 1
                origin, turn = of(e, attempts), e.shared
                tokens = e.tokens_per_step_T[:turn].sum()
                assert 0 < turn < min(e.n_steps, origin.n_steps)
                assert (
                    tokens == origin.tokens_per_step_T[:turn].sum()
                    and (e.tokens[:tokens] == origin.tokens[:tokens]).all()
                )
                for mine, its in ((e.token_ids, origin.token_ids), (e.logp, origin.logp)):
                    assert mine[:tokens].tolist() == its[:tokens].tolist()
                assert e.notes["entropy"][:tokens].tolist() == origin.notes["entropy"][:tokens].tolist()
                assert e.rewards_T[:turn].tolist() == origin.rewards_T[:turn].tolist()
                for t in range(turn + 1):
                    assert e.context_ids(t).tolist() == origin.context_ids(t).tolist()
                    assert e.choices(t) == origin.choices(t)
                parted += e.token_ids.tolist() != origin.token_ids.tolist()
    assert branches > 3 and parted > branches / 2


def test_as_many_start_afresh_as_the_first_attempt_says(updates):
    for row, (_, episodes, _) in zip(updates[0], updates[1], strict=True):
        branches = sum(parted_from(e) > 0 for e in episodes)
        assert row["branched"] == pytest.approx(branches / len(episodes))
        shared = sum(e.tokens_per_step_T[: e.shared].sum() for e in episodes if parted_from(e))
        assert row["sampled_tokens"] == sum(e.n_tokens for e in episodes) - shared > 0
        for group in {e.group for e in episodes}:
            attempts = [e for e in episodes if e.group == group]
            entropy = turn_entropies(attempts[0], 104)
            whole = whole_attempts(entropy[0], float(np.mean(entropy)), 6)
            assert not any(map(parted_from, attempts[:whole])) and not parted_from(attempts[0])


def test_what_is_shared_counts_once_for_each_attempt_and_is_sampled_from_one_policy(updates):
    """As published: every branch is an attempt of the group, so a shared token has the sum of their advantages."""
    rows_, seen = updates
    assert rows_[0]["gap"] < 1e-4, "the first step sees the policy that sampled, in the shared beginnings too"
    for _, episodes, ledger in seen:
        batch = token_batch(episodes, ledger, level="token", constrained=True)
        assert len(batch.units) == sum(e.n_tokens for e in episodes), "no more and no less"
        rows_of = [batch.units.row[batch.units.trajectory == i].unique().tolist() for i in range(len(episodes))]
        for i, e in enumerate(episodes):
            mine = ledger.values("token")[ledger.episode_index("token") == i]
            assert batch.units.adv[batch.units.trajectory == i].numpy() == pytest.approx(mine, rel=1e-6)
            if parted_from(e):
                origin = rows_of[episodes.index(of(e, episodes))]
                for mine, its in list(zip(rows_of[i], origin, strict=False))[: e.shared]:
                    same = batch.rows[mine], batch.rows[its]
                    assert same[0].context.tolist() == same[1].context.tolist()
                    assert same[0].tokens.tolist() == same[1].tokens.tolist()


def test_what_attempts_share_is_recorded_and_paid_once(updates, model, tmp_path):
    for _, episodes, ledger in updates[1]:
        trees, once = trees_of(episodes), ledger.over_trees("token")
        assert once.episodes == tuple(trees) and len(trees) < len(episodes)
        assert once.size("token") == sum(t.n_tokens for t in trees) < ledger.size("token")
        times = np.zeros(once.size("token"))
        starts = dict(zip(map(id, trees), np.cumsum([0, *(t.n_tokens for t in trees)]), strict=False))
        at = [
            starts[id(e.tree)] + e.tokens if isinstance(e, Branch) else starts[id(e)] + np.arange(e.n_tokens)
            for e in episodes
        ]
        for tokens in at:
            times[tokens] += 1
        paid = ledger.values("token") / times[np.concatenate(at)]
        assert once.total("token") == pytest.approx(paid.sum(), abs=1e-9) and times.max() > 1
    folder, seen, _ = start("aepo", settings("aepo", model, group=6, updates=1, plan={"record": 99}), tmp_path / "run")
    written = [Episode.from_dict(row) for row in folder.read_episodes()]
    assert written == trees_of(seen[0][1]), "each record once"


def test_a_run_that_broke_ends_with_the_same_numbers(model, tmp_path, updates):
    config = settings("aepo", model, group=6, plan={"record": 99})
    with pytest.raises(KeyboardInterrupt):
        start("aepo", config, tmp_path / "part", break_at=1)
    part, seen, _ = start("aepo", config, tmp_path / "part", resume=True)
    assert len(seen) == 1, "it went on after the first update"

    assert timeless(rows(part)) == timeless(updates[0])
    assert [parted_from(e) for e in seen[0][1]] == [parted_from(e) for e in updates[1][1][1]]


def test_who_waited_for_whom_changes_nothing(model, tmp_path, updates):
    config = settings("aepo", model, group=6, updates=1, plan={"workers": 3})
    _, seen, _ = start("aepo", config, tmp_path / "run")
    for mine, its in zip(seen[0][1], updates[1][0][1], strict=True):
        assert mine.token_ids.tolist() == its.token_ids.tolist() and parted_from(mine) == parted_from(its)


def test_no_attempt_branches_where_all_start_from_the_task(model, tmp_path):
    folder, seen, _ = start("aepo", settings("aepo", model, updates=1, whole=3), tmp_path / "run")
    assert rows(folder)[0]["branched"] == 0.0 and len(seen[0][1]) == 6
    with pytest.raises(BadInput, match="entropy of every token"):
        start("aepo", settings("aepo", model, updates=1, act="word"), tmp_path / "word")


# ------------------------------------------------------------------------------------------------ repeating
def attempt(env, answers, again=None, transcript=False):
    """One attempt that answers these, or a branch ``again = (origin, turns)`` of another."""
    said = iter(answers)

    def answer(requests):
        return [Completion(text, np.array([ord(text)], np.int32), np.zeros(1, np.float32)) for text in (next(said),)]

    player = play(env, Task("t", "Count."), AttemptSettings(Letters(), transcript=transcript), seed=1, group="g")
    (result,) = run_players([player if again is None else branched(player, *again)], answer)
    if isinstance(result, EnvError):
        raise result
    assert next(said, None) is None, "nothing was asked of the model that stands in the record"
    return result


@pytest.mark.parametrize("transcript", [False, True])
def test_a_branch_of_free_text_asks_for_what_comes_after(transcript):
    origin = attempt(Countdown(), "3x21", transcript=transcript)
    branch = attempt(Countdown(), "321"[1:], (origin, 1), transcript)
    assert [node.text for node in branch.nodes if node.step is not None] == ["3", "2", "1"]
    assert branch.context_ids(1).tolist() == origin.context_ids(1).tolist()


def test_a_world_that_shows_something_else_is_an_error():
    class Moody(Countdown):
        """Another number at the second attempt, or from its second turn on, or another reward."""

        def __init__(self, **other):
            super().__init__()
            self.other = other

        def reset(self, task, seed=0):
            self.start = self.other.get("start", 3)
            return super().reset(task, seed)

        def step(self, action):
            turn = super().step(action)
            return type(turn)(**{**vars(turn), **self.other.get("turn", {})})

    origin = attempt(Countdown(), "3x21")
    for other, match in (
        ({"start": 2}, "decision 0"),
        ({"turn": {"observation": "7"}}, "decision 1"),
        ({"turn": {"terminated": True}}, "ended"),
    ):
        with pytest.raises(EnvError, match="the same actions led elsewhere") as error:
            attempt(Moody(**other), "21", (origin, 2))
        assert match in str(error.value)
    with pytest.raises(EnvError, match="other rewards"):
        attempt(Moody(turn={"reward": 5.0}), "21", (origin, 2))
