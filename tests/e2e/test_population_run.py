"""Populations through the command line: the page, the same table after a kill and on other workers, what is refused."""

import json
import time
from functools import partial

import command
import pytest

from evolvent.core.game import decode_game
from evolvent.evaluate import blocks

pyspiel = pytest.importorskip("pyspiel")
evolvent = partial(command.evolvent)
DRAWN = ("psro", "--env", "leduc", "--plays", "40", "--more", "5", "--tolerance", "0", "--matches", "2", "--plain")


def files(folder):
    """What a run found, byte by byte."""
    return {
        name: (folder / name).read_bytes()
        for name in ("population.jsonl", "payoffs.json", "mixture.json", "matches.jsonl")
    }


def test_psro_solves_kuhn_poker_and_shows_it(tmp_path):
    said, _ = evolvent("run", "psro", "--env", "kuhn", "--plain", "--out", "run", cwd=tmp_path)
    assert "NashConv 0: an equilibrium" in said
    folder = tmp_path / "run"
    exported = json.loads((folder / "mixture.json").read_text())
    assert pyspiel.nash_conv(pyspiel.load_game("kuhn_poker"), exported) == pytest.approx(0.0, abs=1e-9)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["values"] == pytest.approx([-1 / 18, 1 / 18])
    play = decode_game((folder / "matches.jsonl").read_text().splitlines()[0])
    assert play.ended
    page = blocks.read(folder)
    assert {type(one).__name__ for one in page.of(object)} >= {"Curve", "Shares", "Table", "Tree"}
    assert "does not know" not in (folder / "report.html").read_text()
    assert [row[0] for one in page.of(blocks.Table)[:1] for row in one.rows]  # who beats whom


def test_a_run_that_was_killed_goes_on_to_the_same_table(tmp_path):
    evolvent("run", *DRAWN, "--iterations", "8", "--out", "whole", cwd=tmp_path)
    process = command.start("run", *DRAWN, "--iterations", "8", "--out", "run", cwd=tmp_path)
    log = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not (tmp_path / "run" / "summary.json").exists()
    with (tmp_path / "run" / "population.jsonl").open("a") as store:
        store.write('{"members": [[')  # as a kill leaves it
    evolvent("run", "psro", "--resume", "run", "--plain", cwd=tmp_path)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


@pytest.mark.parametrize("place", ["2", "ray:2"])
def test_other_workers_find_the_same_table(tmp_path, place):
    if place.startswith("ray"):
        pytest.importorskip("ray")
    evolvent("run", *DRAWN, "--iterations", "3", "--out", "here", cwd=tmp_path)
    process = command.start("run", *DRAWN, "--iterations", "3", "--workers", place, "--out", "there", cwd=tmp_path)
    said, wrong = process.communicate()
    assert process.returncode == 0, said + wrong
    assert files(tmp_path / "there") == files(tmp_path / "here")
    rows = [json.loads(line) for line in (tmp_path / "there" / "tasks.jsonl").read_text().splitlines()]
    assert len({row["worker"] for row in rows}) == 2
    assert "Workers in the last iterations" in [one.title for one in blocks.read(tmp_path / "there").of(blocks.Shares)]


@pytest.mark.parametrize("system", ["psro", "fsp", "self_play"])
def test_rock_paper_scissors_goes_round_in_self_play_alone(tmp_path, system):
    words = ("--env", "matrix_game:rps", "--first", "pure", "--iterations", "40", "--tolerance", "0", "--plain")
    evolvent("run", system, *words, "--out", "run", cwd=tmp_path)
    rows = [json.loads(line)["nash_conv"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    if system == "self_play":
        assert set(rows) == {2.0}
        store = [json.loads(line) for line in (tmp_path / "run" / "population.jsonl").read_text().splitlines()]
        assert [row["members"][0][0][0] for row in store[1:7]] == [1, 2, 0, 1, 2, 0]  # paper, scissors, rock, …
    else:
        assert rows[-1] < (1e-9 if system == "psro" else 0.4)


def test_it_stops_by_what_responses_gain_where_nothing_judges(tmp_path):
    words = ("--env", "kuhn", "--no-judge", "--iterations", "40", "--plain")
    said, _ = evolvent("run", "psro", *words, "--out", "run", cwd=tmp_path)
    assert "stopped by itself" in said
    assert "nash_conv" not in (tmp_path / "run" / "metrics.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--env", "openspiel:[kuhn_poker(players=3)]"), "nash is of zero-sum games of two"),
        (("--env", "openspiel:leduc_pokr"), "leduc_poker"),
        (("--env", "spread:n=3"), "game"),
        (("--env", "matrix_game:rps,repeats=2"), "a game of it"),
        (("--env", "kuhn", "--response", "guess"), "no such response"),
        (("--env", "kuhn", "--start", "leduc"), "a population of another game"),
        (("--env", "kuhn", "--start", "."), "no population"),
        (("--env", "kuhn", "--workers", "many"), "ray:N"),
        (("--env", "kuhn", "--plays", "1"), "0 or 2 and more"),
        (("--env", "kuhn", "--solver", "alpha_rank", "--iterations", "60"), "--iterations 49"),
        (("--env", "openspiel:[kuhn_poker(players=3)]", "--solver", "uniform", "--rectified"), "games of two"),
    ],
)
def test_bad_input_says_what_to_do(tmp_path, words, said):
    if "leduc" in words:
        evolvent("run", "fsp", "--env", "leduc", "--iterations", "1", "--plain", "--out", "leduc", cwd=tmp_path)
    _, wrong = evolvent("run", "psro", *words, "--plain", "--out", "run", cwd=tmp_path, code=2)
    assert said in wrong


def test_three_players_and_a_population_that_goes_on(tmp_path):
    game = "openspiel:[kuhn_poker(players=3)]"
    words = ("--env", game, "--solver", "uniform", "--iterations", "3", "--plain")
    evolvent("run", "psro", *words, "--out", "one", cwd=tmp_path)
    evolvent("run", "psro", *words, "--start", "one", "--out", "two", cwd=tmp_path)
    both = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two")]
    assert [len(one["mixture"][0]) for one in both] == [4, 7]
    assert both[1]["score"]["value"] < both[0]["score"]["value"]
