"""What is said of a budget that ended a search: the one that did, and nothing of one that had no say."""

import json

import pytest

from evolvent.cli import run as command


def run(out, *flags):
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "household:long=True",
            "--value",
            "flat",
            "--tasks",
            "1",
            "--plain",
            "--out",
            str(out),
            *flags,
        ]
    )


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        (("--budget-calls", "20"), "--budget-calls 40"),  # 400 tokens are far away
        (("--budget-tokens", "100", "--budget-calls", "2000"), "--budget-tokens 200"),
        (("--budget-tokens", "0", "--budget-seconds", "0.05"), "--budget-seconds 0.1"),
        (("--budget-tokens", "9000", "--budget-seconds", "0.05"), "--budget-seconds 0.1"),
    ],
)
def test_more_of_what_ended_the_search_is_advised(tmp_path, capsys, flags, more):
    run(tmp_path / "run", "--search", "mcts_rollout", *flags)
    printed = " ".join(capsys.readouterr().out.split())
    assert more in printed and "nothing new" not in printed
    assert more in (tmp_path / "run" / "report.html").read_text()


def test_where_no_budget_ended_it_no_larger_one_is_advised(tmp_path, capsys):
    run(tmp_path / "run", "--search", "bfs_v", "--widths", "1", "--budget-tokens", "9000")
    printed = " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["arms"][0]["left"] > 0.5
    assert "--budget-tokens 18000" not in printed and "set --widths, --paths, or search more tasks" in printed


@pytest.mark.parametrize(
    ("search", "flags", "idle"),
    [
        ("best_of_n", ("--keep", "1", "--widths", "2", "--c", "1"), "--keep, --c, --widths"),
        ("greedy", ("--threads", "1"), "--threads"),
        ("beam", ("--keep", "1", "--widths", "2"), ""),
        ("mcts_rollout", ("--c", "1", "--widths", "2"), ""),
    ],
)
def test_a_flag_that_nothing_reads_is_reported(tmp_path, capsys, search, flags, idle):
    run(tmp_path / "run", "--search", search, *flags, "--budget-tokens", "50")
    printed = " ".join(capsys.readouterr().out.split())
    assert (f"! {idle} changes nothing here" in printed) if idle else "changes nothing" not in printed
