"""What used to end in a traceback: a full disk, a package that is missing, a summary that no page can read."""

import errno
import textwrap

import pytest

from evolvent.cli import main
from evolvent.core.folder import RunFolder
from evolvent.evaluate.scores import check_score

SYSTEM = textwrap.dedent('''
    """A system that returns a score."""

    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Config:
        env: str = ""
        """None."""
        seed: int = 0
        """Seed."""

    def run(config, folder, live, *, resume=False):
        folder.log(1, x=1.0)
        return {"algo": "mine", "env": "", "seed": 0, "score": SCORE}
''')


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_full_disk_is_reported_and_how_the_run_goes_on(tmp_path, capsys, monkeypatch):
    arguments = (
        "run",
        "memento",
        "--env",
        "microwave",
        "--model",
        "none",
        "--embedder",
        "hash",
        "--plain",
        "--out",
        str(tmp_path / "run"),
    )
    episode, kept = RunFolder.episode, iter(range(3))

    def full(self, *args, **more):
        if next(kept, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        episode(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "episode", full)
        err = refused(capsys, *arguments)
    assert "nothing more can be written" in err and "No space left" in err and "Traceback" not in err
    assert f"evolvent run memento --resume {tmp_path / 'run'}" in err
    main(["run", "memento", "--resume", str(tmp_path / "run"), "--plain"])
    main([*arguments[:-1], str(tmp_path / "whole")])
    names = ("step", "task", "success", "tokens", "shown")
    one, other = (
        [{name: row.get(name) for name in names} for row in RunFolder.open(tmp_path / run).read_metrics()]
        for run in ("run", "whole")
    )
    assert one == other


def test_a_folder_on_a_full_disk_is_closed_whole(tmp_path):
    folder = RunFolder.create(tmp_path / "run", algo="a", config={}, env="", seed=0, command="")
    folder.log(1, x=1.0)
    full = open("/dev/full", "ab")  # noqa: SIM115
    full.write(b"a line")
    folder._files["episodes.jsonl"] = full
    with pytest.raises(OSError, match="No space"):
        folder.close()
    assert full.closed and not folder._files
    folder.close()


@pytest.mark.parametrize(
    ("score", "wrong"),
    [
        ("3.0", "no dictionary"),
        ("{'value': 1.0}", "no name"),
        ("{'name': 'x', 'value': 'much'}", "no number"),
        ("{'name': 'x', 'value': 1, 'ci95': [0]}", "no pair"),
        ("{'name': 'x', 'value': 1, 'ci95': 2.0}", "no pair"),
    ],
)
def test_a_score_that_no_page_can_read_is_reported(tmp_path, capsys, score, wrong):
    (tmp_path / "mine.py").write_text(SYSTEM.replace("SCORE", score))
    err = refused(capsys, "run", str(tmp_path / "mine.py"), "--out", str(tmp_path / "run"), "--plain")
    assert "the score of the summary" in err and wrong in err and "mine.py" in err


@pytest.mark.parametrize("score", [None, {"name": "x"}, {"name": "x", "value": None, "ci95": []}])
def test_a_score_may_say_little(score):
    check_score(score, "mine.py")
