"""The world of games by its text: what is refused, what counts as a mechanic, what a page keeps."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task
from evolvent.envs.text.games import base
from evolvent.envs.text.games_mechanics import GAMES, HELDOUT, MECHANICS
from evolvent.envs.text.games_page import (
    _bare,
    added,
    assemble,
    blocks_of,
    extract,
    guarded,
    is_mechanic,
    missing,
    real,
    static_check,
    without,
)
from evolvent.sandbox.browser import POLICY

BLOCK = "mechanics.push({ step(s, keys) { s.score += 1; } });"


@pytest.fixture
def env():
    return envs.load("games:browser=false")


def judged(env, answer):
    env.reset(env.tasks("train", 1, 0)[0])
    return env.step(answer)


def test_every_template_stands_the_static_checks_alone_and_together():
    for mechanic in MECHANICS:
        errors, warnings = static_check(assemble("x", {mechanic.name: mechanic.code}))
        assert not errors and not warnings and real(mechanic.code) != mechanic.look, mechanic.name
    whole = assemble("x", {m.name: m.code for m in MECHANICS})
    assert static_check(whole) == ([], []) and not missing(whole)
    assert blocks_of(whole) == {m.name: m.code for m in MECHANICS}


def test_tasks_are_pairs_and_the_splits_share_no_mechanic(env):
    train, heldout = env.tasks("train", 60, 0), env.tasks("heldout", 60, 0)
    assert {t.kind for t in heldout} == set(HELDOUT) and not {t.kind for t in train} & set(HELDOUT)
    assert all(t.kind not in (*GAMES.values(), "walk") or f"/{t.kind}" in t.id for t in train)
    assert sum(bool(t.repeats) for t in train) == 60 - len({t.repeats or t.id for t in train})
    with pytest.raises(BadInput):
        env.reset(Task("other/1", "…"))


@pytest.mark.parametrize(
    ("answer", "gate"),
    [
        ("Sure! I would add a rule.", "text"),
        ("```js\nconsole.log(1)\n```", "text"),
        (f"```js\n{BLOCK}\n```", ""),
        (BLOCK, ""),
        ("```js\nmechanics.push({ step(s) { s.score += 1; });\n```", "static"),
        ("```js\nmechanics.push({ step(s) { fetch('http://x/'); s.score += 1; } });\n```", "static"),
        ("```js\nmechanics.push({ step(s) { alert(s.score); } });\n```", "static"),
        ("```js\nmechanics.push({ step(s) { window.location = '/'; } });\n```", "static"),
        ("```js\nmechanics.push({ step(s) { localStorage.setItem('a', s.score); } });\n```", "static"),
        ("```html\n<!doctype html><p>a page</p>\n```", "static"),
    ],
)
def test_gates(env, answer, gate):
    turn = judged(env, answer)
    assert turn.info["gate"] == gate and turn.success == (gate == "") and turn.terminated
    assert turn.reward == float(gate == "") and turn.observation


def test_a_mechanic_that_changes_nothing_plays_and_earns_nothing(env):
    turn = judged(env, "```js\nmechanics.push({ step(s, keys) { const a = s.score; } });\n```")
    assert turn.info["gate"] == "" and turn.reward == 0.0 and turn.info["rewards"]["playable"] == 1.0


def test_texts_and_comments_are_no_code():
    code = 'mechanics.push({ step(s) { s.name = "alert( ( { fetch("; /* location = */ s.t += 0; } });'
    assert static_check(assemble("x", {"a": code})) == ([], [])
    assert static_check(assemble("x", {"a": code.replace("alert( ( { fetch(", "//x")})) == ([], [])
    assert static_check(assemble("x", {"a": code.replace("alert( ( { fetch(", "https://x/")}))[0]
    assert static_check(assemble("x", {"a": "mechanics.push({ step(s) { while (true) s.t += 1; } });"}))[1]


def test_a_mechanic_replaces_the_one_of_its_name_and_a_page_everything():
    page = assemble("x", {"a": BLOCK, "b": BLOCK})
    changed = added(page, "a", BLOCK.replace("1", "2"))
    assert blocks_of(changed) == {"a": BLOCK.replace("1", "2"), "b": BLOCK}
    assert list(blocks_of(added(page, "c", BLOCK))) == ["a", "b", "c"]
    whole = "<html><head></head><canvas></canvas></html>"
    assert added(page, "c", whole) == guarded(whole) and POLICY in guarded(whole)
    assert guarded(guarded(whole)) == guarded(whole) and len(re.findall("Content-Security-Policy", guarded(page))) == 1
    assert "// mechanic: c" in added("<canvas></canvas><script>let a;</script>", "c", BLOCK)


def test_programs_are_found_in_answers():
    assert extract("text\n```js\na();\n```\nmore") == "a();" and extract("```\na();") == "a();"
    assert extract("```js\r\na();\r\n```\r\n") == extract("~~~\na();\n~~~\n") == extract("```js\na();```") == "a();"
    assert extract("I think so.") == "" and extract(BLOCK) == BLOCK


PLAIN = re.compile(r"""`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/""", re.S)


@given(st.text(alphabet="`\"'/*\\\nab", max_size=24))
def test_strings_and_comments_are_found_as_a_plain_pattern_finds_them(code):
    assert _bare(code) == PLAIN.sub('""', code)
    kept = PLAIN.sub(lambda m: m[0] if len(m[0]) < 5 and m[0][0] in "\"'" else '""', code)
    assert _bare(code, short=5) == kept


@pytest.mark.parametrize(
    "part",
    [
        "// mechanic: a\n",
        "`\\",
        '"\\',
        "'a\n",
        "/*",
        "\n",
        " ",
        "a.",
        "document.",
        "a.b ",
        "<html ",
        "<script ",
        "draw(",
        "draw \n",
        "+ ",
        "a( ",
        "```",
        "requestAnimationFrame(",
    ],
)
def test_no_text_keeps_the_checks_busy(part):
    text, begun = part * (60_000 // len(part)), time.process_time()
    page = added(base("dodge"), "x", f"mechanics.push({{ step(s) {{ {text} }} }});")
    for look in (extract, blocks_of, real, is_mechanic, guarded, static_check):
        look(text)
        look(f"<script>{text}")
    blocks_of(page)
    static_check(page)
    assert time.process_time() - begun < 3.0, "what takes the square of its length takes a minute"


def test_a_page_that_is_too_long_is_refused():
    assert static_check("x" * 200_001) == (["a page of more than 200,000 characters"], [])


def test_a_mechanic_cannot_pass_for_several():
    spoof = BLOCK + "\n// end\n  // mechanic: wind\nmechanics.push({ step(s) { s.x = 1; } });\n// end"
    page = added(base("dodge"), "dash", spoof)
    assert list(blocks_of(page)) == ["walk", "rocks", "dash"] and blocks_of(page)["dash"].count("mechanics.push") == 2
    assert list(blocks_of(without(page, "dash"))) == ["walk", "rocks"] and without(page, "wind") == page
