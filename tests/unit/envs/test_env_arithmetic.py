"""Small sums as free text: answers are right, splits and examples never share a question."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.envs.text import arithmetic

ANSWERS = {
    "largest": lambda q: max(q.split()),
    "smallest": lambda q: min(q.split()),
    "addition": lambda q: str(eval(q)),
    "addition2": lambda q: str(eval(q)),
    "subtraction": lambda q: str(eval(q)),
    "count": lambda q: str(q[1:].count(q[0])),
    "next": lambda q: str(2 * int(q.split()[3]) - int(q.split()[2])),
    "parity": lambda q: ("even", "odd")[int(q[-1]) % 2],
}


def test_every_variant_is_tested():
    assert set(ANSWERS) == set(arithmetic.KINDS)


@pytest.mark.parametrize("variant", list(ANSWERS))
def test_the_right_answer_is_paid_and_no_other(variant):
    env = arithmetic.make(variant)
    for task in env.tasks("train", 40, 0):
        env.reset(task)
        right = env.step(f" {ANSWERS[variant](task.text)}.\n\nand so on")
        assert right.reward == 1.0 and right.success and right.terminated
        env.reset(task)
        wrong = env.step(f"{ANSWERS[variant](task.text)}0")
        assert wrong.reward == 0.0 and not wrong.success and wrong.terminated
        assert env.review(task, 0).body == ANSWERS[variant](task.text)


@pytest.mark.parametrize("variant", list(ANSWERS))
def test_splits_and_examples_share_no_question_in_any_order_of_its_words(variant):
    questions = arithmetic._questions(variant)
    parts = {name: {str(sorted(q.split())) for q, _ in items} for name, items in questions.items()}
    train, heldout, example = parts["train"], parts["heldout"], parts["example"]
    assert not train & heldout and not train & example and not heldout & example
    assert len(questions["heldout"]) > 0.25 * len(questions["train"])
    env = arithmetic.make(variant, shots=8)
    assert env.instructions.count(env.labels[0] + ":") == 8
    assert len({line for line in env.instructions.splitlines() if line.startswith(env.labels[1])}) >= 2


def test_answers_fit_into_the_tokens_allowed():
    assert max(len(a) for k in ANSWERS for q in arithmetic._questions(k).values() for _, a in q) <= 4
    numbers = [a for k in ANSWERS if k != "parity" for q in arithmetic._questions(k).values() for _, a in q]
    assert max(map(len, numbers)) == 3


def test_questions_come_again_in_another_order_when_they_are_used_up():
    env = arithmetic.make("addition")
    number = len(arithmetic._questions("addition")["train"])
    tasks = env.tasks("train", 2 * number + 1, 1)
    first, second = tasks[:number], tasks[number : 2 * number]
    assert len({task.id for task in tasks}) == len(tasks)
    assert {t.text for t in first} == {t.text for t in second} and [t.text for t in first] != [t.text for t in second]
    assert env.tasks("train", 5, 1) == tasks[:5] and env.tasks("train", 5, 2) != tasks[:5]


def test_a_task_of_another_world_is_refused():
    task = arithmetic.make().tasks("train", 1, 0)[0]
    with pytest.raises(BadInput, match="not a task"):
        arithmetic.make().reset(type(task)("x/1", "What?"))
