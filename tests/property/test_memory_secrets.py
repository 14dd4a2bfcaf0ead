"""A text is masked in pieces: what is found is what one search over all of it finds, wherever the seams are."""

import re
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.memory import secrets
from evolvent.memory.secrets import MASK, mask_secrets

SECRETS = [
    "sk-" + "aB3" * 10,
    "ghp_" + "a1B2c3D4" * 5,
    "AKIA" + "ABCD1234" * 2,
    "xoxb-" + "123456-abc" * 3,
    "eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdo",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----\nMI",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "-----END PRIVATE KEY-----",
    'password="hunter2hunter2"',
    "password:\n   'correct-horse'",
    "api_key = a1b2c3d4e5",
    "PASSWORD=swordfish;",
    'passphrase = "violet anchor drum tulip seven"',
    "Authorization:  Basic dXNlcjpwYXNz12345",
    "Bearer \n a1b2c3d4e5f6",
    "postgresql://me:pass1234@host/db",
    "curl -s --compressed -u bob:hunter22 x",
    "docker  login reg.io -u a -p S3cr3t4x",
    "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnop",
    "AccountKey=" + "abc123DEF4" * 5 + "==",
    "--api-key abc123def",
    "Set-Cookie: session=abcdef0123456789;",
    "パスワード：S3cr3tP4ss!",
    '\\"token\\": \\"9f8e7d6c5b\\"',
    *("token", "key", "password = getpass()", "secret", "curl", "://", MASK),
]
REPEATED = st.sampled_from(["x", " ", "\n", "a.", "sk-", "-", '"', "aB3"])
FILLER = st.one_of(
    st.text(alphabet="ab1 \n\t\"'=:-._/@\\", max_size=80),
    st.tuples(REPEATED, st.integers(1, 150)).map(lambda two: two[0] * two[1]),
)
TEXT = st.lists(st.one_of(st.sampled_from(SECRETS), FILLER), max_size=12).map("".join)


def at_once(text):
    """The same without pieces."""
    begin, end = (pattern.pattern for pattern in secrets._BLOCK)
    if not secrets._HINT.search(text):
        return text
    text = re.sub(rf"{begin}.*?(?:{end}|\Z)", MASK, text, flags=re.DOTALL)
    for rule in secrets._RULES:
        text = rule.whole.sub(rule.masked, text)
    return text


@settings(max_examples=200, deadline=None)
@given(TEXT, st.integers(secrets._SHARED + 1, 400))
def test_no_seam_hides_a_secret_or_makes_one(text, piece):
    with patch.object(secrets, "_PIECE", piece):
        assert mask_secrets(text) == at_once(text)


@pytest.mark.parametrize("secret", SECRETS[:26])
def test_a_secret_at_any_place_of_a_seam(secret):
    before = "we wrote it down, token by token\n" * 4
    with patch.object(secrets, "_PIECE", 80):
        for start in range(0, 90, 2):
            text = f"{before[start:]}{secret}\nand went on with the key\n"
            assert mask_secrets(text) == at_once(text), start


class Watched:
    """A pattern that notes how much of a text one call may look at for a beginning, and how long what it finds is."""

    def __init__(self, pattern, seen):
        self._pattern, self.seen = pattern, seen

    def search(self, text, at, end):
        self.seen.append(end - at)
        return self._pattern.search(text, at, end)

    def match(self, text, at):
        found = self._pattern.match(text, at)
        self.seen.append(len(found[0]) if found else 0)
        return found


@pytest.mark.parametrize("words", ["a plain word ", "the token of\n", "curl -s x; ", "password = getpass()\n"])
def test_no_call_looks_at_more_than_a_piece(words):
    """One call keeps every other thread waiting, the event loop among them: a body of 1 MB had stopped it for .5 s."""
    text = words * (1_000_000 // len(words)) + SECRETS[0]
    seen = []

    def watched(pattern):
        return Watched(pattern, seen)

    rules = [secrets._Rule(watched(rule.head), watched(rule.whole), rule.masked) for rule in secrets._RULES]
    with patch.object(secrets, "_RULES", rules), patch.object(secrets, "_HINT", watched(secrets._HINT)):
        assert mask_secrets(text) == text[: -len(SECRETS[0])] + MASK
    assert len(seen) > 500 and max(seen) <= secrets._PIECE
