"""HammerBench's metrics: vectors that the released functions gave (commit cdbe885, rouge 1.0.1)."""

import math

import pytest

from evolvent.formulas.slots import Snapshot, metrics, rouge_l, same_arguments, snapshot


@pytest.mark.parametrize(
    ("gold", "said", "right", "extra", "missing"),
    [
        ({"city": "Guangzhou"}, {"city": "Guangzhou"}, True, 0, 0),
        ({"city": "Guangzhou"}, {"city": "Guangzhou", "time": ""}, True, 0, 0),  # an empty text says nothing
        ({"city": "Guangzhou"}, {"city": "Guangzhou", "time": "\\"}, True, 0, 0),
        ({"city": "Guangzhou"}, {"city": "Guangzhou", "time": "today"}, False, 1, 0),
        ({"city": "Guangzhou", "plate": "B1"}, {"city": "Guangzhou"}, False, 0, 1),
        ({"q": "the quick brown fox"}, {"q": "quick brown fox"}, True, 0, 0),
        ({"q": "the quick brown fox"}, {"q": "brown fox"}, False, 0, 0),
        ({"a": "10 am tomorrow"}, {"a": "tomorrow 10 am"}, False, 0, 0),
        ({}, {}, True, 0, 0),
        ({}, {"a": "x"}, False, 1, 0),
        ({"a": 5}, {"a": "5"}, True, 0, 0),
        ({"kwargs": "z", "a": "b"}, {"a": "b"}, True, 0, 1),
        ({"kwargs": "z"}, {}, True, 0, 1),
        ({"kwargs": "z", "a": "b"}, {"kwargs": "y", "a": "B!"}, True, 0, 0),
        ({"a": "b"}, {"a": None}, False, 0, 0),
    ],
)
def test_a_snapshot(gold, said, right, extra, missing):
    found = snapshot({"name": "f", "arguments": said}, {"name": "f", "arguments": gold})
    assert found == Snapshot(True, right, extra, missing)


def test_the_function_is_apart_from_the_arguments():
    assert snapshot({"name": "g", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}) == Snapshot(
        False, True, 0, 0
    )


def test_no_call_and_no_function_that_fits():
    gold = {"name": "f", "arguments": {"a": 1, "b": 2}}
    assert snapshot(None, gold) == Snapshot(False, False, 0, 2)
    assert snapshot(None, None) == Snapshot(True, True, 0, 0)
    assert snapshot({"name": "f", "arguments": {"a": 1, "b": ""}}, None) == Snapshot(False, False, 1, 0)


def _conversation(flags, function=True):
    return [Snapshot(function, bool(flag), 0, 0) for flag in flags]


def test_the_figures_of_conversations():
    found = metrics(
        [_conversation([1, 1, 1]), _conversation([1, 0, 1]), _conversation([1, 1, 1], False), _conversation([0, 1])]
    )
    assert found == {"Func": 0.75, "PHR": 0.0, "PMR": 0.0, "Args": 6 / 11, "PR": pytest.approx(1 / 3), "SR": 0.25}


def test_hallucinated_and_missing_count_where_the_function_is_right():
    wrong = [Snapshot(False, False, 3, 3)]
    found = metrics([[Snapshot(True, False, 2, 0), Snapshot(True, False, 0, 1)], [Snapshot(True, True, 0, 0)], wrong])
    assert (found["PHR"], found["PMR"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert math.isnan(metrics([wrong])["PHR"]) and math.isnan(metrics([])["Func"])


@pytest.mark.parametrize(
    ("reference", "said", "f"),
    [
        ("the quick brown fox", "quick brown fox", 0.857143),
        ("10 am tomorrow", "tomorrow 10 am", 0.666667),
        ("a a b", "a b", 1.0),  # each word once
        ("new york. 3 pm", "3 pm. new york", 1.0),  # full stops end sentences
        ("3.5 kg", "3 5 kg", 1.0),
        ("", "a", 0.0),
    ],
)
def test_likeness_of_texts(reference, said, f):
    assert rouge_l(reference, said) == pytest.approx(f, abs=1e-6)


def test_seven_tenths_are_not_quite_enough():
    """1e-8 in the package's denominator takes a likeness of exactly .7 below it."""
    words = [str(i) for i in range(10)]
    other = [*words[:7], "x", "y", "z"]
    assert not same_arguments({"a": " ".join(other)}, {"a": " ".join(words)})
    assert same_arguments({"a": " ".join(other[:9])}, {"a": " ".join(words)})
