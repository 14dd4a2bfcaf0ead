"""Orders of a shop: conversations of several requests, each answered with a call; later ones lean on earlier results.

    Request: Which orders has Ana?         [find(customer="Ana")]          -> 417: 3 lamps, 36; 882: 2 cups, 14
    Request: Refund what the lamps cost.   [refund(order=417, amount=36)]
    Request: Send that one on Friday.      [ship(order=417, day="Friday")]

Numbers of orders, what they cost and who the customer is are said once, by a result or an early request: behind the
first request no call can be told from its own request. Reward 1 where in the end the shop is as the gold calls leave
it; what was looked up belongs to that. A wrong call does not end a conversation. Held-out customers and goods occur in
no training task; numbers are drawn.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.data.schemas import Tool
from evolvent.envs.text._shop import TOOLS, Shop
from evolvent.envs.text._text import TextEnv, check_request, playing
from evolvent.formulas.call_match import Call, match
from evolvent.formulas.call_text import read_calls

_NAMES = {
    "train": "Ana Ben Carla David Emma Felix Greta Hugo Ida Jonas Klara Leo Mia Nils Olga Paul",
    "heldout": "Rosa Simon Tara Viktor Wanda Yuri Zoe Arthur",
}
_GOODS = {
    "train": "lamps vases chairs books pens cups rugs bowls clocks plates boxes candles",
    "heldout": "forks towels baskets mirrors shelves spoons",
}
_DAYS = "Monday Tuesday Wednesday Thursday Friday"
_MOST_CALLS = 4
"""Calls of one answer that are carried out."""


def make(turns: int = 4) -> Orders:
    """Conversations about one customer's orders.

    Args:
        turns: requests of a conversation.

    Raises:
        BadInput: fewer than 2 or more than 12.
    """
    if not 2 <= turns <= 12:
        raise BadInput("requests of a conversation", got=turns, expected="2 to 12", where="envs.orders.make")
    return Orders(turns)


@dataclass(frozen=True)
class _Story:
    """A conversation: the shop as it begins, requests, and the right call to each."""

    shop: Shop
    requests: tuple[str, ...]
    gold: tuple[Call, ...]


class Orders(TextEnv):
    """One conversation an attempt; a step answers one request."""

    name = "orders"
    instructions = "Keep the orders of a shop by calls such as [refund(order=105, amount=12)].\n\n"
    labels = ("Request", "Call")
    conversation = True
    max_tokens = 48
    tools: Sequence[Tool] = TOOLS

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` conversations; a task's kind is what its last request asks for."""
        check_request(split, n, f"{self.name}.tasks")
        ids = [f"{self.name}/{self.turns}/{split}/{seed}/{i}" for i in range(n)]
        stories = [_story(one, split, self.turns) for one in ids]
        return [
            Task(one, told.requests[0], told.gold[-1]["name"], split, seed)
            for one, told in zip(ids, stories, strict=True)
        ]

    def gold(self, task: Task) -> list[list[Call]]:
        """The right calls, request by request.

        Raises:
            BadInput: a task of another environment.
        """
        if not task.id.startswith(f"{self.name}/{self.turns}/"):
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return [[call] for call in _story(task.id, task.split, self.turns).gold]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The first request and the functions; ``seed`` changes nothing."""
        self._gold = self.gold(task)
        told = _story(task.id, task.split, self.turns)
        self._requests, self._shop, self._aim = told.requests, copy.deepcopy(told.shop), copy.deepcopy(told.shop)
        for call in told.gold:
            self._aim.call(call)
        self._known: dict[int, dict[str, Any]] = {}
        self._at, first = 0, told.requests[0]
        self._turn = Turn(f"{first}\nFunctions:\n{self.listed(TOOLS)}", key=first)
        return self._turn

    def step(self, action: str) -> Turn:
        """Carry out the calls of an answer, and show what they come to and the next request.

        ``info`` holds the answer in one line, ``action``, and whether its calls are the right ones, ``right``.
        """
        playing(self._turn, self.name)
        read = read_calls(action)
        results = [self._result(call) for call in read.calls[:_MOST_CALLS]]
        info = {"action": self.written(read.calls), "right": match(read.calls, self._gold[self._at]).right}
        self._at += 1
        said = f"Result: {'; '.join(results) or 'no call'}"
        if self._at < self.turns:
            following = self._requests[self._at]
            self._turn = Turn(f"{said}\nRequest: {following}", key=following, follows=True, info=info)
        else:
            success = self._shop == self._aim and self._shop.found >= self._aim.found
            self._turn = Turn(said, reward=float(success), terminated=True, success=success, follows=True, info=info)
        return self._turn

    def _result(self, call: Call) -> str:
        try:
            rows = self._shop.call(call)
        except ValueError as error:
            return json.dumps({"error": str(error)})
        if call["name"] == "cancel":
            self._known.pop(call["arguments"]["order"], None)
        for row in rows:  # the newest stands last
            self._known.pop(row["order"], None)
            self._known[row["order"]] = row
        shown = [{k: row[k] for k in ("order", "quantity", "item", "total")} for row in rows]
        return json.dumps(shown if call["name"] == "find" else shown[0] if shown else "done")

    def known(self) -> str:
        """What results have shown so far, in short: a customer, and number, quantity, item, total of each order."""
        rows = list(self._known.values())
        each = ", ".join(f"{row['order']} {row['quantity']} {row['item']} {row['total']}" for row in rows)
        return f"{rows[-1]['customer']}: {each}" if rows else ""

    def review(self, task: Task, seed: int) -> Correction | None:
        """The gold calls, one line a request."""
        return Correction("\n".join(map(self.written, self.gold(task))), source="gold")

    @staticmethod
    def written(calls: Sequence[Call]) -> str:
        """Calls as an answer, in Python's syntax: ``[refund(order=417, amount=36)]``."""
        given = [", ".join(f"{k}={v!r}" for k, v in call["arguments"].items()) for call in calls]
        made = [f"{call['name']}({of})" for call, of in zip(calls, given, strict=True)]
        return f"[{', '.join(made)}]"

    @staticmethod
    def listed(tools: Sequence[Tool]) -> str:
        """The functions, a line each: signature and what it does."""
        lines = [f"{one['name']}({', '.join(one['parameters']['properties'])}): {one['description']}" for one in tools]
        return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ conversations
@lru_cache(maxsize=4096)
def _story(id: str, split: str, turns: int) -> _Story:
    """A conversation; the gold calls are carried out while it is written, so that results can be leant on."""
    draw = random.Random(id)
    who, other = draw.sample(_NAMES[split].split(), 2)
    goods = draw.sample(_GOODS[split].split(), 6)
    prices = {item: draw.randint(2, 9) for item in goods}
    numbers = draw.sample(range(100, 1000), turns + 3)
    finds = draw.random() < 0.7
    owners = [who, other, who][: 3 if finds else 0]
    orders = {
        number: {"customer": one, "item": goods.pop(), "quantity": draw.randint(1, 9)}
        for number, one in zip(numbers, owners, strict=False)
    }
    shop = Shop(orders, prices, numbers[3:])
    begin, requests, gold = copy.deepcopy(shop), list[str](), list[Call]()
    shown, one, last = list[dict[str, Any]](), dict[str, Any](), 0
    while len(gold) < turns:
        if not gold and finds:
            asked, call = f"Which orders has {who}?", _call("find", customer=who)
        elif not gold or (goods and draw.random() < 0.25):
            item, n = goods.pop(), draw.randint(1, 9)
            asked = draw.choice(("The customer also wants {n} {item}.", "Also order {n} {item} for the same customer."))
            asked = (asked if gold else "{who} orders {n} {item}.").format(who=who, n=n, item=item)
            call = _call("sell", customer=who, item=item, quantity=n)
        else:
            one = draw.choice(shown)
            name = "that one" if one["order"] == last and draw.random() < 0.5 else f"the {one['item']}"
            asked, call = _about(draw, one, name, who, cancels=len(shown) > 1)
        rows = shop.call(call)
        if call["name"] == "cancel":
            shown.remove(one)
        shown = [row for row in shown if row["order"] not in {new["order"] for new in rows}] + rows
        last = rows[0]["order"] if len(rows) == 1 and call["name"] != "find" else 0
        requests.append(asked)
        gold.append(call)
    return _Story(begin, tuple(requests), tuple(gold))


def _about(draw: random.Random, one: Mapping[str, Any], name: str, who: str, *, cancels: bool) -> tuple[str, Call]:
    """A request about an order, and its call."""
    number, total, day = one["order"], one["total"], draw.choice(_DAYS.split())
    n = draw.choice([n for n in range(1, 10) if n != one["quantity"]])
    kinds: list[tuple[str, Call]] = [
        (f"Change the number of {name} to {n}.", _call("change", order=number, quantity=n)),
        (f"Refund all that was paid for {name}.", _call("refund", order=number, amount=total)),
        (f"Send {name} on {day}.", _call("ship", order=number, day=day)),
        (f"Send the customer an invoice for {name}.", _call("bill", customer=who, amount=total)),
    ]
    if cancels:
        kinds.append((f"Cancel {name}.", _call("cancel", order=number)))
    return draw.choice(kinds)


def _call(name: str, **arguments: Any) -> Call:
    return {"name": name, "arguments": arguments}
