"""What is masked, what is left alone, and what is refused."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.memory.text import MASK, clean_text, content_hash, finite, mask_secrets

SECRETS = [
    "sk-" + "aB3" * 10,
    "sk-ant-api03-" + "x9Y" * 12,
    "ghp_" + "a1B2c3D4" * 5,
    "github_pat_" + "11ABC_" * 6,
    "AKIA" + "ABCD1234" * 2,
    "AIza" + "Sy_x-9" * 6,
    "xoxb-" + "123456-abc",
    "hf_" + "aBcD" * 8,
    "eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_masked_and_the_rest_is_kept(secret):
    assert mask_secrets(f"before {secret} after") == f"before {MASK} after"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("api_key=" + "q" * 20, "api_key=" + MASK),
        ('{"password": "' + "hunter2-hunter2" + '"}', '{"password": "' + MASK + '"}'),
        ("Authorization: Bearer " + "t" * 30, "Authorization: Bearer " + MASK),
        ("postgresql://me:pass1234@host/db", f"postgresql://me:{MASK}@host/db"),
    ],
)
def test_named_values(text, kept):
    assert mask_secrets(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM flights WHERE carrier='UA' AND password IS NULL AND token = 5",
        "the password is checked by the server; a secret: never tell",
        "see https://example.org/a:b@c and sk-short, commit 1b5cb5dabc0123456789abcdef0123456789abcd",
        "task-oriented ask-anything risk-adjusted-return-on-capital",
        "How many red-eye flights left Newark in May?",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert mask_secrets(text) == text


def test_text_and_number_checks():
    assert clean_text("  a b\n", what="x", where="t") == "  a b\n"
    assert clean_text("", what="x", where="t", empty=True) == ""
    for bad in (None, 3, b"a", "", "\t", "a\x00", "\udc80", "x" * 11):
        with pytest.raises(BadInput):
            clean_text(bad, what="x", where="t", limit=10)
    assert finite(True, what="x", where="t") == 1.0 and finite("0.5", what="x", where="t") == 0.5
    for bad in (None, "x", float("nan"), float("inf"), 2.0):
        with pytest.raises(BadInput):
            finite(bad, what="x", where="t", lo=0.0, hi=1.0)
    assert content_hash("a") != content_hash("b") and len(content_hash("é🚀")) == 32
