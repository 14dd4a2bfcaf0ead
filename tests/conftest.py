"""Fixtures shared by all tests."""

import os
import sys
from itertools import count
from pathlib import Path

import pytest

from postgres_server import server

_NUMBER = count()
# the workers have the cores already: a second thread in each gains nothing (LOG.md)
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("EVOLVENT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
# some tests are of benchmarks; where these are not beside the tests (an sdist), they are skipped
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))


@pytest.fixture(scope="session")
def postgres():
    """URL of a PostgreSQL server with pgvector for this session; your own if EVOLVENT_TEST_POSTGRES names one."""
    given = os.environ.get("EVOLVENT_TEST_POSTGRES")
    if given:
        yield given
        return
    with server() as url:
        yield url


@pytest.fixture
def postgres_store(postgres):
    """``postgres_store(name)``: the URL of a store of this test alone, dropped afterwards."""
    import psycopg

    prefix, made = f"test_{os.getpid()}_{next(_NUMBER)}", set()

    def url(name="a", **options):
        schema = f"{prefix}_{name.lower().replace('-', '_')}"
        made.add(schema)
        more = "".join(f"&{key}={value}" for key, value in options.items())
        return f"{postgres}{'&' if '?' in postgres else '?'}schema={schema}{more}"

    yield url
    with psycopg.connect(postgres, autocommit=True) as connection:
        for schema in made:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture(scope="module")
def one_thread():
    """Networks of a few weights: more threads than one only cost time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def flights_db():
    """The real flights database: fetched and built in the cache at first use (9 MB, seconds), then only verified."""
    from evolvent.envs.text.analyst_data import ensure_database
    from evolvent.envs.text.analyst_flights import SOURCE

    return ensure_database(SOURCE)


@pytest.fixture(scope="session")
def baseball_db():
    """The real baseball database, likewise (10 MB)."""
    from evolvent.envs.text.analyst_baseball import SOURCE
    from evolvent.envs.text.analyst_data import ensure_database

    return ensure_database(SOURCE)


@pytest.fixture
def analyst(flights_db):
    """The analyst world with its defaults."""
    from evolvent.envs.text.analyst import make

    env = make(data=str(flights_db.parent))
    yield env
    env.close()
