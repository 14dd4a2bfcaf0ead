"""`evolvent export`: rows go to the file one by one, and a file is there whole or not at all."""

import json
import tracemalloc

import pytest

from evolvent.cli import main
from evolvent.cli.credit import read
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.credit import step_leave_one_out


def imported(tmp_path, *, attempts, turns):
    ask = {"role": "user", "content": "q" * 400}
    with (tmp_path / "attempts.jsonl").open("w") as file:
        for i in range(attempts):
            said = [{"role": ("assistant", "user")[t % 2], "content": f"{i} {t} " + "a" * 400} for t in range(turns)]
            row = {"id": f"a{i}", "task_id": "t", "messages": [ask, *said], "reward": float(i % 2)}
            file.write(json.dumps(row) + "\n")
    main(["import", str(tmp_path / "attempts.jsonl"), "--out", str(tmp_path / "run")])
    return tmp_path / "run"


def peak(do):
    """Bytes that were in use at most while ``do`` ran."""
    tracemalloc.start()
    try:
        do()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["jsonl", "trl", "verifiers"])
def test_an_export_needs_no_more_memory_than_the_credit_in_it(tmp_path, form):
    run, out = imported(tmp_path, attempts=40, turns=41), tmp_path / "out"
    words = ["export", form, str(run), "--rule", "step_leave_one_out", "--out", str(out)]
    main(words)  # what is imported and kept
    credit = peak(lambda: step_leave_one_out.assign(read(RunFolder.open(run))))
    # a row of jsonl and trl holds all that was said before it: the file is many times the record
    assert peak(lambda: main(words)) < 1.5 * credit
    if form != "verifiers":
        assert out.stat().st_size > 5 * credit


def test_what_fails_on_the_way_leaves_the_file_before_it(tmp_path):
    write_atomic(tmp_path / "rows", (f"{i}\n" for i in range(3)))
    assert (tmp_path / "rows").read_text() == "0\n1\n2\n"

    def broken():
        yield "half"
        raise BadInput("no more")

    with pytest.raises(BadInput, match="no more"):
        write_atomic(tmp_path / "rows", broken())
    assert (tmp_path / "rows").read_text() == "0\n1\n2\n" and len(list(tmp_path.iterdir())) == 1
