"""An agent as a process of its own, with the ways in which it may fail; it gives the answers that are in its file.

    python worker.py ANSWERS.json FAILURE RATE SEED LEASE_S

It reads jobs, a JSON object a line, and answers likewise. With the chance RATE it fails at a job: *crash* kills itself
half-way through its answer, *hang* reads on and never answers, *lie* gives its answer to another question, *late*
answers after its lease ran out, twice. The standard library alone, so that another one is there within milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

FAILURES = ("crash", "hang", "lie", "late")


def fails(seed: str, lease: str, rate: float) -> bool:
    """Whether an agent fails at a lease; drawn anew for each."""
    return random.Random(f"{seed}/{lease}").random() < rate


def main(path: str, failure: str, rate: str, seed: str, lease_s: str) -> None:
    """Answer until nobody asks any more."""
    with open(path, encoding="utf-8") as file:
        answers: dict[str, str] = json.load(file)
    _say({})
    for line in sys.stdin:
        job = json.loads(line)
        answer, failing = answers[job["question"]], fails(seed, job["lease"], float(rate))
        if failing and failure == "crash":
            sys.stdout.write(json.dumps({"lease": job["lease"], "answer": answer})[:-2])
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if failing and failure == "hang":
            sys.stdin.read()
            return
        if failing and failure == "lie":
            others = sorted({*answers.values()} - {answer}) or [""]
            answer = random.Random(f"{seed}/{job['lease']}/lie").choice(others)
        if failing and failure == "late":
            time.sleep(1.5 * float(lease_s))
            _say({"lease": job["lease"], "answer": answer})
        _say({"lease": job["lease"], "answer": answer})


def _say(row: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
