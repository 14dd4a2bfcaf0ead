"""A kind of run in one file outside the package: cloned from a team's rollouts, judged, compared, stopped, gone on."""

import json
from pathlib import Path

import pytest
from command import evolvent

FILE = Path(__file__).parents[2] / "examples" / "behaviour_cloning.py"


def metrics(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "t" and not k.endswith("_s")} for row in rows]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    here = tmp_path_factory.mktemp("cloning")
    team = "--env spread:n=2 --steps 600 --envs 4 --horizon 50 --save-every 1 --eval-every 0 --eval-episodes 4"
    evolvent("run", "mappo", *team.split(), "--keep-rollouts", "0", "--out", "team", cwd=here, trains=True)
    assert len(list((here / "team/rollouts").glob("*.json"))) == 3
    return here


def test_it_has_a_page_a_verdict_an_evaluation_and_a_place_beside_others(recorded):
    arguments = ("run", FILE, "--data", "team", "--updates", "11", "--out", "cloned")
    evolvent(*arguments, cwd=recorded, trains=True)
    page = (recorded / "cloned/report.html").read_text()
    assert "behaviour cloning: a policy from recorded rollouts" in page and "random actions" in page
    losses = [row["loss"] for row in metrics(recorded / "cloned") if "update" in row]
    assert len(losses) == 11 and losses[-1] < losses[0] - 0.1
    evolvent("eval", "cloned", "--episodes", "8", cwd=recorded, trains=True)
    assert json.loads((recorded / "cloned/eval.json").read_text())["n"] == 8
    compared, _ = evolvent("compare", "cloned", "team", cwd=recorded)
    assert "behaviour_cloning" in compared and " on –" not in compared
    listed, _ = evolvent("runs", ".", cwd=recorded)
    assert "behaviour_cloning" in listed and "mappo" in listed


def test_a_run_that_went_on_has_the_numbers_of_one_that_was_never_stopped(recorded):
    for out, updates in (("whole", "4"), ("half", "2")):
        arguments = ("run", FILE, "--data", "team", "--updates", updates, "--out", out)
        evolvent(*arguments, cwd=recorded, trains=True)
    # as after kill -9: the summary was never written, and more updates were asked for from the beginning
    (recorded / "half/summary.json").unlink()
    config = json.loads((recorded / "half/config.json").read_text())
    config["config"]["updates"] = 4
    (recorded / "half/config.json").write_text(json.dumps(config))
    evolvent("run", FILE, "--resume", "half", cwd=recorded, trains=True)
    updates = [[row for row in metrics(recorded / name) if "update" in row] for name in ("whole", "half")]
    assert updates[0] == updates[1] and len(updates[0]) == 4


def test_without_data_it_says_what_is_missing(recorded):
    _, error = evolvent("run", FILE, "--out", "nothing", cwd=recorded, trains=True, code=2)
    assert "nothing to imitate" in error and "--data" in error
