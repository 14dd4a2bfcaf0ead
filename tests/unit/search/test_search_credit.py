"""What a searched tree pays: sub-trees, siblings, labels by bisection; and pairs for preference learners."""

import numpy as np
import pytest
from test_attempts import Walk, of

from evolvent.core.branches import linear
from evolvent.core.episode import Episode
from evolvent.credit import step_leave_one_out_to_go, step_search_label, step_search_return, step_search_siblings
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.search import rap
from evolvent.search.record import records


def attempt(words, reward, group="g"):
    episode = Episode("t", group=group, id=f"{words}{reward}")
    for word in words:
        episode.observe("look")
        episode.act(word)
    episode.add_reward(reward)
    episode.end(terminated=True, success=reward > 0)
    return episode


TREE = [attempt("aax", 1.0), attempt("aby", 0.0), attempt("abz", 1.0), attempt("bb", 0.0)]


def steps(ledger):
    return [ledger.values("step")[ledger.episode_index("step") == i].tolist() for i in range(len(TREE))]


def test_a_decision_earns_the_mean_of_what_followed_it():
    want = [[2 / 3, 1.0, 1.0], [2 / 3, 0.5, 0.0], [2 / 3, 0.5, 1.0], [0.0, 0.0]]
    assert steps(step_search_return.assign(TREE)) == [pytest.approx(w) for w in want]


def test_siblings_are_compared_in_the_state_where_they_part():
    got = steps(step_search_siblings.assign(TREE))
    # at the task three went a, one b; of each the mean of its own return less the others' mean
    assert got[0][0] == pytest.approx(np.mean([1 - 1 / 3, 0 - 2 / 3, 1 - 1 / 3]))
    assert got[3] == pytest.approx([0 - 2 / 3, 0.0])
    assert got[0][1:] == pytest.approx([1 - 0.5, 1.0])  # the others there earned 0 and 1; then it stands alone
    assert got[1][1:] == pytest.approx([np.mean([0 - 1.0, 1 - 0.5]), 0 - 1.0])
    apart = [attempt(w, r) for w, r in (("a", 1.0), ("b", 0.0), ("c", 1.0))]
    mine = step_search_siblings.assign(apart).values("step")
    assert mine == pytest.approx(step_leave_one_out_to_go.assign(apart).values("step"))


def test_labels_say_where_it_could_still_come_right():
    assert steps(step_search_label.assign(TREE)) == [[1, 1, 1], [1, 0, 0], [1, 0, 1], [0, 0]]
    first = step_search_label.Config(first_error=True)
    assert steps(step_search_label.assign(TREE, first)) == [[1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 0]]


def test_a_searched_tree_is_paid_once_for_what_its_paths_share():
    search, space = of(Walk, ["go"], Served(Scripted()), widths=(2,))
    rap.run(search, rap.Config(paths=16))
    trees = records(search, space, [p.leaf for p in search.of(0)])
    attempts = linear(trees)
    assert len(attempts) == 8  # every path, one of which is right
    ledger = step_search_return.assign(attempts)
    assert ledger.values("step")[:3].sum() in (0.0, pytest.approx(1.75))
    firsts = {node.text: ledger.values("step")[i] for i, (node, _) in enumerate(_decisions(attempts))}
    paid = ledger.over_trees("step").values("step")
    assert len(paid) == sum(tree.n_steps for tree in trees) == 2 + 4 + 8
    assert sorted(np.round(paid, 2))[-3:] == [0.25, 0.5, 1.0]
    assert firsts


def _decisions(attempts):
    return [(node, e) for e in attempts for node in e.nodes if node.kind == "action"]
