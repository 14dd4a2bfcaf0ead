"""What an error says: what was got is printed also where that is nothing."""

import pickle

import pytest

from evolvent.core.errors import BadInput, missing_extra


@pytest.mark.parametrize(("got", "message"), [(None, "None"), ("", "''"), (" \n", "' \\n'"), ([], "[]"), (0, "0")])
def test_what_was_got_is_reported_where_it_is_nothing(got, message):
    assert f"\n  got: {message}" in str(BadInput("not a name", got=got, expected="text"))


def test_what_was_not_said_is_not_reported():
    error = BadInput("not a name", expected="text")
    again = BadInput(error.what, got=error.got, expected=error.expected)
    assert str(error) == str(again) == "not a name\n  expected: text" and not error.got
    assert "got" not in str(BadInput(error.what, got=pickle.loads(pickle.dumps(error.got))))


def test_a_package_that_is_missing_has_a_code():
    assert missing_extra("psycopg", "postgres", "a memory").code == "missing_extra"


def test_what_cannot_be_reported_does_not_hide_what_was_wrong():
    class Silent:
        def __repr__(self):
            raise ZeroDivisionError

    nested: list = []
    for _ in range(5000):
        nested = [nested]
    for got, message in ((Silent(), "<Silent>"), (nested, "<list>")):
        assert f"got: {message}" in str(BadInput("not a name", got=got))
