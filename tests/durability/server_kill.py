"""Kill a server with SIGKILL while clients work, start it again, and look whether what it acknowledged is there, once.

    python tests/durability/server_kill.py --kills 50 --seed 0

Clients recall, settle under the name of a job, and remember; of every third job they say evidence of its attempt. A
request that was cut off is sent again, half of the time under a new receipt, as a client does that has lost its own; a
job must count once all the same, and what follows from evidence must reach the memory.
"""

import argparse
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from serving import Server, bearer

CLIENTS, LESSONS = 6, 12


class Client(threading.Thread):
    """One job after the other, until told to stop; remembers what was acknowledged."""

    def __init__(self, server, name, seed):
        super().__init__()
        self.server, self.name_, self.draw, self.over = server, name, random.Random(seed), threading.Event()
        self.receipts, self.jobs, self.lessons, self.cut, self.wrong = [], [], {}, 0, []
        self.said, self.answered = {}, 0

    def ask(self, http, path, body):
        """The answer, or ``None`` where the server died; it is asked again by whoever needs it."""
        try:
            answer = http.post(self.server.address + path, json=body, headers=bearer(self.server.token))
        except httpx.TransportError:
            self.cut += 1
            time.sleep(0.05)
            return None
        if answer.status_code == 503:
            return None
        if answer.status_code != 200:
            self.wrong.append(answer.text)
            return None
        self.answered += 1
        return answer.json()

    def until(self, http, path, make):
        """Ask until it is acknowledged."""
        while not self.over.is_set():
            if (answer := self.ask(http, path, make())) is not None:
                return answer
        return None

    def recalled(self, http):
        answer = self.until(http, "/v1/recall", lambda: {"task": f"lesson {self.draw.randrange(LESSONS)}"})
        if answer:
            self.receipts.append(answer["receipt"])
        return answer and answer["receipt"]

    def attempt(self, http, job):
        """A check that fails and then passes, in an attempt of its own."""
        made = self.until(
            http, "/v1/recall", lambda: {"task": f"lesson {self.draw.randrange(LESSONS)}", "attempt": job}
        )
        for code in (1, 0) if made else ():
            key = f"{job}-{code}"
            body = {
                "about": {"attempt": made["attempt"]},
                "kind": "command",
                "command": "make",
                "code": code,
                "key": key,
            }
            if self.until(http, "/v1/evidence", lambda body=body: body) is None:
                return
            self.said[key] = made["receipt"] if code == 0 else None

    def run(self):
        with httpx.Client(timeout=30) as http:
            number = 0
            while not self.over.is_set():
                number += 1
                job = f"{self.name_}-{number}"
                if number % 3 == 2:
                    self.attempt(http, job)
                    continue
                first, tried = self.recalled(http), []

                def outcome(job=job, first=first, tried=tried):
                    tried.append(1)
                    again = self.recalled(http) if len(tried) > 1 and self.draw.random() < 0.5 else None
                    return {"receipt": again or first, "reward": True, "source": "tests", "idempotency_key": job}

                if first and self.until(http, "/v1/outcomes", outcome) is not None:
                    self.jobs.append(job)
                if number % 3 == 0:
                    note = {"key": f"own lesson {job}", "body": f"body of {job}"}
                    if made := self.until(http, "/v1/memories", lambda note=note: note):
                        self.lessons[made["id"]] = note["body"]


def work_begins(clients, within_s=60.0):
    """Wait until each client had an answer, however slow the machine is: else nothing is under way to be killed."""
    before, until = [client.answered for client in clients], time.monotonic() + within_s
    while any(c.answered < n + 2 for c, n in zip(clients, before, strict=True)) and time.monotonic() < until:
        time.sleep(0.02)


def kills(folder, number, seed, span=(0.1, 0.8)):
    """What was acknowledged, and what is wrong with it afterwards."""
    draw, server = random.Random(seed), Server(folder)
    server.start()
    with httpx.Client(headers=bearer(server.token)) as http:
        for i in range(LESSONS):
            http.post(
                f"{server.address}/v1/memories", json={"key": f"lesson {i}", "body": f"do {i}"}
            ).raise_for_status()
    clients = [Client(server, f"c{i}", f"{seed}/{i}") for i in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        for _ in range(number):
            work_begins(clients)
            time.sleep(draw.uniform(*span))
            server.stop(signal.SIGKILL)
            server.process.stdout.close()
            server.start()
        work_begins(clients)
        time.sleep(span[1])
    finally:
        for client in clients:
            client.over.set()
        for client in clients:
            client.join()
        server.stop()
    return Counter(
        {
            "kills": number,
            "receipts": sum(len(c.receipts) for c in clients),
            "outcomes": sum(len(c.jobs) for c in clients),
            "evidence": sum(len(c.said) for c in clients),
            "lessons": sum(len(c.lessons) for c in clients),
            "cut off": sum(c.cut for c in clients),
        }
    ), wrong(server.store, clients)


def wrong(store, clients):
    """What contradicts an acknowledgement, in words."""
    found = [text for client in clients for text in client.wrong]
    with Memory(store) as memory:
        found += [str(one) for one in verify(memory)]
        if rows := memory.rebuild_values():
            found.append(f"{rows} values were wrong")
        bodies = {item.id: item.body for item in memory.items(None)}
    with closing(sqlite3.connect(store)) as db:
        receipts = {f"r{seq}" for (seq,) in db.execute("SELECT seq FROM recall")}
        keys = {  # that a key stands there once is a constraint of the table
            key.removeprefix("key:") for (key,) in db.execute("SELECT idempotency_key FROM outcome WHERE valid")
        }
        credited = db.execute(
            "SELECT count(*), count(DISTINCT outcome_id || '/' || memory_id) FROM value_event WHERE rule = 'shown'"
        ).fetchone()
        settled = {f"r{seq}" for (seq,) in db.execute("SELECT recall_id FROM outcome WHERE valid AND reward = 1.0")}
    with closing(sqlite3.connect(f"{store}.attempts")) as db:
        said = [key for (key,) in db.execute("SELECT key FROM evidence")]
    found += [f"evidence {key} is there {n} times" for key, n in Counter(said).items() if n > 1]
    for client in clients:
        found += [f"evidence {key} is lost" for key in client.said.keys() - set(said)]
        found += [
            f"the memory never heard of {key}"
            for key, receipt in client.said.items()
            if receipt and receipt.partition(".")[0] not in settled
        ]
        found += [f"receipt {one} is lost" for one in client.receipts if one.partition(".")[0] not in receipts]
        found += [f"the outcome of {job} is lost" for job in client.jobs if job not in keys]
        found += [f"lesson {id_} is lost" for id_, body in client.lessons.items() if bodies.get(id_) != body]
    found += [f"{n} memories say {body!r}" for body, n in Counter(bodies.values()).items() if n > 1]
    if credited[0] != credited[1]:
        found.append(f"credit was given twice: {credited}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "store").mkdir()
        counted, found = kills(Path(folder, "store"), a.kills, a.seed)
    print(", ".join(f"{n} {what}" for what, n in counted.items()))
    print("\n".join(found) or "nothing acknowledged was lost or counted twice")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
