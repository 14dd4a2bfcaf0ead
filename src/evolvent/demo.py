"""A shop's orders: questions that a stranger answers wrong, and whoever was shown the answer once answers right.

The world of ``evolvent demo``; nothing is fetched, nothing is random. The shop means its own thing by "late" or "big",
and a query is judged by running it. ``answer`` stands in for a language model: it writes what a stranger would write,
unless its prompt shows how the same question was answered for another city. It sees nothing but the prompt, so whether
it is right depends on what the memory brought.

A world and an agent of your own look like this: ``evolvent run memlift --env my.py:make --model my.py:answer``. Add
``--embedder hash`` where the extra ``memory`` is not installed; ``evolvent check env my.py:make`` tries the world.
"""

from __future__ import annotations

import random
import re
import sqlite3
from itertools import product

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Task, Turn

CITIES = {"train": ("Oslo", "Porto", "Lyon", "Graz"), "heldout": ("Porto", "Lyon", "Graz", "Oslo")}
# what is asked; what a stranger takes it to mean; what this shop means
KINDS = {
    "late": ("How many orders to {} arrived late?", "arrived > promised", "arrived > promised + 2"),
    "big": ("How many big customers do we have in {}?", "total > 1000", "total >= 400 AND state = 'delivered'"),
    "open": ("How much work is still open for {}?", "state = 'open'", "state IN ('open', 'packed')"),
    "lost": ("What got lost on its way to {}?", "state = 'lost'", "state IN ('lost', 'sent') AND age > 30"),
}
_EXAMPLE = re.compile(r"Q: (.+)\nSQL: (.+)\n")


def answer(prompt: str) -> str:
    """The scripted agent: it follows an example of the same question, and otherwise guesses."""
    examples, asked = _EXAMPLE.findall(prompt), prompt.rpartition("Q: ")[2]
    what, city = _read(asked)
    for question, sql in reversed(examples):  # the best one stands last
        if _read(question)[0] == what:
            return sql.replace(_read(question)[1], city)
    return _query(KINDS[what][1], city)


class Orders:
    """The shop; see ``evolvent.core.protocols.Env`` for what each part is for."""

    name, labels = "orders", ("Q", "SQL")
    instructions = "Answer with one SQL query over orders(city, promised, arrived, total, state, age).\n\n"
    stop, max_tokens, reward_range = ("\n",), 60, (0.0, 1.0)

    def __init__(self) -> None:
        self._task: Task | None = None
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE TABLE orders(city, promised, arrived, total, state, age)")
        draw = random.Random(0).random
        states = ("open", "packed", "sent", "lost", "delivered")
        for _ in range(400):
            city, state, promised = CITIES["train"][int(4 * draw())], states[int(5 * draw())], int(28 * draw())
            order = (city, promised, promised + int(9 * draw()) - 4, int(1500 * draw()), state, int(60 * draw()))
            self._db.execute("INSERT INTO orders VALUES(?, ?, ?, ?, ?, ?)", order)
        self._db.execute("PRAGMA query_only = ON")

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """One question of each kind, then each about another city: eight at most; no question is in both splits."""
        if split not in CITIES:
            raise BadInput("unknown split", got=split, expected=" or ".join(CITIES), where="orders.tasks")
        turns = product(range(2), enumerate(KINDS))  # two cities for each kind; the other split has the other two
        pairs = [(what, CITIES[split][(i + 2 * turn) % 4]) for turn, (i, what) in turns]
        return [
            Task(f"{what}-{city}", KINDS[what][0].format(city), kind=what, split=split, seed=seed)
            for what, city in pairs[:n]
        ]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The question."""
        self._task = task
        return Turn(task.text)

    def step(self, action: str) -> Turn:
        """Run the query; right is what counts the same orders as the shop's own."""
        if self._task is None:
            raise EnvError("step without reset", expected="reset(task), then one step", where="orders.step")
        house, self._task = self._house(self._task), None
        try:
            found = self._db.execute(action).fetchall()
        except sqlite3.Error as error:
            found = f"the query failed: {error}"
        right = found == self._db.execute(house).fetchall()
        return Turn(f"{'Right' if right else 'Wrong'}: {found}", reward=float(right), success=right, terminated=True)

    def review(self, task: Task, seed: int) -> Correction | None:
        """The shop's own query."""
        return Correction(self._house(task))

    def advance(self, pass_number: int) -> None:
        """Nothing drifts here."""

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @staticmethod
    def _house(task: Task) -> str:
        what, city = _read(task.text)
        return _query(KINDS[what][2], city)


def make() -> Orders:
    """The shop."""
    return Orders()


def _read(question: str) -> tuple[str, str]:
    """What a question asks for, and of which city."""
    for what, (form, _, _) in KINDS.items():
        before, after = form.split("{}")
        if question.startswith(before):
            return what, question.removeprefix(before).partition(after)[0]
    raise BadInput("not a question of this world", got=question, where="evolvent.demo")


def _query(condition: str, city: str) -> str:
    return f"SELECT count(*) FROM orders WHERE city = '{city}' AND {condition}"
