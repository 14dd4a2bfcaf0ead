"""What a result says about the code that made it."""

import subprocess

import pytest

from evolvent.core import machine


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with this module and a result file in it."""
    here, results = tmp_path / "src", tmp_path / "benchmarks" / "results"
    here.mkdir()
    results.mkdir(parents=True)
    (here / "machine.py").write_text("code")
    (results / "rows.json").write_text("[]")
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "-m", "m"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    monkeypatch.setattr(machine, "__file__", str(here / "machine.py"))
    machine.commit.cache_clear()
    yield tmp_path
    machine.commit.cache_clear()


def test_changed_code_is_reported(checkout):
    (checkout / "src" / "machine.py").write_text("other code")
    assert machine.commit()["dirty"] is True


def test_rows_added_to_a_result_file_are_not_changed_code(checkout):
    (checkout / "benchmarks" / "results" / "rows.json").write_text("[1]")
    assert machine.commit()["dirty"] is False
