"""PSRO, fictitious self-play and self-play with exact responses: NashConv before the response of each iteration.

The numbers were measured with another loop over ``pyspiel``'s responses, a linear programme by HiGHS, and mixtures by
own reach. Iterations 0 to 2 are exact, later ones depend on ties between best responses: bounds.
"""

import io

import numpy as np
import pytest

from evolvent.algos import fsp, psro, self_play
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.formulas import meta_games
from evolvent.runs.population import tabular

pytest.importorskip("pyspiel")


def nash_convs(path, system, **settings):
    """Of every iteration, and of the end."""
    config = system.Config(**{"tolerance": 0.0, "matches": 0, **settings})
    folder = RunFolder.create(path, algo="test", config={}, env=config.env, seed=0, command="test", kind="population")
    with folder:
        summary = system.run(config, folder, Live(plain=True, stream=io.StringIO()))
        return [row["nash_conv"] for row in folder.read_metrics()] + [summary["score"]["value"]]


def test_psro_on_kuhn_poker_reaches_the_equilibrium(tmp_path):
    found = nash_convs(tmp_path / "run", psro, iterations=12)
    np.testing.assert_allclose(found[:3], [0.9167, 0.8333, 0.3333], atol=5e-5)
    assert max(found[10:]) < 1e-9


def test_fictitious_self_play_on_kuhn_poker_falls_slowly(tmp_path):
    found = nash_convs(tmp_path / "run", fsp, iterations=15)
    np.testing.assert_allclose(found[:3], [0.9167, 0.625, 0.4167], atol=5e-5)
    assert 0.05 < found[15] < 0.2
    assert found[15] < 0.5 * found[2]


def test_self_play_on_kuhn_poker_goes_round(tmp_path):
    found = nash_convs(tmp_path / "run", self_play, iterations=16)
    np.testing.assert_allclose(found[:3], [0.9167, 0.8333, 0.3333], atol=5e-5)
    assert min(found) > 0.33
    assert max(found[8:]) == pytest.approx(2.3333, abs=5e-5)
    assert found[5:].count(found[4]) > 1  # it comes back


def test_psro_on_leduc_poker_begins_right(tmp_path):
    found = nash_convs(tmp_path / "run", psro, env="leduc", iterations=2)
    np.testing.assert_allclose(found[:2], [4.7472, 6.8333], atol=5e-5)


@pytest.mark.slow
def test_psro_on_leduc_poker_comes_below_fifty_five_hundredths(tmp_path):
    assert nash_convs(tmp_path / "run", psro, env="leduc", iterations=80)[80] <= 0.55


def _population(average, iterations):
    """NashConv of PSRO on Kuhn poker with mixtures averaged in a given way, before each iteration."""
    game, found = tabular.tree("kuhn_poker"), list[float]()
    members = [game.uniform(p)[None] for p in (0, 1)]
    for _ in range(iterations):
        ends = [np.stack([tabular.ends(game, p, one) for one in members[p]]) for p in (0, 1)]
        own = ends[0] * (game.chance_E * game.returns_EP[:, 0]) @ ends[1].T
        mixture = meta_games.nash(np.stack([own, -own]))
        policies = [average(game, p, members[p], mixture[p]) for p in (0, 1)]
        found.append(tabular.nash_conv(game, policies))
        new = [tabular.best_response(game, p, policies) for p in (0, 1)]
        members = [np.concatenate([members[p], new[p][None]]) for p in (0, 1)]
    return found


def test_an_average_without_reach_is_another_policy_and_does_not_arrive():
    wrong = _population(lambda game, p, members, weight: np.tensordot(weight, members, axes=1), 9)
    assert max(_population(tabular.mixed, 11)[10:]) < 1e-9
    assert min(wrong[i] for i in (4, 6, 8)) > 0.1
