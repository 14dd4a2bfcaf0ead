"""The credit page: every token stands there once under its number, and no text of a model is ever more than text."""

import json
import re
import shutil
import subprocess

import pytest
from test_report import Page

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.pages import credit_page
from evolvent.evaluate.pages.credit_book import read, shade
from evolvent.evaluate.pages.page import page
from evolvent.running import write_report
from sample_language_run import RULES, sample_credit, sample_language_run

EVIL = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\"'`&<img src=x onerror=alert(2)>",
    "\x00\x1b[2J\x7f\x85",
    "\ud800 half \udfff",
    "\u202e txt \u2066\u200f",
    "שלום עולם",
    "]]>",
    "&lt;b&gt;",
    "\u2028\u2029",
    "",
)


def book(tmp_path, content):
    path = tmp_path / "credit.json"
    write_atomic(path, json.dumps(content))
    return read(path)


def shown(html):
    """The tokens of a page as ``(class, title, text)``."""
    blocks = re.findall(r'<div class="tokens"[^>]*>(.*?)</div>', html, flags=re.DOTALL)
    return [
        found for block in blocks for found in re.findall(r'<i class="(\w+)" title="(.*?)">(.*?)</i>', block, re.DOTALL)
    ]


def numbers(html):
    (found,) = re.findall(r'id="credit-numbers">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(found)


# ------------------------------------------------------------------------------------------------ what it says
def test_every_token_stands_there_with_its_number_and_colour_under_the_rule_that_trained(tmp_path):
    content = sample_credit(turns=3)
    html = credit_page.render(book(tmp_path, content))
    turns = [node for row in content["episodes"] for node in row["nodes"] if node["kind"] == "action"]
    tokens = [
        (piece, v) for node in turns for piece, v in zip(node["tokens"], node["credit"]["token_bad"], strict=True)
    ]
    sizes = sorted(abs(v) for _, v in tokens if v)
    full = sizes[-(len(sizes) // 100) - 1]
    assert len(shown(html)) == len(tokens)
    for (kind, title, text), (piece, v) in zip(shown(html), tokens, strict=True):
        assert text == piece.replace("<", "&lt;").replace(">", "&gt;")
        assert kind[0] == ("x" if v is None else "z" if abs(v) < 0.005 * full else "p" if v > 0 else "n")
        assert title == ("–" if v is None else credit_page.signed(v)) and (v is None) == (title == "–")
    assert f"≥ +{full:.3g}" in html


def test_the_script_gets_the_credit_of_all_rules_and_nothing_but_numbers(tmp_path):
    content = sample_credit(episodes=2, turns=2)
    data = numbers(credit_page.render(book(tmp_path, content)))
    for row, given in zip(content["episodes"], data["attempts"], strict=True):
        turns = [node for node in row["nodes"] if node["kind"] == "action"]
        for r, rule in enumerate(RULES):
            want = [v for node in turns for v in node["credit"][rule["name"]]]
            assert [v is None for v in given["credit"][r]] == [v is None for v in want]
            scored = [v for v in given["credit"][r] if v is not None]
            assert scored == pytest.approx([v for v in want if v is not None], rel=1e-3, abs=1e-9)
        assert given["sizes"] == [len(node["tokens"]) for node in turns]
        assert (given["entropy"] is None) == (turns[0]["entropy"] is None)
    words = set(re.findall(r'"((?:[^"\\]|\\.)*)"', json.dumps(data)))
    assert all(
        re.fullmatch(r"[a-z]+|[pn][1-9]|(sum|turn) \S+", word.encode().decode("unicode_escape")) for word in words
    )


def test_a_turn_says_its_sum_or_the_number_that_all_its_tokens_share(tmp_path):
    content = sample_credit(episodes=1, turns=1)
    (node,) = [node for node in content["episodes"][0]["nodes"] if node["kind"] == "action"]
    total = sum(v for v in node["credit"]["token_bad"] if v is not None)
    data = numbers(credit_page.render(book(tmp_path, content)))
    said = [worth[0][1] for worth in data["attempts"][0]["worth"]]
    assert said[:2] == [f"sum {credit_page.signed(total)}", "turn +1.12"]


@pytest.mark.parametrize(("turns", "said"), [(1, "· 1 turn<"), (2, "· 2 turns<")])
def test_an_attempt_says_how_many_turns_it_took(tmp_path, turns, said):
    assert said in credit_page.render(book(tmp_path, sample_credit(episodes=1, turns=turns)))


def test_shades_are_symmetric_and_keep_nothing_apart_from_not_scored():
    assert [shade(v, 1.0) for v in (None, 0.0, 0.001, 1e-9)] == ["x", "z", "z", "z"]
    for v in (0.02, 0.1, 0.5, 0.99, 1.0, 7.0):
        assert shade(v, 1.0)[1:] == shade(-v, 1.0)[1:] and (shade(v, 1.0)[0], shade(-v, 1.0)[0]) == ("p", "n")
    assert [shade(v / 9, 1.0) for v in range(1, 10)] == [f"p{i}" for i in range(1, 10)]
    assert shade(0.0, 0.0) == "z" == shade(0.0, 1.0)


def test_the_picture_has_gaps_and_stays_inside():
    path = credit_page.track((0.5, None, -9.0, -0.25), 1.0)
    assert path.count("M") == 2 and path == "M0 50V27H250V50M500 50V96H750V61.5H1000V50"
    assert credit_page.track((None, None), 1.0) == "" and credit_page.track((0.0,), 0.0) == "M0 50V50H1000V50"


# ------------------------------------------------------------------------------------------------ safety
@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_text_of_models_is_text(tmp_path, evil):
    rules = [{**rule, "name": rule["name"] + evil, "summary": evil, "level": evil} for rule in RULES]
    content = sample_credit(words=[f"say{evil} {evil}now{evil}"], nasty=evil, rules=rules)
    folder = sample_language_run(tmp_path / "r", updates=2, nasty=evil, credit=False)
    write_atomic(folder / "credit.json", json.dumps(content))
    html = write_report(folder).read_bytes().decode("utf-8")
    read_back = Page(html)
    assert read_back.tags.count("script") == 2 == html.count("</script>") == html.count("<script")
    assert "img" not in read_back.tags and "<!--" not in html
    body = html[html.index("</style>") : html.rindex("<script>")]
    bad = [c for c in body if c not in "\n\t" and not c.isprintable()]
    assert not bad, f"control and direction characters reached the page: {bad[:3]!r}"
    assert not any(0xD800 <= ord(c) <= 0xDFFF for c in html)


def test_only_the_script_of_this_package_runs(tmp_path):
    html = write_report(sample_language_run(tmp_path / "r", updates=2)).read_text(encoding="utf-8")
    assert "script-src 'sha256-" in html and "unsafe-eval" not in html and "script-src 'unsafe" not in html
    code = html[html.rindex("<script>") + len("<script>") : html.rindex("</script>")]
    assert "innerHTML" not in code and "eval(" not in code and "http" not in code and "fetch" not in code
    assert "script-src" not in page("x", [])


def test_a_line_break_and_an_empty_token_can_be_seen(tmp_path):
    content = sample_credit(episodes=1, turns=1, words=["a\nb"])
    node = content["episodes"][0]["nodes"][1]
    node["tokens"][0] = ""
    html = credit_page.render(book(tmp_path, content))
    assert "∅" in html
    node["tokens"][0] = "\n"
    assert "↵</span>\n" in credit_page.render(book(tmp_path, content))


# ------------------------------------------------------------------------------------------------ size and errors
def test_a_large_file_makes_a_page_that_opens(tmp_path):
    quotes = ["\"'<>&" * 30 + " word" * 40] * 2
    content = sample_credit(episodes=12, turns=60, words=quotes, nasty="'\"" * 4000)
    folder = sample_language_run(tmp_path / "r", updates=3, credit=False)
    write_atomic(folder / "credit.json", json.dumps(content))
    path = write_report(folder)
    assert path.stat().st_size < 2_000_000
    words = Page(path.read_text(encoding="utf-8")).words
    assert "and 4 more attempts in credit.json" in words and "more turns in credit.json" in words


def test_many_tokens_are_cut_and_said(tmp_path):
    content = sample_credit(episodes=4, turns=2, words=[" ".join(["w"] * 5000)])
    found = book(tmp_path, content)
    assert [sum(len(turn.tokens) for turn in a.turns) for a in found.attempts] == [1600] * 4
    assert all(a.left_out == 1 and a.turns[0].left_out == 5001 - 1600 for a in found.attempts)
    for turn in (a.turns[0] for a in found.attempts):
        assert len(turn.logp) == len(turn.value) == len(turn.credit[0]) == 1600
    assert "… 3401 more tokens" in credit_page.render(found)


@pytest.mark.parametrize("harm", ["short", "no rules", "not a table"])
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path, harm):
    content = sample_credit(episodes=1)
    if harm == "short":
        content["episodes"][0]["nodes"][1]["credit"]["step_gae"].pop()
    elif harm == "no rules":
        del content["rules"]
    else:
        content["episodes"] = [3]
    with pytest.raises(BadInput, match="one number for every token" if harm == "short" else "lacks a part"):
        book(tmp_path, content)


def test_rules_without_numbers_and_attempts_without_tokens_have_a_page(tmp_path):
    content = sample_credit(episodes=2, turns=1)
    for row in content["episodes"]:
        row["nodes"][1]["credit"] = {}
        row["success"] = row["return"] = row["update"] = None
    empty = content["episodes"][1]["nodes"][1]
    empty.update(tokens=[], logp=[], value=None, entropy=None, text="spoken by a script")
    html = credit_page.render(book(tmp_path, content))
    Page(html)
    assert "spoken by a script" in html and {kind for kind, _, _ in shown(html)} == {"x"}
    assert credit_page.render(book(tmp_path, {"rules": RULES, "episodes": []})) == ""
    assert credit_page.render(book(tmp_path, {"rules": [], "episodes": content["episodes"]})) == ""


# ------------------------------------------------------------------------------------------------ in a browser
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")
def test_the_script_paints_what_the_server_would(tmp_path):
    """Switch to each rule in a browser: classes are those of ``shade`` and paths are those of ``track``."""
    path = write_report(sample_language_run(tmp_path / "r", updates=2, nasty="</script>"))
    found = read(tmp_path / "r" / "credit.json")
    for r in range(len(found.rules)):
        html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf-8"))
        click = f"<script>document.querySelectorAll('input[name=credit-rule]')[{r}].click();</script></body>"
        (tmp_path / "c.html").write_text(html.replace("</body>", click), encoding="utf-8")
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            (tmp_path / "c.html").as_uri(),
        ]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
        blocks = re.findall(r'<div class="tokens"[^>]*>(.*?)</div>', dom, flags=re.DOTALL)
        painted = [kind for block in blocks for kind in re.findall(r'<i class="(\w+)">', block)]
        rounded = numbers(html)["attempts"]
        want = [shade(v, found.full[r]) for attempt in rounded for v in attempt["credit"][r]]
        assert painted == want and len(want) > 100
        assert dom.count('class="track"') == len(found.attempts)
