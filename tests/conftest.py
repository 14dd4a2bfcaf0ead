"""Fixtures shared by all tests."""

import pytest


@pytest.fixture(scope="session")
def flights_db():
    """The real flights database: fetched and built in the cache at first use (9 MB, seconds), then only verified."""
    from evolvent.envs.analyst_data import ensure_database

    return ensure_database()


@pytest.fixture
def analyst(flights_db):
    """The analyst world with its defaults."""
    from evolvent.envs.analyst import make

    env = make(data=str(flights_db.parent))
    yield env
    env.close()
