"""The shop behind ``orders``: its functions, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evolvent.data.schemas import Tool
from evolvent.formulas.call_match import Call

FUNCTIONS = {
    "find": ("their orders", {"customer": "string"}),
    "sell": ("new order", {"customer": "string", "item": "string", "quantity": "integer"}),
    "change": ("another quantity", {"order": "integer", "quantity": "integer"}),
    "cancel": ("end it", {"order": "integer"}),
    "refund": ("pay back", {"order": "integer", "amount": "integer"}),
    "ship": ("send it", {"order": "integer", "day": "string"}),
    "bill": ("send an invoice", {"customer": "string", "amount": "integer"}),
}
TOOLS: tuple[Tool, ...] = tuple(
    {
        "name": name,
        "description": about,
        "parameters": {"type": "object", "properties": {k: {"type": v} for k, v in of.items()}, "required": [*of]},
    }
    for name, (about, of) in FUNCTIONS.items()
)
_TYPES = {"string": "str", "integer": "int"}


@dataclass
class Shop:
    """The state: orders by number, prices, the numbers of orders to come, what was sent, paid back and asked for.

    ``found``, the customers that were looked up, is no part of comparisons.
    """

    orders: dict[int, dict[str, Any]]
    prices: Mapping[str, int]
    numbers: list[int]
    done: list[Call] = field(default_factory=list[Call])
    found: set[str] = field(default_factory=set[str], compare=False)

    def call(self, call: Call) -> list[dict[str, Any]]:
        """Carry out a call: the orders that it shows.

        Raises:
            ValueError: no such function or order, or arguments that are none of its own.
        """
        name, given = call["name"], dict(call["arguments"])
        if name not in FUNCTIONS:
            raise ValueError(f"no function {name}")
        if {k: type(v).__name__ for k, v in given.items()} != {k: _TYPES[v] for k, v in FUNCTIONS[name][1].items()}:
            raise ValueError(f"{name} takes {', '.join(FUNCTIONS[name][1])}")
        if name == "find":
            self.found.add(given["customer"])
            return [self._row(n) for n, one in self.orders.items() if one["customer"] == given["customer"]]
        number = given.get("order", 0)
        if name == "sell":
            if given["item"] not in self.prices or not self.numbers:
                raise ValueError(f"no {given['item']} to be had")
            number = self.numbers.pop(0)
            self.orders[number] = given
        elif "order" in given and number not in self.orders:
            raise ValueError(f"no order {number}")
        elif name == "change":
            self.orders[number]["quantity"] = given["quantity"]
        elif name == "cancel":
            del self.orders[number]
        else:
            self.done.append(call)
        return [self._row(number)] if number in self.orders else []

    def _row(self, number: int) -> dict[str, Any]:
        one = self.orders[number]
        return {"order": number, **one, "total": one["quantity"] * self.prices[one["item"]]}
