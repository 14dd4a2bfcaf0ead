"""What a schema's grammar accepts, judged by a small GBNF matcher; and choosing among what a grammar allows."""

import itertools
import json
import math
import re

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.models.served.constrain import Constraint, grammar_text
from evolvent.models.served.grammar import schema_grammar


class Gbnf:
    """Whether a text is of the language: every rule maps a start to the set of ends, so nothing is tried twice."""

    def __init__(self, text):
        self.rules = {}
        for line in text.splitlines():
            name, _, body = line.partition(" ::= ")
            self.rules[name] = self._alternatives(
                re.findall(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{\d+,\d*\}|[()|?*]|[\w-]+', body)
            )

    def accepts(self, text):
        self.text, self.ends = text, {}
        return len(text) in self._of("root", 0)

    def _alternatives(self, words):
        """``[[(what, least, most), …], …]``; the words that are read are taken away."""
        found = [[]]
        while words and words[0] != ")":
            word = words.pop(0)
            if word == "|":
                found.append([])
                continue
            what = word
            if word == "(":
                what = self._alternatives(words)
                assert words.pop(0) == ")"
            low, high = 1, 1
            if words and words[0] in ("?", "*"):
                low, high = (0, 1) if words.pop(0) == "?" else (0, math.inf)
            elif words and words[0][0] == "{":
                a, b = words.pop(0)[1:-1].split(",")
                low, high = int(a), int(b) if b else math.inf
            found[-1].append((what, low, high))
        return found

    def _of(self, what, at):
        key = (what if isinstance(what, str) else id(what), at)
        if key not in self.ends:
            self.ends[key] = set()  # a rule that asks for itself at the same place adds nothing
            self.ends[key] = self._find(what, at)
        return self.ends[key]

    def _find(self, what, at):
        if isinstance(what, str) and what[0] == '"':
            literal = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), what[1:-1])
            return {at + len(literal)} if self.text.startswith(literal, at) else set()
        if isinstance(what, str) and what[0] == "[":
            return {at + 1} if at < len(self.text) and re.fullmatch(what, self.text[at]) else set()
        options = self.rules[what] if isinstance(what, str) else what
        return set().union(*(self._sequence(option, at) for option in options))

    def _sequence(self, items, at):
        here = {at}
        for what, low, high in items:
            times, seen = [here], set(here) if low == 0 else set()
            for n in itertools.count(1):
                following = set().union(*(self._of(what, i) for i in times[-1])) if n <= high else set()
                if not following or (n > low and following <= seen):
                    break
                times.append(following)
                if n >= low:
                    seen |= following
            here = seen
        return here


PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"c']}, "minItems": 1, "maxItems": 2},
    },
}
LEFT = {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}
TREE = {
    "$ref": "#/$defs/t",
    "$defs": {"t": {"type": "object", "properties": {"v": {"type": "number"}, "l": LEFT}, "required": ["v", "l"]}},
}


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        (
            PERSON,
            [
                {"name": "Ada"},
                {"name": "é", "age": -12},
                {"name": "x", "tags": ["a", 'b"c']},
                {"name": "x", "age": 0, "tags": ["a"]},
            ],
            [
                {},
                {"age": 3},
                {"name": ""},
                {"name": "four"},
                {"name": "x", "tags": []},
                {"name": "x", "tags": ["c"]},
                {"name": "x", "tags": ["a"] * 3},
                {"name": "x", "age": 1.5},
                {"name": "x", "more": 1},
                {"name": 3},
                [],
                "x",
            ],
        ),
        (
            TREE,
            [{"v": 1, "l": None}, {"v": -2.5e3, "l": {"v": 0, "l": {"v": 1, "l": None}}}],
            [{"v": 1}, {"v": "1", "l": None}, {"v": 1, "l": 2}, {"l": None, "v": 1}],
        ),
        ({"type": ["integer", "boolean"]}, [1, -30, True, False], [1.5, "1", None, [1]]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [[1, 2], [1, 2, 3, 4]], [[], [1], [1, "a"]]),
        ({"type": "array", "maxItems": 0}, [[]], [[1]]),
        ({"type": "array", "maxItems": 2}, [[], [1], [{"a": None}, "b"]], [[1, 2, 3]]),
        (
            {"properties": {"a": {}, "b": {}}},
            [{}, {"a": 1}, {"b": [1]}, {"a": "x", "b": {}}],
            [{"c": 1}, {"b": 1, "a": 1}],
        ),
        (True, [None, 1, 'a\n\u2028"', [[]], {"x": {"y": [0.5]}}], []),
    ],
)
def test_a_grammar_says_what_its_schema_says(schema, fits, does_not):
    grammar = Gbnf(schema_grammar(schema))
    for separators in ((", ", ": "), (",", ":")):
        for value in fits:
            assert grammar.accepts(json.dumps(value, separators=separators)), value
            assert grammar.accepts(json.dumps(value, separators=separators, ensure_ascii=False)), value
        for value in does_not:
            assert not grammar.accepts(json.dumps(value, separators=separators)), value
    assert not grammar.accepts("") and not grammar.accepts('{"name": "x"')


def test_a_constant_is_written_as_json_writes_it():
    grammar = Gbnf(schema_grammar({"const": {"a": [1, "é"]}}))
    assert grammar.accepts('{"a": [1, "é"]}')
    assert not grammar.accepts('{"a": [1]}') and not grammar.accepts('{"a": [1, "e"]}')


def test_texts_that_are_no_json_are_never_accepted():
    grammar = Gbnf(schema_grammar({}))
    for text in ('"a\nb"', '"\\x"', "01", "1.", "[1,]", '{"a" 1}', "nul", "{,}", '"open', "1 2"):
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)
        assert not grammar.accepts(text), text


def test_one_constraint_at_a_time():
    assert grammar_text(None, None) == "" and grammar_text('root ::= "a"', None) == 'root ::= "a"'
    assert grammar_text(None, {"const": 1}).startswith("root ::= ")
    with pytest.raises(BadInput, match="two constraints"):
        grammar_text('root ::= "a"', {"const": 1})


# ------------------------------------------------------------------------------------------------ choosing
class Parser:
    """Stands for llama.cpp's grammar sampler: certain tokens are allowed, whatever came before."""

    NULL = None

    def __init__(self, allowed):
        self.allowed, self.accepted, self.looked_at, self.freed = set(allowed), [], 0, 0

    # what ``cffi`` would give
    def new(self, kind):
        return type("Array", (), {})()

    def cast(self, kind, address):
        return address

    # what the library would do
    def llama_sampler_init_grammar(self, vocab, text, root):
        return self if text != b"bad" else self.NULL

    def llama_sampler_accept(self, sampler, token):
        self.accepted.append(token)

    def llama_sampler_free(self, sampler):
        self.freed += 1

    def llama_sampler_apply(self, sampler, array):
        import ctypes

        class Entry(ctypes.Structure):
            _fields_ = (("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float))

        self.looked_at += array.size
        for entry in (Entry * array.size).from_address(array.data):
            if entry.id not in self.allowed:
                entry.logit = -math.inf


def constrained(allowed):
    parser = Parser(allowed)
    return Constraint(parser, parser, None, "root"), parser


def test_the_likeliest_allowed_token_is_taken_and_given_to_the_parser():
    logits = np.linspace(5.0, -5.0, 500).astype(np.float32)  # token 0 is the likeliest
    for allowed, best in (({0, 3}, 0), ({7, 60, 400}, 7), ({300, 420}, 300)):
        constraint, parser = constrained(allowed)
        assert constraint.choose(logits.copy(), 0.0, 1.0, None) == best
        assert parser.accepted == [best]
        constraint.close()
        assert parser.freed == 1
    constraint, parser = constrained({0})
    constraint.choose(logits.copy(), 0.0, 1.0, None)
    assert parser.looked_at == 1, "what is allowed anyway costs one look"


def test_draws_follow_the_model_among_what_is_allowed():
    logits, rng = np.array([2.0, 1.0, 0.5, 0.0, -1.0], np.float32), np.random.default_rng(0)
    constraint, _ = constrained({1, 2, 4})
    drawn = np.bincount([constraint.choose(logits.copy(), 0.7, 1.0, rng) for _ in range(6000)], minlength=5) / 6000
    wanted = np.where(np.isin(np.arange(5), (1, 2, 4)), np.exp(logits / 0.7), 0.0)
    assert drawn == pytest.approx(wanted / wanted.sum(), abs=0.03)
    assert drawn[0] == drawn[3] == 0.0


def test_the_nucleus_holds_unless_the_grammar_allows_nothing_in_it():
    logits, rng = np.array([3.0, 2.9, -1.0, -1.2], np.float32), np.random.default_rng(1)
    inside, _ = constrained({1, 2})
    assert {inside.choose(logits.copy(), 1.0, 0.9, rng) for _ in range(300)} == {1}
    outside, _ = constrained({2, 3})
    assert {outside.choose(logits.copy(), 1.0, 0.9, rng) for _ in range(300)} == {2, 3}


def test_a_grammar_that_does_not_parse_is_refused():
    parser = Parser({0})
    with pytest.raises(BadInput, match="cannot be parsed"):
        Constraint(parser, parser, None, "bad")
