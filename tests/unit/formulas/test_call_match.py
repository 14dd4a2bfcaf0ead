"""Calls against gold: exactly, as BFCL judges (golden verdicts of bfcl-eval 2026.3.23), and read from text."""

import pytest

from evolvent.formulas.call_match import Match, first_accepted, match, match_accepted
from evolvent.formulas.call_text import read_calls


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def tool(name, required=(), **types):
    properties = {key: one if isinstance(one, dict) else {"type": one} for key, one in types.items()}
    return {"name": name, "parameters": {"type": "dict", "properties": properties, "required": list(required)}}


AREA = tool("area", ["height"], base="integer", height="integer", unit="string")
AREA_GOLD = [{"area": {"base": [10], "height": [5], "unit": ["units", ""]}}]


@pytest.mark.parametrize(
    ("calls", "kinds"),
    [
        ([call("area", base=10, height=5)], []),
        ([call("area", base=10, height=5, unit="Units.")], []),
        ([call("Area", base=10, height=5)], ["name"]),
        ([call("area", base=10)], ["missing"]),
        ([call("area", base=10, height=5, x=1)], ["unexpected"]),
        ([call("area", base=10.0, height=5)], ["type"]),
        ([call("area", base="10", height=5)], ["type"]),
        ([call("area", base=True, height=5)], ["type"]),
        ([call("area", base=11, height=5)], ["value"]),
        ([call("area", base=10, height=5)] * 2, ["unexpected"]),
        ([], ["missing"]),
    ],
)
def test_the_ten_golden_verdicts(calls, kinds):
    found = match_accepted(calls, AREA_GOLD, [AREA])
    assert [one.kind for one in found.differs] == kinds
    assert found.right == (not kinds)


def _array(inner):
    return {"type": "array", "items": {"type": inner}}


VALUES = [  # type, accepted, value, the official verdict
    ("float", [2.0], 2, True),
    ("float", [2], 2, True),
    ("integer", [2], 2.0, False),
    ("string", ["April 1, 2024"], "april 1 2024", True),
    ("string", ["it's"], 'it"s', True),
    ("string", ["São"], "Sao", False),
    ("string", ["Ä"], "ä", True),
    ("string", [""], "-", True),
    ("string", [None, "a"], None, True),
    ("string", [5], "5", False),
    ("string", ["x", 5], 5, False),
    ("integer", ["n + 1"], "n + 1", True),
    ("integer", ["n + 1"], "N + 1", False),
    ("boolean", [True], 1, False),
    ("any", [5], 5, True),
    ({"type": "tuple", "items": {"type": "integer"}}, [[1, 2]], (1, 2), True),
    (_array("string"), [["A b"]], ["ab"], True),
    (_array("string"), [["a", "b"]], ["b", "a"], False),
    (_array("string"), [["a"], ""], [], True),
    (_array("integer"), [[1]], (1,), False),
    (_array("float"), [[1.5, 2.0]], [1.5, 2], False),
    (_array("float"), [[1, 2]], [1, 2], True),
    (_array("array"), [[["A"]]], [["a"]], False),
    ("dict", [{"k": ["A", "b"]}], {"k": "a"}, True),
    ("dict", [{"k": ["a", ""]}], {}, True),
    ("dict", [{"k": ["a"]}], {}, False),
    ("dict", [{"k": ["a"]}], {"k": "a", "l": 1}, False),
    ("dict", [{"k": [["A"]]}], {"k": ["a"]}, False),
    ("dict", [{"k": [{"l": 1}]}], {"k": {"l": 1}}, True),
    ("dict", [{"k": ["a"]}, {"k": ["b"]}], {"k": "b"}, True),
    (_array("dict"), [[{"k": ["a"]}, {"k": ["b"]}]], [{"k": "A"}, {"k": "b"}], True),
    (_array("dict"), [[{"k": ["a"]}, {"k": ["b"]}]], [{"k": "b"}, {"k": "a"}], False),
    (_array("dict"), [[{"k": ["a"]}]], [{"k": "a"}, {"k": "a"}], False),
]


@pytest.mark.parametrize(("kind", "accepted", "value", "right"), VALUES)
def test_values_are_judged_as_officially(kind, accepted, value, right):
    assert match_accepted([call("f", p=value)], [{"f": {"p": accepted}}], [tool("f", p=kind)]).right is right


def test_json_schema_types_are_known_too():
    tools = [tool("f", n="number", o="object")]
    assert match_accepted([call("f", n=1, o={"a": 2})], [{"f": {"n": [1.0], "o": [{"a": [2]}]}}], tools).right


def test_several_calls_match_in_any_order_but_greedily():
    tools, gold = [tool("f", p="string"), tool("g", p="string")], [{"f": {"p": ["a", "b"]}}, {"f": {"p": ["a"]}}]
    assert match_accepted([call("f", p="a"), call("f", p="b")], gold, tools).right is False  # officially, too
    assert match_accepted([call("f", p="b"), call("f", p="a")], gold, tools).right
    assert match([call("g", p=1), call("f", p=2)], [call("f", p=2), call("g", p=1)]).right


def test_names_and_arguments_apart():
    found = match([call("g", p=1)], [call("f", p=1)])
    assert found == Match(False, True, False, found.differs)
    assert [(one.kind, one.got, one.expected) for one in found.differs] == [("name", "g", "f")]
    swapped = match([call("f", p=2), call("g", p=1)], [call("f", p=1), call("g", p=2)])
    assert (swapped.name_right, swapped.arguments_right, swapped.right) == (True, True, False)


def test_refusal_is_right_where_gold_is_one():
    assert match([], []) == Match(True, True, True)
    assert match_accepted([call("f")], [], [tool("f")]).right is False
    assert match([], [call("f")]).differs[0].kind == "missing"


@pytest.mark.parametrize(
    ("given", "gold", "right"),
    [
        (2, 2.0, True),
        (1, True, False),
        ("a", "A", False),
        ([1, (2,)], (1, [2]), True),
        ({"a": [1]}, {"a": [1.0]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        (None, "", False),
    ],
)
def test_exact_values(given, gold, right):
    assert match([call("f", p=given)], [call("f", p=gold)]).right is right


def test_the_first_accepted_values_are_right():
    tools = [tool("f", ["q"], p="string", q="string", d="dict", l=_array("dict"))]
    d = {"a": ["x", "y"], "b": [1, ""]}
    gold = [{"f": {"p": ["", "a"], "q": ["", "r"], "d": [d], "l": [[d, d]]}}]
    calls = first_accepted(gold, tools)
    assert calls == [call("f", q="r", d={"a": "x"}, l=[{"a": "x"}, {"a": "x"}])]
    assert match_accepted(calls, gold, tools).right


F, G = call("f", a=1), call("m.g", x=[1, "b"])


@pytest.mark.parametrize(
    ("text", "form", "calls"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', "json", [F]),
        ('Sure: {"name": "f", "parameters": {"a": 1}} as asked', "json", [F]),
        ('```json\n[{"name": "f", "arguments": {"a": 1}}]\n```', "json", [F]),
        (' [{"name": "f", "arguments": {"a": 1}}]\n```json\n[]\n```json', "json", [F]),
        ('[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}', "json", [F, F]),
        (' [{"name": "f", "arguments": {"a": 1}', "json", [F]),
        ('[{"name": "f", "arguments": {"a": 1}}, {"name": "m.g"', "broken", []),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', "json", [F]),
        ('{"name": "f", "arguments": {"a": 1}}\n{"arguments": {"x": [1, "b"]}, "name": "m.g"}', "json", [F, G]),
        ('{"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}', "json", [F]),
        ('[f(a=1), m.g(x=[1, "b"])]', "python", [F, G]),
        ("`f(a=2 - 1)`", "python", [F]),
        ("[f(a=1)", "python", [F]),
        ("f (a=1)]", "python", [F]),
        ("Sorry (no such function).", "none", []),
        ("```python\nf(a=1)\n```", "python", [F]),
        ("<think>g()</think>f(7, a=1)", "python", [F]),
        ("f(a=(1, x), b=-2, c={'k': None})", "python", [call("f", a=(1, "x"), b=-2, c={"k": None})]),
        ("[]", "none", []),
        ('[] Requests: {"name": "f", "arguments": {}}', "none", []),
        ("```json\n[]\n```", "none", []),
        ("Sorry, nothing fits.", "none", []),
        ("", "none", []),
        ('{"a": 1}', "none", []),
        ('[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "argu', "broken", []),
        ("[f(a=1), g(", "broken", []),
        ('{"name": "f", "arguments": 3}', "broken", []),
        ("f(a=__import__('os').system('x') + 1)", "broken", []),
        ("f(a=9**9**9)", "broken", []),
        ("f(a=b'x')", "broken", []),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', "broken", []),
        ("f(" * 4000, "broken", []),
        ('[{"name": "f", "arguments": ' + "[" * 100000, "broken", []),
    ],
)
def test_calls_are_read(text, form, calls):
    found = read_calls(text)
    assert (found.form, list(found.calls)) == (form, calls)
