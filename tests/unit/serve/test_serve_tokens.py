"""Tokens and handles: hashed, bound, told once, seen by a server that runs."""

import os
import stat

import pytest

from evolvent.core.errors import BadInput
from evolvent.serve.tokens import Token, Tokens, handle, receipt_of


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "a.db.tokens")


def test_a_token_is_kept_as_a_hash_in_a_file_of_its_owner(tokens):
    before = os.umask(0)
    try:
        text = tokens.new(Token("ci", ("team",), ("outcome",), ("tests",)))
    finally:
        os.umask(before)
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert text not in tokens.path.read_text() and text.split("_", 2)[2] not in tokens.path.read_text()
    assert tokens.of(text) == Token("ci", ("team",), ("outcome",), ("tests",))


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t[:-1] + "é", lambda t: t + "x", lambda t: "", str.upper]
)
def test_another_text_is_no_token(tokens, change):
    assert tokens.of(change(tokens.new(Token("a", ("s",))))) is None


def test_the_secret_of_one_token_does_not_open_another(tokens):
    first, second = tokens.new(Token("a", ("s",))), tokens.new(Token("b", ("t",)))
    assert tokens.of("_".join([*second.split("_", 2)[:2], first.split("_", 2)[2]])) is None


def test_what_another_process_changes_is_seen(tokens):
    other = Tokens(tokens.path)
    text = other.new(Token("a", ("s",)))
    assert tokens.of(text) == Token("a", ("s",)) and tokens.key == other.key
    other.revoke("a")
    assert tokens.of(text) is None


def test_tokens_that_others_can_read_are_refused(tokens):
    tokens.new(Token("a", ("s",)))
    tokens.path.chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        Tokens(tokens.path)


@pytest.mark.parametrize(
    "given", [{"may": ("write",)}, {"sources": ("god",)}, {"scopes": ()}, {"may": ()}, {"name": ""}]
)
def test_what_no_token_can_be(given):
    with pytest.raises(BadInput):
        Token(**{"name": "a", "scopes": ("s",), **given})


def test_names_are_taken_once(tokens):
    tokens.new(Token("a", ("s",)))
    with pytest.raises(BadInput, match="there is such a token"):
        tokens.new(Token("a", ("s",)))
    with pytest.raises(BadInput, match="no such token"):
        tokens.revoke("b")


def test_a_file_that_is_no_tokens(tmp_path):
    path = tmp_path / "t"
    path.write_text("{}")
    path.chmod(0o600)
    with pytest.raises(BadInput, match="these are no tokens"):
        Tokens(path)


def test_a_handle_holds_in_its_scope_alone(tokens):
    given = handle(tokens.key, "a", "r12")
    assert receipt_of(tokens.key, "a", given) == "r12"
    for scope, other in (("b", given), ("a", "r13." + given[4:]), ("a", "r12"), ("a", "r12."), ("a", "é.x")):
        with pytest.raises(BadInput, match="unknown receipt"):
            receipt_of(tokens.key, scope, other)
    with pytest.raises(BadInput):
        receipt_of(b"another key", "a", given)
