"""A served memory in which something has happened: recalls, tests, a revert, claims, people."""

import hashlib
import json
import random
import time
import urllib.request

from serving import bearer

NOTES = [
    ("a test that fails only on the build server", "fix the seed and the time zone; the server runs in UTC"),
    ("a migration that locks a large table", "add the column without a default, fill it in batches, then constrain it"),
    ("a request that times out behind the proxy", "raise proxy_read_timeout, and stream the answer"),
    ("a memory leak in a worker", "the cache has no limit: give it one, and log its size"),
    ("flaky browser tests", "wait for the text, never for a number of milliseconds"),
    ("<img src=x onerror=alert(1)> in a report", "escape it: <script>alert(2)</script> came through the title once"),
]


class Caller:
    """Asks a server as an agent, a test runner and a person would."""

    def __init__(self, server, token=None):
        self.server, self.token = server, token or server.token

    def __call__(self, path, body=None):
        sent = urllib.request.Request(f"{self.server.address}{path}", headers=bearer(self.token))
        if body is not None:
            sent.data = json.dumps(body).encode()
            sent.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(sent) as answer:
            return json.load(answer)

    def evidence(self, attempt, kind, **said):
        return self("/v1/evidence", {"about": {"attempt": attempt}, "kind": kind, **said})


def tests(*names):
    return "".join(hashlib.sha256(name.encode()).hexdigest()[:8] for name in names)


def live(server, attempts=60, seed=0):
    """Fill it; the ids of the attempts that a page is looked at for."""
    ask, draw = Caller(server), random.Random(seed)
    for key, body in NOTES:
        ask("/v1/memories", {"key": key, "body": body})
    for i in range(attempts):
        key = NOTES[draw.randrange(5)][0]
        made = ask("/v1/recall", {"task": key, "k": 2, "session": f"session-{i}", "repo": "/home/ada/shop"})
        better = draw.random() < (0.8 if made["notes"] else 0.4)
        one, two = (tests(f"{name}-{i}") for name in ("one", "two"))
        names = ["tests/test_shop.py::test_total"]
        ask.evidence(made["attempt"], "tests", run=f"{i}a", passed=two, failed=one, names=names)
        passed, failed = (one, "") if better else ("", one + two)
        ask.evidence(made["attempt"], "tests", run=f"{i}b", passed=passed, failed=failed)
    now, repo = time.time(), "/home/ada/till"

    def git(*shas):
        return {"repo": repo, "commits": [{"sha": s, "at": now, **({"reverts": r} if r else {})} for s, r in shas]}

    first, second, third = ("1" * 40, None), ("2f7a9c" * 6 + "0000", None), ("3b" * 20, "2f7a9c" * 6 + "0000")
    for i in range(50):  # until one is not held out
        task = "a test that fails only on the build server: the total is off by a cent"
        made = ask("/v1/recall", {"task": task, "session": f"till-{i}", "git": git(first)})
        if made["notes"]:
            break
        ask.evidence(made["attempt"], "person", reward=None)
    found = {"reverted": made["attempt"]}
    one = tests("test_total")
    ask.evidence(made["attempt"], "tests", run="a", failed=one, passed="", names=["tests/test_till.py::test_total"])
    ask.evidence(made["attempt"], "tests", run="b", failed="", passed=one)
    ask("/v1/evidence", {"git": git(second, first)})
    ask("/v1/evidence", {"git": git(third, second, first)})
    for name, task in (("claimed", "a request that times out behind the proxy: /orders"), ("open", NOTES[5][0])):
        found[name] = ask("/v1/recall", {"task": task, "session": name, "repo": "/home/ada/site"})["attempt"]
    ask.evidence(found["claimed"], "claim", reward=True, command="curl -m 5 localhost/orders", code=0)
    made = ask("/v1/recall", {"task": "a memory leak in a worker: mailer", "session": "mail", "repo": "/home/ada/mail"})
    found["weak"] = made["attempt"]
    ask.evidence(found["weak"], "exit", command="make check", code=0)
    return found
