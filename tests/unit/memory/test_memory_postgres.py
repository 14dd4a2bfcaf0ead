"""What is PostgreSQL's own: errors that say what to do, lost connections, killed clients, SQLite's answers."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store import schema
from evolvent.memory.store.engine import Subset
from evolvent.memory.store.opening import open_store
from evolvent.memory.store.postgres import split_url
from evolvent.memory.store.postgres_errors import explained

pytestmark = pytest.mark.postgres
HASH = {"policy": "rag", "embedder": "hash:32"}


@pytest.fixture
def url(postgres_store):
    url = postgres_store()
    with Memory(url, **HASH) as memory:
        memory.remember("task one", "body one")
    return url


def in_schema(url):
    """A connection of our own that sees the store's tables."""
    conninfo, own = split_url(url)
    connection = psycopg.connect(conninfo, autocommit=True)
    connection.execute(f"SET search_path TO {own['schema']}, public")
    return connection


# ------------------------------------------------------------------------------------------------ opening
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
        ("postgresql://nobody@/none?host=/nowhere", "cannot be reached"),
        ("postgresql://postgres@/no_such_database", "no such database"),
        ("postgresql://no_such_role@/postgres", "refused the login"),
    ],
)
def test_a_server_that_cannot_be_used_is_reported(postgres, wrong, match):
    if wrong.endswith(("no_such_database", "/postgres")):
        wrong += f"?{postgres.partition('?')[2]}"
    with pytest.raises(StoreError, match=match):
        Memory(wrong, **HASH)


def test_a_role_that_may_not_add_pgvector_is_reported(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE plain_test TEMPLATE template0")
        connection.execute("CREATE ROLE weak_test LOGIN")
        try:
            with pytest.raises(StoreError, match="does not allow") as raised:
                Memory(postgres.replace("postgres@/postgres", "weak_test@/plain_test"), **HASH)
            assert "CREATE EXTENSION" in str(raised.value)
        finally:
            connection.execute("DROP DATABASE plain_test WITH (FORCE)")
            connection.execute("DROP ROLE weak_test")


@pytest.mark.parametrize(
    ("state", "text", "match"),
    [
        ("53100", "could not extend file: No space left on device", "disk is full"),
        ("53300", "sorry, too many clients already", "no connection left"),
        ("25006", "cannot execute INSERT in a read-only transaction", "cannot be written"),
        ("57014", "canceling statement due to statement timeout", "stopped the statement"),
        ("57P01", "terminating connection due to administrator command", "the server stopped"),
        ("XX001", "invalid page in block 3", "damaged"),
        ("0A000", 'extension "vector" is not available', "no pgvector"),
        ("58P01", 'could not open extension control file of extension "vector"', "no pgvector"),
        ("0A000", "something else", "reading the memory failed"),
        ("08006", "server closed the connection unexpectedly", "cannot be reached"),
    ],
)
def test_what_the_server_says_becomes_what_to_do(state, text, match):
    """States that a healthy server does not give on request."""
    error = explained(psycopg.errors.lookup(state)(text), "reading", "postgresql://x")
    assert match in str(error) and text in str(error)


def test_a_commit_whose_answer_was_lost_is_distinguished():
    error = explained(psycopg.OperationalError("server closed the connection"), "committing", "postgresql://x")
    assert "while committing" in str(error) and "repeat the call" in str(error)


def test_wrong_urls_are_refused_before_connecting():
    for query, match in (
        ("schema=Robert'); DROP", "name for a schema"),
        ("schema=pg_x", "name"),
        ("index=ivf", "index"),
    ):
        with pytest.raises(BadInput, match=match):
            Memory(f"postgresql://nowhere/none?{query}")
    with pytest.raises(BadInput, match="no engine"):
        Memory("mysql://nowhere/none")


def test_a_password_is_in_no_message():
    with pytest.raises(StoreError) as raised:
        Memory("postgresql://me:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(raised.value) and "127.0.0.1" in str(raised.value)


def test_other_schemas_and_versions_are_left_alone(postgres, url, postgres_store):
    other = postgres_store("other")
    name = split_url(other)[1]["schema"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}; CREATE TABLE {name}.precious(a int)")
        with pytest.raises(StoreError, match="not an Evolvent memory"):
            Memory(other, **HASH)
        assert connection.execute(f"SELECT to_regclass('{name}.meta')").fetchone() == (None,), "tables were added"
    with in_schema(url) as connection:
        connection.execute("UPDATE evolvent_store SET version = version + 1")
        with pytest.raises(StoreError, match="upgrade"):
            Memory(url, **HASH)
        connection.execute("UPDATE evolvent_store SET version = 1")
        with pytest.raises(StoreError, match="another version"):
            Memory(url, **HASH)
    missing = postgres_store("missing")
    with pytest.raises(StoreError, match="there is no memory"):
        open_store(missing, create=False)


def test_many_open_a_new_store_at_once(postgres_store):
    url = postgres_store("new")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: Memory(url, **HASH).close(), range(4)))


def test_schemas_do_not_see_each_other(postgres_store, url):
    with Memory(postgres_store("second"), **HASH) as memory:
        assert memory.items() == [] and memory.remember("task", "body") == "m1"


# ------------------------------------------------------------------------------------------------ invariants
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE text_blob SET body = 'other'", "texts are written once"),
        ("UPDATE embedding SET model = 'other'", "embeddings are written once"),
        ("UPDATE memory SET q_init = 1.0", "what a memory says is written once"),
        ("DELETE FROM memory", "memories are archived, not deleted"),
        ("UPDATE value_event SET reward = 1.0", "value events are appended only"),
        ("DELETE FROM value_event", "value events are kept"),
        ("UPDATE audit SET verb = 'other'", "audit rows are appended only"),
        ("INSERT INTO provenance(child, parent, relation) VALUES (1, 1, 'merged')", "provenance"),
        ("INSERT INTO embedding(model, text_hash, dim, vec) SELECT 'x', hash, 3, '[1,2]' FROM text_blob", "embedding"),
    ],
)
def test_what_is_written_stays(url, statement, why):
    with Memory(url, policy="memrl", embedder="hash:32") as memory:
        memory.settle(memory.recall("task one"), 1.0)
        memory.archive(memory.remember("task two", "body two"), "an audit row")
    with in_schema(url) as connection, pytest.raises(psycopg.IntegrityError, match=why):
        connection.execute(statement)


def test_a_copy_of_a_vector_that_is_wrong_is_found(url):
    with Memory(url, **HASH) as memory:
        memory.remember("task two", "body two")
        assert verify(memory) == []
        with in_schema(url) as connection:
            connection.execute("UPDATE memory_vector SET active = false WHERE seq = 1")
            connection.execute("UPDATE memory_vector SET vec = (SELECT vec FROM embedding LIMIT 1) WHERE seq = 2")
        assert [finding.where for finding in verify(memory)] == [f"vector for searching of m{n}" for n in (1, 2)]


def test_a_compacted_memory_can_be_undone(url, tmp_path):
    with Memory(url, **HASH) as memory:
        for i in range(9):
            memory.remember(f"task {i}", f"body {i}")
        for i in range(4):
            memory.recall(f"task {i}", k=1)
        memory.compact(keep=0)
        store = memory.bank.store
        assert len(store.rows("SELECT * FROM recall_item")) == 4 and sum(store.sizes().values()) > 0
        assert verify(memory) == []


def test_numbers_leave_no_gap_after_a_rollback(url):
    with Memory(url, **HASH) as memory:
        with pytest.raises(ZeroDivisionError), memory.transaction():
            assert memory.remember("never", "never") == "m2" and memory.recall("task").id == "r1"
            raise ZeroDivisionError
        assert memory.remember("task two", "body two") == "m2" and memory.recall("task").id == "r1"


def test_a_block_inside_a_block_is_undone_alone(url):
    with Memory(url, **HASH) as memory:
        with memory.transaction():
            memory.remember("task two", "body two")
            with pytest.raises(ZeroDivisionError), memory.transaction():
                memory.remember("never", "never")
                raise ZeroDivisionError
            with pytest.raises(BadInput):
                memory.settle("r99", 1.0)
            assert memory.remember("task three", "body three") == "m3"
        assert [i.body for i in memory.items()] == ["body one", "body two", "body three"]


def test_a_failed_statement_cannot_be_committed(url):
    """PostgreSQL answers such a commit with a rollback and no error."""
    with Memory(url, **HASH) as memory, pytest.raises(StoreError, match="earlier statement"), memory.transaction():
        memory.remember("lost", "lost")
        with memory.bank.store.session() as db, pytest.raises(psycopg.Error):
            db.execute("SELECT 1 / 0").fetchone()


# ------------------------------------------------------------------------------------------------ connections
def disconnect_all(url):
    with in_schema(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'evolvent' AND pid <> pg_backend_pid()"
        )
    time.sleep(0.1)


def test_a_lost_connection_is_replaced_between_transactions(url):
    with Memory(url, **HASH) as memory:
        memory.recall("task one")
        disconnect_all(url)
        assert memory.recall("task one").ids == ["m1"]
        disconnect_all(url)
        assert memory.remember("task two", "body two") == "m2"


def test_a_connection_lost_inside_a_transaction_undoes_it(url):
    with Memory(url, **HASH) as memory:
        with pytest.raises(StoreError, match=r"stopped|reached"), memory.transaction():
            memory.remember("never", "never")
            disconnect_all(url)
            memory.remember("never", "either")
        assert [i.body for i in memory.items(None)] == ["body one"]
        assert memory.remember("task two", "body two") == "m2"


def test_a_killed_writer_leaves_nothing_and_frees_the_lock(url):
    code = (
        "import sys, time; from evolvent.memory.memory import Memory\n"
        "m = Memory(sys.argv[1], policy='rag', embedder='hash:32')\n"
        "with m.transaction():\n"
        "    m.remember('never', 'never'); print('in', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "in\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with Memory(url, **HASH) as memory:
        assert memory.remember("task two", "body two") == "m2"
        assert [i.body for i in memory.items(None)] == ["body one", "body two"]


def test_a_lock_that_is_kept_is_reported(url, monkeypatch):
    monkeypatch.setattr("evolvent.memory.store.postgres.BUSY_TIMEOUT_S", 1.0)
    with Memory(url, **HASH) as memory, Memory(url, **HASH) as other:
        other.bank.store.row("SELECT 1")
        with other.transaction():
            with pytest.raises(StoreError, match="kept the memory locked"):
                memory.remember("never", "never")
            assert memory.items(), "readers need not wait for a writer"
        assert memory.remember("task two", "body two") == "m2"


def test_closed(url):
    memory = Memory(url, **HASH)
    memory.close()
    memory.close()
    for verb in (lambda: memory.recall("task"), lambda: memory.remember("a", "b"), lambda: memory.items()):
        with pytest.raises(StoreError, match="closed"):
            verb()


def test_eight_threads_share_a_memory(url):
    """They read side by side and write one after the other; every outcome counts once."""
    with Memory(url, policy="memrl", embedder="hash:32") as memory:

        def work(t):
            for i in range(6):
                memory.remember(f"task {t} {i}", f"body {t} {i}")
                memory.settle(memory.recall(f"task {t} {i}", k=1), 1.0)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert [i.id for i in memory.items()] == [f"m{n}" for n in range(1, 50)]
        assert sum(i.n for i in memory.items()) == 48 and memory.rebuild_values() == 0 and verify(memory) == []


# ------------------------------------------------------------------------------------------------ the same answers
def drive(memory, seed, steps=60):
    """Verbs at random; everything that they returned."""
    rng, answers, ids = np.random.default_rng(seed), [], []
    nouns = ["Newark", "Chicago", "naïve", "Zürich", "JFK", "red-eye", "the", "of", "flights"]
    for t in range(steps):
        task = " ".join(rng.choice(nouns, size=4))
        r = memory.recall(task, k=3, kinds=["a"] if t % 5 == 0 else None, policy="random" if t % 7 == 3 else None)
        answers.append((r.id, [(i.id, i.value, i.similarity, i.score, i.propensity) for i in r.items + r.omitted]))
        answers.append(memory.settle(r, float(rng.integers(2)), action="body 3"))
        old = ids[-1] if ids and t % 6 == 5 and memory.get(ids[-1]).status == "active" else None
        kind, body = str(rng.choice(["a", "b"])), f"body {t // 2}"
        ids.append(memory.remember(task, body, kind=kind, parents=r, supersedes=old))
        if t % 9 == 4:
            memory.archive(str(rng.choice(ids)), "because")
        if t % 11 == 6:
            with pytest.raises(ZeroDivisionError), memory.transaction():
                memory.settle(memory.recall(task), 1.0)
                raise ZeroDivisionError
    return answers, ids


@pytest.mark.parametrize("policy", ["memlift", "memq"])
def test_both_engines_do_the_same_to_the_last_byte(url, postgres_store, tmp_path, monkeypatch, policy):
    """One clock, the same calls: the same answers, and exports that are equal byte for byte."""
    monkeypatch.setattr("time.time", lambda: 1.0e9)
    digests, found = [], []
    for path in (tmp_path / "a.db", postgres_store("twin")):
        with Memory(path, policy=policy, embedder="hash:32", seed=5) as memory:
            answers, health = drive(memory, seed=5), memory.health()
            assert health.pop("index")["search"] == "exact"
            found.append((answers, health, [str(memory.explain(f"m{n}")) for n in (1, 2, 3)]))
            assert verify(memory) == [] and memory.rebuild_values() == 0
            digests.append(transfer.digest(memory.bank.store))
    for mine, theirs in zip(*found, strict=True):
        assert mine == theirs
    assert digests[0] == digests[1]


def test_search_agrees_with_sqlite(postgres_store, tmp_path):
    """Ties, gates, kinds, statuses, samples: the same rows in the same order."""
    rng = np.random.default_rng(0)
    keys = [f"key {rng.integers(40)} {'xyz'[rng.integers(3)]}" for _ in range(150)]
    indexes = []
    memories = [Memory(path, **HASH) for path in (tmp_path / "a.db", postgres_store("twin"))]
    for memory in memories:
        memory.remember_many(
            {"key": key, "body": f"body {i}", "kind": "ab"[i % 2], "merge": None} for i, key in enumerate(keys)
        )
        for i in range(1, 150, 7):
            memory.archive(f"m{i}", "because")
        memory.bank.index.catch_up()
        indexes.append(memory.bank.index)
    mine, theirs = indexes
    assert (mine.n, mine.newest) == (theirs.n, theirs.newest) == (150, 150)
    for kinds in (None, ["a"], ["b", "a"], ["none"]):
        assert mine.count(Subset(kinds)) == theirs.count(Subset(kinds))
        draws = [index.sample(20, np.random.default_rng(1), Subset(kinds)).tolist() for index in indexes]
        assert draws[0] == draws[1]
        for task in ("key 3 x", "key 17 y", "nothing like it"):
            query = memories[0].embedder.embed([task])[0]
            for limit in (1, 10, 40, 500):
                found = [index.search(query, limit=limit, subset=Subset(kinds)) for index in indexes]
                assert found[0][0].tolist() == found[1][0].tolist() and found[0][1].tolist() == found[1][1].tolist()
            near = [index.similarities([3, 149, 8, 8, 999, 1], query) for index in indexes]
            assert near[0][0] == near[1][0] and near[0][1].tolist() == near[1][1].tolist()
    assert np.array_equal(mine.vectors([5, 3, 5]), theirs.vectors([5, 3, 5]))
    with pytest.raises(BadInput, match="dimension"):
        theirs.search(np.ones(16, np.float32) / 4.0, limit=3)
    for memory in memories:
        memory.close()


def test_the_graph_finds_what_exact_search_finds(postgres_store, monkeypatch):
    """``?index=hnsw``: unfiltered searches of a large store ask the graph; what has a filter is searched exactly."""
    rng = np.random.default_rng(0)
    url = postgres_store("graph")
    rows = [{"key": f"{rng.integers(9999)} {rng.integers(9999)} {i}", "body": f"{i}"} for i in range(600)]
    with Memory(url, **HASH) as memory:
        memory.remember_many(rows)
        exact = [memory.recall(row["key"], k=10).ids for row in rows[::20]]
        assert memory.bank.index.about()["search"] == "exact"
    monkeypatch.setattr("evolvent.memory.store.postgres.LARGE", 500)
    with Memory(f"{url}&index=hnsw", **HASH) as memory:
        memory.archive("m600", "the graph holds active memories only")
        memory.remember("123 456 new", "new")
        asked = []
        index = memory.bank.index
        monkeypatch.setattr(index, "_ask_graph", lambda *a, real=index._ask_graph: asked.append(1) or real(*a))
        found = [memory.recall(row["key"], k=10).ids for row in rows[::20]]
        hits = sum(len(set(a) & set(b)) for a, b in zip(exact, found, strict=True)) / 300
        assert len(asked) == 30 and hits > 0.97, f"recall@10 {hits:.3f}"
        assert "m601" in memory.recall("123 456 new").ids and "m600" not in memory.recall(rows[599]["key"]).ids
        plan = memory.bank.store.rows(
            "EXPLAIN SELECT seq FROM memory_vector WHERE active ORDER BY vec::vector(32) <#> "
            "(SELECT vec::vector(32) FROM memory_vector WHERE seq = 1) LIMIT 10"
        )
        assert any("memory_vector_graph" in line for (line,) in plan), plan
        before = len(asked)
        assert memory.recall("123 456 new", kinds=["case"]).items and len(asked) == before


def test_long_words_and_long_texts_fit(url):
    """Keys of an index have a limit in PostgreSQL: words are cut, texts are addressed by hash."""
    noise = "".join(chr(97 + b % 26) for b in np.random.default_rng(0).bytes(9000))
    with Memory(url, policy="memlift", embedder="hash:32") as memory:
        id_ = memory.remember(f"the key {noise}", noise * 100, kind="k" * 100, source="s" * 100)
        r = memory.recall(f"the key {noise}", stage="é" * 100, k=1)
        assert r.ids == [id_]
        memory.settle(r, 1.0, objective="ö" * 100, idempotency_key="ü" * 500)


def test_schema_is_one_text_for_both_engines(url):
    """Every column of ``schema`` is there, in the same order."""
    with in_schema(url) as connection:
        for table in schema.layout():
            columns = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() "
                "AND table_name = %s ORDER BY ordinal_position",
                (table.name,),
            ).fetchall()
            assert [name for (name,) in columns] == list(table.columns)
