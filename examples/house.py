"""The task of the examples: count customers by the house's own definitions, which no model can know.

An agent has one tool, ``count``. It guesses what "active" means, a check says that it counted the wrong ones, a
reviewer gives the definition, the memory keeps it, and the next question about active customers (of another city) is
right.
"""

import argparse
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from evolvent.memory.items import Recalled
from evolvent.testing.chat import Call, ChatServer, said

PROMPT = (
    "Count customers with the tool `count`; its argument `where` is an SQL condition on the table "
    "customers(city TEXT, plan TEXT, last_order TEXT, spent INTEGER): plans are trial, solo, team; dates look like "
    "2026-03-01; cities are Berlin, Oslo, Porto. Then answer with the number that the tool gave."
)
# what an outsider would guess, what the house means
MEANING = {
    "active customers": ("last_order >= '2026-01-01'", "last_order >= '2026-06-01' AND plan <> 'trial'"),
    "key accounts": ("plan = 'team'", "spent > 6000"),
    "lapsed customers": ("last_order < '2026-01-01'", "last_order < '2026-04-01' AND spent > 0"),
    "prospects": ("spent = 0", "plan = 'trial' AND last_order >= '2026-03-01'"),
}
PASSES = {
    "first pass": [f"How many {term} are in Berlin?" for term in MEANING],
    "second pass": [f"How many {term} are in {city}?" for term in MEANING for city in ("Oslo", "Porto")],
}
_QUESTION = re.compile(r"How many ([a-z ]+) are in ([A-Z][a-z]+)\?")


def count(where: str) -> str:
    """The tool: how many customers meet an SQL condition. What goes wrong comes back as text, for the model to read."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE customers(city TEXT, plan TEXT, last_order TEXT, spent INTEGER)")
        for i in range(180):
            row = ("Berlin", "Oslo", "Porto")[i % 3], ("trial", "solo", "team")[i // 3 % 3]
            db.execute(
                "INSERT INTO customers VALUES(?,?,?,?)", (*row, f"2026-{i * 5 % 12 + 1:02}-01", i * 37 % 97 * 100)
            )
        db.execute("UPDATE customers SET last_order = replace(last_order, '2026', '2025') WHERE spent % 3 = 0")
        db.execute("PRAGMA query_only = ON")
        try:
            return str(db.execute(f"SELECT count(*) FROM customers WHERE {where}").fetchone()[0])
        except sqlite3.Error as error:
            return f"error: {error}"


def condition(question: str, house: bool) -> str:
    """The SQL condition that answers a question, as the house means it or as an outsider guesses."""
    term, city = _QUESTION.findall(question)[-1]
    return f"{MEANING[term][house]} AND city = '{city}'"


def right(question: str, ran: Sequence[str]) -> bool:
    """The check: the last condition that the agent ran counts what the house counts."""
    return bool(ran) and count(ran[-1]) == count(condition(question, house=True))


def review(question: str) -> str:
    """What a reviewer says about a wrong answer: the lesson to remember."""
    term, _ = _QUESTION.findall(question)[-1]
    return f"House definition of {term}: {MEANING[term][1]}"


def notes(items: Iterable[Recalled]) -> str:
    """Memories for the prompt: marked as data, one a line."""
    return "".join(f"\nNote of the house: {item.body}" for item in items)


def script(request: Mapping[str, Any]) -> str | list[Call]:
    """The scripted model: it knows a definition only when its prompt says it."""
    text = "\n".join(said(message) for message in request["messages"])
    question = "How many {} are in {}?".format(*_QUESTION.findall(text)[-1])
    if all(message["role"] != "assistant" for message in request["messages"]):
        return [Call("count", {"where": condition(question, house=review(question) in text)})]
    number = re.findall(r"\d+", said(request["messages"][-1]))[-1]
    for tool in request.get("tools") or ():  # frameworks that take the answer by a tool call it final_…
        if tool["function"]["name"].startswith("final_"):
            return [
                Call(tool["function"]["name"], dict.fromkeys(tool["function"]["parameters"]["properties"], int(number)))
            ]
    return f"There are {number}."


@dataclass(frozen=True)
class Settings:
    """Where the model and the memory are."""

    base_url: str
    model: str
    store: str
    policy: str
    api_key: str


@contextmanager
def settings() -> Iterator[Settings]:
    """The flags of the examples; without ``--base-url`` a scripted server answers, for as long as the block lasts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", help="an OpenAI-compatible server, e.g. http://127.0.0.1:8080/v1")
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--store", default=":memory:", help="a file keeps what was learned")
    parser.add_argument("--policy", default="memlift", help="'none' is the control without memory")
    given = parser.parse_args()
    key = os.environ.get("OPENAI_API_KEY", "none")
    if given.base_url:
        yield Settings(given.base_url, given.model, given.store, given.policy, key)
    else:
        with ChatServer(script) as server:
            yield Settings(server.base_url, given.model, given.store, given.policy, "none")
