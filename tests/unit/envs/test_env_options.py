"""Options of an environment's spec: values with commas, and whole specs in brackets."""

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.envs import own


def make(variant: str = "", *, obs: float = 0.0, inner: str = "", n: int = 1):
    return variant, obs, inner, n


def given(options):
    return envs.Found(make, "make", options, None, "").given("here")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ("a,b/c", {"variant": "a,b/c"}),
        ("a,b,obs=.5", {"variant": "a,b", "obs": 0.5}),
        ("[spread:n=3],obs=.1", {"variant": "spread:n=3", "obs": 0.1}),
        ("[spread:n=3,limit=9]", {"variant": "spread:n=3,limit=9"}),
        (" [ spread:n=3 ] , obs = .1 ", {"variant": "spread:n=3", "obs": 0.1}),
        ("obs=.1,inner=[spread:n=3,limit=9],n=2", {"obs": 0.1, "inner": "spread:n=3,limit=9", "n": 2}),
        ("variant=[spread],n=2", {"variant": "spread", "n": 2}),
        ("[x:[spread:n=3,obs=.1],obs=.2],obs=.3", {"variant": "x:[spread:n=3,obs=.1],obs=.2", "obs": 0.3}),
        ("[x.py:make,n=2],inner=[y:[z],n=1]", {"variant": "x.py:make,n=2", "inner": "y:[z],n=1"}),
        ("data/a[1].csv,n=2", {"variant": "data/a[1].csv", "n": 2}),
        ("inner=a[1],n=2", {"inner": "a[1]", "n": 2}),
        ("[]", {"variant": ""}),
    ],
)
def test_what_is_given(options, expected):
    assert given(options) == expected


def test_a_nested_spec_is_taken_apart_as_often_as_it_is_nested():
    inner = given("[x:[spread:n=3],obs=.2],obs=.3")["variant"]
    assert inner == "x:[spread:n=3],obs=.2"
    assert given(inner.partition(":")[2]) == {"variant": "spread:n=3", "obs": 0.2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("[spread:n=3,obs=.1", r"brackets do not match(?s:.*)1 \[ and 0 \]"),
        ("[x:[spread:n=3],obs=.1", r"brackets do not match(?s:.*)2 \[ and 1 \](?s:.*)where: here"),
        ("inner=[spread,n=2", "brackets do not match"),
        ("spread:limit],obs=.1", r"brackets do not match(?s:.*)0 \[ and 1 \]"),
        ("inner=spread],obs=.1", "brackets do not match"),
        ("[spread:n=3]],obs=.1", r"text behind a closing bracket(?s:.*)\]"),
        ("[spread]x,obs=.1", "text behind a closing bracket"),
        ("[spread],[matrix]", "text behind a closing bracket"),
        ("obs=.1,inner=[spread],inner=[matrix]", "given twice"),
        ("n=[spread]", "wrong type"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        given(options)


def test_brackets_of_a_file_hold_another_file():
    at, _ = own.pointer("mine.py,inner=[other.py:make,n=1],n=2")
    assert (at.home, at.name, at.options) == ("mine.py", "", "inner=[other.py:make,n=1],n=2")
    at, _ = own.pointer("a,b/mine.py:make,[spread:n=3],n=2")
    assert (at.home, at.name, at.options) == ("a,b/mine.py", "make", "[spread:n=3],n=2")
    assert own.pointer("x:[mine.py:make,n=1],obs=.1") == (None, "")
