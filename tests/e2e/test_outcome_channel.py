"""What tests, commands, people and git say, from the command line to the ledger."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from serving import COMMAND, Server, bearer, served

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")

SECRET = "sk-live0123456789abcdefghijkl"
WATCH = [*COMMAND, "watch", "--"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "evolvent.serve.pytest_plugin"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / ".") as one:
        one.settings = tmp_path_factory.mktemp("settings")
        made = subprocess.run(
            [*COMMAND, "tokens", "new", str(one.store), "here", "--may", "outcome", "--sources", "tests", "--here"],
            capture_output=True,
            text=True,
            env=environment(one.settings),
        )
        assert made.returncode == 0 and "ev1_" not in made.stdout, made.stderr
        yield one


@pytest.fixture
def ask(server):
    with httpx.Client(base_url=server.address, headers=bearer(server.token), timeout=30) as client:
        yield client


def environment(settings, **more):
    names = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "a")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EVOLVENT_", "PYTEST_"))}
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return kept | names | nobody | {"XDG_CONFIG_HOME": str(settings), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | more


def said(answer, status=200):
    assert answer.status_code == status, answer.text
    return answer.json()


def shell(command, cwd, env, code=0):
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return ended


def test_a_bug_is_fixed_committed_and_reverted_and_the_ledger_says_one_then_zero(server, ask, tmp_path):
    env, repo = environment(server.settings), tmp_path / "repo"
    repo.mkdir()
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repo / "test_calc.py").write_text("from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        shell(["git", *command], repo, env)
    note = said(ask.post("/v1/memories", json={"key": "add is wrong", "body": "look at the sign", "kind": "calc"}))[
        "id"
    ]
    asked = {"task": "add is wrong", "attempt": "fix", "kinds": ["calc"]}
    recalled = said(ask.post("/v1/recall", json=asked))
    assert [one["id"] for one in recalled["notes"]] == [note]

    def attempt():
        return said(ask.get(f"/v1/attempts/{recalled['attempt']}"))

    failed = shell([*WATCH, *PYTEST], repo, env, code=1)
    assert "1 failed" in failed.stdout and failed.stderr == ""
    assert attempt()["verdict"]["state"] == "open" and attempt()["repo"] == str(repo)
    assert {one["kind"]: one["detail"].get("names") for one in attempt()["evidence"]} == {
        "tests": ["test_calc.py::test_add"],
        "command": None,
    }
    (repo / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    shell([*WATCH, *PYTEST], repo, env)
    assert (attempt()["verdict"]["reward"], attempt()["verdict"]["source"]) == (True, "tests")
    shell(["git", "commit", "-qam", "fix"], repo, env)
    shell(["git", "revert", "--no-edit", "HEAD"], repo, env)
    shell([*WATCH, "true"], repo, env)
    assert len(attempt()["commits"]) == 1 and "reverts it" in attempt()["verdict"]["words"]
    receipt = said(ask.get(f"/v1/explain/{recalled['receipt']}"))
    outcomes = [(one["reward"], one["source"], one["counts"]) for one in receipt["data"]["outcomes"]]
    assert outcomes == [(1.0, "tests", False), (0.0, "env", True)]
    assert receipt["text"].splitlines()[-1].startswith(f"  attempt {attempt()['id']}: settled, reward 0, weight 1: com")
    item = said(ask.get(f"/v1/memories/{note}"))
    assert item["n"] == 1 and item["value"] < item["start"]
    told = subprocess.run(
        [*COMMAND, "memory", "explain", str(server.store), recalled["receipt"].partition(".")[0]],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0 and "reverts it (evidence" in told.stdout


def recalled(ask, name, **more):
    return said(ask.post("/v1/recall", json={"task": "anything", "attempt": name, **more}))


def test_a_person_outdoes_tests_and_what_clients_settle_themselves_is_evidence_too(ask):
    one = recalled(ask, "judged")
    about = {"attempt": one["attempt"]}
    for code in (1, 0):
        said(ask.post("/v1/evidence", json={"about": about, "kind": "command", "command": "make", "code": code}))
    told = said(ask.post("/v1/evidence", json={"about": about, "kind": "person", "reward": False}))
    assert (told["verdict"]["reward"], told["verdict"]["source"]) == (False, "human")
    unsure = {"about": {"receipt": one["receipt"]}, "kind": "person", "reward": None}
    assert said(ask.post("/v1/evidence", json=unsure))["verdict"]["reward"] is None
    settled = {"receipt": one["receipt"], "reward": 1, "source": "env"}
    assert said(ask.post("/v1/outcomes", json=settled)) == said(ask.post("/v1/outcomes", json=settled))
    kept = said(ask.get(f"/v1/attempts/{one['attempt']}"))
    assert [row["kind"] for row in kept["evidence"]] == ["command", "command", "person", "person", "reward"]
    (counts,) = [
        o for o in said(ask.get(f"/v1/explain/{one['receipt']}"))["data"]["outcomes"] if o["counts"] and o["valid"]
    ]
    assert (counts["reward"], counts["source"]) == (1.0, "env")


def test_a_model_that_praises_itself_moves_nothing(ask):
    one = recalled(ask, "praised")
    claim = {"about": {"attempt": one["attempt"]}, "kind": "claim", "reward": True}
    assert said(ask.post("/v1/evidence", json=claim))["verdict"]["state"] == "open"
    assert said(ask.get(f"/v1/explain/{one['receipt']}"))["data"]["outcomes"] == []


def test_a_token_says_what_it_may_in_its_scope(server, ask):
    one = recalled(ask, "foreign")
    about = {"about": {"attempt": one["attempt"]}}
    agent = server.new("agent", "--may", "recall", "outcome", "--sources", "proxy")
    other = server.new("other-tenant", "--scopes", "other")
    git = {"repo": "/a", "commits": [{"sha": "a" * 40, "at": 1}]}
    with httpx.Client(base_url=server.address, headers=bearer(agent)) as client:
        for body in ({"kind": "person", "reward": True}, {"kind": "tests", "passed": "", "failed": ""}):
            assert client.post("/v1/evidence", json=about | body).status_code == 403
        assert client.post("/v1/evidence", json={"git": git}).status_code == 403
        assert client.post("/v1/recall", json={"task": "x", "git": git}).status_code == 403
        assert client.get("/v1/attempts").status_code == 403
    with httpx.Client(base_url=server.address, headers=bearer(other)) as client:
        told = said(client.post("/v1/evidence", json=about | {"kind": "person", "reward": False}))
        assert told["attempt"] is None and client.get(f"/v1/attempts/{one['attempt']}").status_code == 404
        assert said(client.get("/v1/attempts"))["attempts"] == []
    assert said(ask.get(f"/v1/attempts/{one['attempt']}"))["evidence"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "missing"),
        ({"kind": "person", "reward": True}, 422, "missing"),
        ({"about": {"attempt": "a1", "session": "s"}, "kind": "claim"}, 422, "missing"),
        ({"about": {"session": "s"}, "kind": "reverted"}, 422, "unknown_option"),
        ({"about": {"session": "s"}, "kind": "tests", "passed": ""}, 422, "missing"),
        ({"about": {"session": "s"}, "kind": "tests", "passed": "xyz", "failed": ""}, 422, "wrong_form"),
        ({"about": {"session": "s"}, "kind": "person", "reward": 7}, 422, "out_of_range"),
        ({"about": {"receipt": "r1.aaaaaaaaaaaaaaaa"}, "kind": "claim"}, 404, "unknown_receipt"),
        ({"git": {"repo": "/a", "commits": [{"sha": "a" * 40}]}}, 422, "missing"),
    ],
)
def test_evidence_that_is_none_is_refused_in_words(ask, body, status, code):
    answer = ask.post("/v1/evidence", json=body)
    assert said(answer, status)["code"] == code


def test_one_key_holds_one_statement(ask):
    body = {"about": {"attempt": recalled(ask, "keyed")["attempt"]}, "kind": "person", "reward": True, "key": "k-1"}
    first, again = said(ask.post("/v1/evidence", json=body)), said(ask.post("/v1/evidence", json=body))
    assert (again["evidence"], again["repeated"], first["repeated"]) == (first["evidence"], True, False)
    assert said(ask.post("/v1/evidence", json=body | {"reward": False}), 409)["code"] == "key_used"


# ------------------------------------------------------------------------------------------------------------- clients
def test_watch_passes_output_and_exit_code_through_with_and_without_a_server(server, tmp_path):
    script = "import sys; print(sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    gone = environment(tmp_path, EVOLVENT_SERVER="http://127.0.0.1:9", EVOLVENT_TOKEN="x")
    for env in (environment(server.settings), environment(tmp_path), gone):
        command = [*WATCH, sys.executable, "-c", script]
        ended = subprocess.run(command, input="in", capture_output=True, text=True, env=env, cwd=tmp_path)
        assert (ended.stdout, ended.stderr, ended.returncode) == ("in\n", "err\n", 7)
    killed = subprocess.run([*WATCH, "sh", "-c", "kill -9 $$"], env=gone, cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL
    missing = subprocess.run([*WATCH, "no-such-command"], env=gone, capture_output=True, text=True)
    assert missing.returncode == 127
    assert subprocess.run([*COMMAND, "watch", "pytest"], capture_output=True).returncode == 2


def test_a_junit_report_is_compared_test_by_test_unless_it_is_an_old_one(server, ask, tmp_path):
    one, env = recalled(ask, "junit", repo=str(tmp_path)), environment(server.settings)
    command = [*COMMAND, "watch", "--junit", "out.xml", "--", "sh", "-c"]

    def report(bad):
        failure = "<failure/>" if bad else ""
        return (
            f'<testsuites><testsuite><testcase classname="a" name="b">{failure}</testcase>'
            '<testcase classname="a" name="c"/><testcase name="d"><skipped/></testcase></testsuite></testsuites>'
        )

    (tmp_path / "bad.xml").write_text(report(True))
    (tmp_path / "good.xml").write_text(report(False))
    subprocess.run([*command, "cp bad.xml out.xml; exit 1"], cwd=tmp_path, env=env)
    subprocess.run([*command, "exit 1"], cwd=tmp_path, env=env)  # it wrote none
    subprocess.run([*command, "cp good.xml out.xml"], cwd=tmp_path, env=env)
    kept = said(ask.get(f"/v1/attempts/{one['attempt']}"))
    details = [one["detail"] for one in kept["evidence"]]
    assert [(d.get("passed"), d.get("failed"), d.get("names")) for d in details] == [
        (1, 1, ["a::b"]),
        (None, None, None),
        (2, 0, []),
    ]
    assert "1 failed before and passes now" in kept["verdict"]["words"]


def test_the_plug_in_changes_no_run(server, tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert False\n\n\ndef test_b():\n    pass\n")
    plain = [word for word in PYTEST if word != "evolvent.serve.pytest_plugin"][:-1]
    gone = environment(tmp_path, EVOLVENT_SERVER="http://127.0.0.1:9")
    broken = environment(tmp_path, EVOLVENT_SERVER="http://[::", EVOLVENT_TOKEN="x")
    first = subprocess.run(plain, cwd=tmp_path, env=gone, capture_output=True, text=True)
    for env in (gone, broken, environment(server.settings)):
        ended = subprocess.run(PYTEST, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (1, "")
        assert ended.stdout.rpartition(" in ")[0] == first.stdout.rpartition(" in ")[0]


def test_a_server_that_never_answers_is_left(tmp_path):
    import socket

    from evolvent.serve import client

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        script = "import sys, time; from evolvent.serve import client; print(client.post('/v1/evidence', {}, 0.2))"
        env = environment(tmp_path, EVOLVENT_SERVER=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        ended = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
        assert ended.stdout == "None\n" and client.CONNECT_S < 0.1


def test_secrets_of_commands_stand_in_no_file(server, ask, tmp_path):
    one = recalled(ask, "secret", repo=str(tmp_path))
    env = environment(server.settings)
    shell([*WATCH, "true", f"--api-key={SECRET}"], tmp_path, env)
    detail = said(ask.get(f"/v1/attempts/{one['attempt']}"))["evidence"][0]["detail"]
    assert "[secret]" in detail["command"] or "***" in detail["command"]
    for path in server.store.parent.iterdir():
        assert SECRET.encode() not in path.read_bytes()
    assert (server.store.parent / "a.db.attempts").stat().st_mode & 0o077 == 0
    assert json.loads((server.settings / "evolvent" / "client.json").read_text())["server"] == server.address


def test_what_follows_from_time_is_told_by_itself_also_after_a_kill(tmp_path):
    script = (
        "from evolvent.serve import app, verdicts, telling; app.TELL_S = 0.1; verdicts.IDLE_S = telling.IDLE_S = 2.0; "
        "from evolvent.cli import main; import sys; main(['serve', *sys.argv[1:]])"
    )
    one = Server(tmp_path)
    one.command[1:4] = ["-c", script]
    try:
        one.start()
        with httpx.Client(base_url=one.address, headers=bearer(one.token)) as ask:
            weak = recalled(ask, "weak")
            about = {"about": {"attempt": weak["attempt"]}}
            for code in (1, 0):
                said(ask.post("/v1/evidence", json=about | {"kind": "exit", "command": "make", "code": code}))
            assert said(ask.get(f"/v1/explain/{weak['receipt']}"))["data"]["outcomes"] == []
        one.stop(signal.SIGKILL)
        one.process.stdout.close()
        one.start()
        with httpx.Client(base_url=one.address, headers=bearer(one.token)) as ask:
            for _ in range(300):
                if found := said(ask.get(f"/v1/explain/{weak['receipt']}"))["data"]["outcomes"]:
                    break
                time.sleep(0.1)
            assert [(o["reward"], o["source"], o["weight"]) for o in found] == [(1.0, "proxy", 0.25)]
        assert one.log.read_text() == ""
    finally:
        one.stop(signal.SIGKILL)
        one.process.stdout.close()
