"""Orders of a shop: exact verdicts by state, and no request behind the first that can be answered by itself."""

import re

import pytest

from evolvent.algos.parl_mt.awareness import Aware
from evolvent.core.errors import BadInput
from evolvent.envs.text import orders

_KNOWN = re.compile(r"(\d{3}) (\d) (\w+) (\d+)")


def reader(text):
    """The call to a request, by whoever reads notes perfectly; 0 and "?" for what the text does not say."""
    request = text.rpartition("Request: ")[2]
    notes = text.rpartition("Request: ")[0]
    rows = {item: (int(order), int(total)) for order, _, item, total in _KNOWN.findall(notes)}
    who = next(iter(re.findall(r"(\w+): \d", notes)), "?")
    words = re.findall(r"\w+", request)
    number, total = next((rows[w] for w in words if w in rows), (0, 0))
    if "that one" in request and rows:
        number, total = list(rows.values())[-1]
    digit = next((int(w) for w in words if w.isdigit()), 0)
    if request.startswith("Which"):
        return f"[find(customer={words[3]!r})]"
    if "orders" in words and digit:
        return f"[sell(customer={words[0]!r}, item={words[3]!r}, quantity={digit})]"
    if "wants" in words or "Also" in words:
        return f"[sell(customer={who!r}, item={words[words.index(str(digit)) + 1]!r}, quantity={digit})]"
    if request.startswith("Change"):
        return f"[change(order={number}, quantity={digit})]"
    if request.startswith("Refund"):
        return f"[refund(order={number}, amount={total})]"
    if "invoice" in words:
        return f"[bill(customer={who!r}, amount={total})]"
    if request.startswith("Send"):
        return f"[ship(order={number}, day={words[-1]!r})]"
    return f"[cancel(order={number})]"


def held(env, task, answer):
    turn = env.reset(task)
    while not turn.done:
        turn = env.step(answer(turn.observation))
    return turn


@pytest.mark.parametrize("turns", [4, 7])
def test_a_reader_of_gold_notes_is_always_right_and_without_notes_only_at_first(turns):
    env = orders.make(turns)
    tasks = env.tasks("train", 60, 0) + env.tasks("heldout", 60, 0)
    gold = [held(Aware(env, "gold"), task, reader) for task in tasks]
    assert all(turn.success and turn.info["right"] for turn in gold)
    right = []
    for task in tasks:
        aware, turn = Aware(env, "empty"), None
        turn, each = aware.reset(task), []
        while not turn.done:
            turn = aware.step(reader(turn.observation))
            each.append(turn.info["right"])
        right.append(each)
        assert not turn.success
    assert all(each[0] for each in right) and not any(any(each[1:]) for each in right)


def test_the_state_is_the_verdict():
    env = orders.make()
    task = next(one for one in env.tasks("train", 50, 0) if env.gold(one)[0][0]["name"] == "find")
    gold = [env.written(calls) for calls in env.gold(task)]

    def outcome(answers):
        left = iter(answers)
        return held(env, task, lambda _: next(left)).success

    assert outcome(gold) and outcome([gold[0][:-1] + ", " + gold[0][1:], *gold[1:]])  # looked up twice
    assert not outcome(["[]", *gold[1:]]) and not outcome([*gold[:3], "[]"])
    number = next(iter(orders._story(task.id, "train", 4).shop.orders))
    assert not outcome([*gold[:3], f"{gold[3][:-1]}, refund(order={number}, amount=1)]"])  # one thing too much
    turn = env.reset(task)
    for wrong in ("[find(customer=3)]", "[refund(order=1, amount=2)]", "[fly()]"):
        turn = env.step(wrong)
        assert '"error"' in turn.observation and not turn.info["right"]


def test_splits_share_no_customer_and_no_goods_and_tasks_are_of_this_world():
    env = orders.make()
    for split in ("train", "heldout"):
        words = {str(v) for t in env.tasks(split, 300, 1) for (c,) in env.gold(t) for v in c["arguments"].values()}
        assert words & set(orders._NAMES[split].split()) and words & set(orders._GOODS[split].split())
        other = "heldout" if split == "train" else "train"
        assert not words & {*orders._NAMES[other].split(), *orders._GOODS[other].split()}
    with pytest.raises(BadInput, match="not a task"):
        env.reset(orders.make(5).tasks("train", 1, 0)[0])
    with pytest.raises(BadInput, match="requests"):
        orders.make(1)
