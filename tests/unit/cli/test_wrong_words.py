"""A wrong word on the command line: what was got, what there is instead, and no traceback."""

import pytest

from evolvent.cli import main
from sample_run import sample_run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abcd":
        sample_run(tmp_path / "many" / name, tasks=2)
    (tmp_path / "photos").mkdir()
    (tmp_path / "my.py").write_text("def make(): ...")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run memlift --passses=3", "unknown option\n  got: --passses=3\n  expected: did you mean '--passes'"),
        ("run mcts_rollout", "do: it is a way to search: evolvent run search --search mcts_rollout"),
        ("run mat --stpes 3", "unknown option\n  got: --stpes 3\n  expected: did you mean '--steps'"),
        ("run memlift --seeds --passes 2", "--seeds without seeds\n  expected: --seeds 0 1 2"),
        ("run memlift --env my:make", "do: write my.py:make"),
        ("run memlift --env my", "do: write my.py"),
        ("run memlift --resume many", "name one of many/a, many/b, many/c and 1 more"),
        ("eval many", "a folder of runs, not a run"),
        ("eval nowhere", "no such folder\n  got: nowhere"),
        ("eval photos", "not a run folder\n  got: photos"),
        ("compare nowhere", "no such folder"),
        ("compare photos", "not a run folder"),
        ("credit photos --rule step_leave_one_out", "not a run folder"),
        ("runs nowhere", "no such folder"),
        ("memory explain nowhere m1", "there is no memory"),
        ("memory explain many/a nothing", "there is no memory\n  got: many/a"),
        ("demo --out photos/../my.py", "not a folder"),
    ],
)
def test_it_is_shown_what_there_is(here, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    out, err = capsys.readouterr()
    assert stopped.value.code == 2 and message in err and "error: " in err and not out, "nothing is begun before"
    assert {path.name for path in here.iterdir()} == {"many", "photos", "my.py"}
