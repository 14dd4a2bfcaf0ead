"""Memory on nested calls: which rows of NESTFUL are usable, and what is made of them."""

import functions_memory as bench
import pytest

SPEC = {
    "name": "calculate_tip",
    "description": "A tip.",
    "query_parameters": {"bill": {"type": "number", "required": True}, "note": {"type": "string"}},
    "output_parameters": {"amount": {}, "share": {}},
}
TOOLS = {name: {**bench.tool(SPEC), "name": name} for name in ("calculate_tip", "convert")}


def calls(*arguments):
    names = ("calculate_tip", "convert")
    pairs = enumerate(zip(names, arguments, strict=True), 1)
    return [{"name": name, "arguments": said, "label": f"var{i}"} for i, (name, said) in pairs]


def test_a_function_says_what_it_returns_and_what_it_needs():
    made = bench.tool(SPEC)
    assert made["description"] == "A tip. Returns: amount, share."
    assert made["parameters"]["required"] == ["bill"] and "required" not in made["parameters"]["properties"]["bill"]


@pytest.mark.parametrize(
    ("arguments", "usable"),
    [
        (({"bill": 3}, {"bill": "$var1.amount$"}), True),
        (({"bill": 3}, {"bill": 4}), False),  # nothing refers to anything
        (({"bill": "three"}, {"bill": "$var1.amount$"}), False),
        (({}, {"bill": "$var1.amount$"}), False),
        (({"bill": 3, "by": 1}, {"bill": "$var1.amount$"}), False),
    ],
)
def test_gold_fits_its_schemas_and_refers_to_a_result(arguments, usable):
    assert bench.usable(calls(*arguments), TOOLS) is usable
    unlabelled = [{**one, "label": "x"} for one in calls(*arguments)]
    assert not bench.usable(unlabelled, TOOLS)
    assert not bench.usable(calls(*arguments), {"convert": TOOLS["convert"]})
