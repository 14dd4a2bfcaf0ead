"""Blocks: a page is the same after ``page.json``, and whatever stands there is data: it neither runs nor breaks."""
# pyright: reportOptionalMemberAccess=false

import dataclasses
import io
import json
import os
import re
import shlex
import tempfile
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_report import Page as Read

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate import blocks
from evolvent.evaluate.blocks import (
    Comparison,
    Credit,
    Curve,
    Frame,
    Headline,
    Hint,
    Line,
    Node,
    Number,
    Page,
    Pictures,
    Section,
    Tiles,
    Tree,
    Unreadable,
)
from evolvent.evaluate.blocks import Text as Words
from evolvent.evaluate.compare import compare, load
from evolvent.evaluate.index import runs
from evolvent.evaluate.pages import credit_page, png
from evolvent.evaluate.pages.compare_page import write_html
from evolvent.evaluate.pages.index_page import render
from evolvent.evaluate.pages.report import report
from evolvent.evaluate.verdict import of_run
from evolvent.running import page_of, write_report
from sample_language_run import sample_credit, sample_language_run
from sample_run import sample_run
from sample_search_run import sample_search_run
from sample_team_run import sample_team_run

CODE = Path(credit_page.__file__).with_name("credit.js").read_text("utf-8")
TYPES = [one for one in get_args(blocks.Block) if one is not Unreadable]
MANIFEST = {"algo": "hers", "env": "e", "command": "evolvent run hers"}
EVIL = (
    "<script>alert(1)</script>",
    "</pre></style></script><script>alert(2)</script><img src=x onerror=alert(3)>",
    "\"'><svg onload=alert(4)>",
    "]]><!-- <iframe srcdoc='<script>alert(5)</script>'>",
    "javascript:alert(6)",
    "\x00\x1b[2J\x7f\x85\u202e\ud800 half \udfff",
)


@pytest.fixture
def place(tmp_path):
    """A run that has ended, of a kind that nobody here describes: its page is what stands in ``page.json``."""
    return ended(tmp_path / "runs" / "r")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """The same, for all examples of a test."""
    return ended(tmp_path_factory.mktemp("lasting") / "runs" / "r")


def ended(path):
    with RunFolder.create(
        path, algo="hers", config={}, env="e", seed=0, command="evolvent run hers", kind="hers"
    ) as run:
        run.log(1, x=0.5)
        run.write_summary({"score": {"name": "score", "value": 0.5}})
    return path


def put(place, *found, **page):
    """Write ``page.json`` by hand: its blocks, and other fields of the page."""
    content = {"schema": blocks.SCHEMA, "kind": "hers", "score": {"name": "score", "value": 0.5}, **page}
    (place / blocks.FILE).write_text(json.dumps({**content, "blocks": found}), "utf-8")


def written(place, text):
    (place / blocks.FILE).write_text(text, "utf-8")


def shown(place):
    """The report as HTML, and nothing in it that runs, loads or leads out."""
    html = write_report(place).read_text("utf-8")
    harmless(html)
    return html


def harmless(html):
    page = Read(html)
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == page.tags.count("script") == html.count("<script"), "no other way to write one"
    code = [text for kind, text in scripts if kind != ' type="application/json" id="credit-numbers"']
    assert code in ([], [CODE]), "the script of this package alone"
    assert set(page.tags).isdisjoint({"object", "embed", "base", "link", "form", "math", "audio", "video"})
    assert html.count("<meta") == 3 and "default-src 'none'" in html
    assert all(link.startswith("data:image/") for link in page.links)
    for way in page.ways:
        assert way in ("../", "../runs.html", "../compare.html") or not re.search(r"^[a-z+.-]*:|^/|\.\.", way, re.I), (
            way
        )
    assert re.findall(r"<iframe[^>]*>", html) == re.findall(r'<iframe[^>]* sandbox="allow-scripts">', html)
    targets = re.findall(r'(?:target|iframe name)="([^"]*)"', html)
    assert not [name for name in targets if name.startswith("_")], "a frame of its own, not the window"


# ------------------------------------------------------------------------------------------------ there and back
NUMBERS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=8).filter(lambda text: "://" not in text)  # passwords of addresses are hidden


@st.composite
def lines(draw):
    """A line: its numbers are of one length, or not known."""
    n = draw(st.integers(0, 3))
    hints = get_type_hints(Line)
    columns = {name: draw(st.tuples(*[of(get_args(hints[name])[0])] * n)) for name in ("x", "y", "lo", "hi", "n")}
    columns |= {name: () for name in ("lo", "hi", "n") if draw(st.booleans())}
    others = {name: draw(of(hint)) for name, hint in hints.items() if name not in ("x", "y", "lo", "hi", "n")}
    return Line(**columns, **others)


OF = {
    Any: st.builds(Words, st.lists(TEXTS, max_size=2).map(tuple)),
    str: TEXTS,
    float: NUMBERS,
    Line: lines(),
    tuple[str, int, int]: st.tuples(TEXTS, st.integers(0, 1), st.integers(0, 1)),
    tuple[str, int, str]: st.tuples(TEXTS, st.integers(0, 1), TEXTS),
}


def made(cls):
    """Any value of a dataclass, with every field set."""
    fields = {field.name: of(get_type_hints(cls)[field.name]) for field in dataclasses.fields(cls)}
    return st.builds(cls, **fields)


def of(hint):
    origin, args = get_origin(hint), get_args(hint)
    if hint in OF:
        return OF[hint]
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(of(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of, args))
    if origin is dict:
        return st.dictionaries(TEXTS | st.just("$float"), of(args[1]), max_size=2)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(of, args))
    return made(hint) if dataclasses.is_dataclass(hint) else st.from_type(hint)


def there_and_back(page):
    with tempfile.TemporaryDirectory() as folder:
        blocks.write(Path(folder), page)
        return blocks.read(Path(folder))


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_block_is_the_same_after_the_file(cls, data):
    page = Page("k", (data.draw(made(cls)), Section("inside", (data.draw(made(cls)),), folded=True)))
    assert there_and_back(page) == page


@settings(max_examples=50, deadline=None)
@given(
    page=st.builds(
        Page,
        st.text(),
        st.just(()),
        st.none() | made(Number).filter(lambda one: one.value is None or abs(one.value) < 1e300),
        of(tuple[str, ...]),
        st.none() | st.integers(0, 2**53),
        st.text(),
        made(Hint),
        st.text(),
    )
)
def test_every_field_of_a_page_is_the_same_after_the_file(page):
    assert there_and_back(page) == page


def test_numbers_that_are_none_and_half_characters_travel():
    nan, inf = float("nan"), float("inf")
    page = Page(
        "\ud800 half", (Headline((Number("a", nan, (-inf, inf)),)), Tiles({"$float": inf, "$": nan, "b": True}))
    )
    back = there_and_back(page)
    assert repr(back) == repr(page), "NaN is not equal to itself"


def test_numbers_of_numpy_are_numbers():
    x, y = np.arange(3), np.array([0.25, 0.5, 1.0])
    page = Page(
        "", (Curve("c", (Line("l", x, y, tuple(y), [None, *y[1:]]),), "x", "y"),), Number("s", y[0]), steps=x[2]
    )
    line = Line("l", (0.0, 1.0, 2.0), (0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (None, 0.5, 1.0))
    assert there_and_back(page) == Page("", (Curve("c", (line,), "x", "y"),), Number("s", 0.25), steps=2)


MADE = (sample_run, sample_language_run, sample_team_run, sample_search_run)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_the_page_of_a_run_is_the_same_after_the_file(make, tmp_path):
    path = make(tmp_path / "r")
    page = page_of(RunFolder.open(path))
    html = write_report(path).read_text("utf-8")
    assert blocks.read(path) == page == page_of(RunFolder.open(path))
    assert report(RunFolder.open(path), blocks.read(path)) == html, "drawn from the file it is the same page"


def test_blocks_are_found_inside_sections():
    one, two = Words(("one",)), Words(("two",))
    page = Page("", (Section("a", (Section("b", (one,)), Tiles({}))), two))
    assert page.of(Words) == [one, two] and len(page.of(Section)) == 2 and page.of(Curve) == []


# ------------------------------------------------------------------------------------------------ torn, old, unknown
TORN = {
    "empty": b"",
    "torn": b'{"schema": 1, "kind": "memory", "blo',
    "not JSON": b"<html>",
    "not UTF-8": b'{"schema": 1, "kind": "\xff\xfe"}',
    "a list": b"[]",
    "a number": b"1",
    "no schema": b'{"kind": "memory", "blocks": []}',
    "of another schema": b'{"schema": 2, "kind": "memory", "blocks": []}',
    "a page of before": b'{"schema": 0, "kind": "memory", "blocks": []}',
    "a damaged score": b'{"schema": 1, "kind": "memory", "blocks": [], "score": 3}',
    "no kind": b'{"schema": 1, "blocks": []}',
    "a field more": b'{"schema": 1, "kind": "memory", "blocks": [], "colour": "red"}',
    "deep": b'{"schema": 1, "kind": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "not so deep": b'{"schema": 1, "blocks": [], "kind": ' + b"[" * 800 + b"]" * 800 + b"}",
    "a number too large": b'{"schema": 1, "kind": "", "blocks": [], "score": {"name": "", "value": 1'
    + b"0" * 400
    + b"}}",
    "a number of too many digits": b'{"schema": 1, "kind": "", "blocks": [], "steps": 1' + b"0" * 9000 + b"}",
    "a number that is none": b'{"schema": 1, "kind": "", "blocks": [], "score": {"name": "", "n": {"$float": "x"}}}',
    "a number that is a list": b'{"schema": 1, "kind": "", "blocks": [], "score": {"name": "", "n": {"$float": []}}}',
}


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A run whose kind is known, with its page."""
    path = sample_run(tmp_path_factory.mktemp("known") / "r", tasks=4)
    write_report(path)
    return path


@pytest.mark.parametrize("content", TORN.values(), ids=TORN)
def test_a_page_that_cannot_be_read_is_made_again(known, content):
    good = (known / blocks.FILE).read_bytes()
    page = blocks.read(known)
    (known / blocks.FILE).write_bytes(content)
    try:
        assert blocks.read(known) is None
        assert page_of(RunFolder.open(known)) == page
        assert "held-out success after learning" in write_report(known).read_text("utf-8")
        assert (known / blocks.FILE).read_bytes() == good
    finally:
        (known / blocks.FILE).write_bytes(good)


def test_without_a_page_one_is_made(known):
    good = (known / blocks.FILE).read_bytes()
    (known / blocks.FILE).unlink()
    assert blocks.read(known) is None and write_report(known).exists()
    assert (known / blocks.FILE).read_bytes() == good


def test_of_a_known_kind_nothing_of_the_file_comes_on_the_report(known):
    """The report is made of the run's other files, whatever somebody wrote there."""
    good = (known / blocks.FILE).read_bytes()
    put(known, {"type": "text", "lines": ["somebody else's words"]})
    assert "somebody else's words" not in write_report(known).read_text("utf-8")
    assert (known / blocks.FILE).read_bytes() == good


@pytest.mark.parametrize("content", TORN.values(), ids=TORN)
def test_of_a_kind_that_nobody_describes_what_was_logged_is_shown_instead(place, content):
    (place / blocks.FILE).write_bytes(content)
    html = shown(place)
    assert "score" in html and "1 lines" in html and blocks.read(place) is not None


BEFORE, AFTER = {"type": "text", "lines": ["stands before"]}, {"type": "text", "lines": ["stands behind"]}
STRANGE = {
    "an unknown type": {"type": "hologram", "depth": 3},
    "no type": {"lines": ["x"]},
    "a type that is none": {"type": {"a": [1]}},
    "no object": 3,
    "nothing": None,
    "words": "text",
    "a list": [1, 2],
    "its Python name": {"type": "Text", "lines": ["x"]},
    "no block": {"type": "unreadable", "what": "<b>"},
    "a page": {"type": "page", "kind": "k", "blocks": []},
    "a field missing": {"type": "text"},
    "a field more": {"type": "text", "lines": ["x"], "colour": "red"},
    "a wrong word": {"type": "text", "lines": ["x"], "tone": 'bad" onclick="x'},
    "rows of other lengths": {"type": "table", "columns": ["a", "b"], "rows": [["x"]]},
    "pictures without words": {"type": "pictures", "files": ["a.png", "b.png"], "words": ["w"]},
    "deep": {"type": [[[["x"]]]]},
    "a line of two lengths": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "lines": [{"name": "l", "x": [0, 1, 2], "y": [0]}],
    },
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_a_block_that_is_not_known_or_damaged_is_a_line_and_the_others_stand(place, strange):
    put(place, BEFORE, strange, {"type": "section", "title": "heading", "blocks": [strange]}, AFTER)
    html = shown(place)
    assert html.count("Not shown: ") == 2 and html.index("stands before") < html.index("Not shown: ")
    assert html.index("heading") < html.rindex("Not shown: ") < html.index("stands behind")


def wrong_fields():
    """Each field of each block, and of what is inside a block, with something else than it should hold."""
    for cls in TYPES:
        good = json.loads(json.dumps(blocks.to_json(Page("", (filled(cls, "x"),)))["blocks"][0]))
        for name in sorted(good.keys() - {"type"}):
            yield pytest.param({**good, name: {"no": {"no": "no"}}}, id=f"{good['type']}.{name}")


@pytest.mark.parametrize("name", ["hologram", "<b>", 'x" onload="y'])
def test_a_type_that_is_not_known_is_named(place, name):
    put(place, {"type": name})
    assert f"a block of the type '{name}', which this version does not know" in Read(shown(place)).words


def test_what_is_not_known_here_is_kept_for_those_who_know(place):
    """A report that is made again where the package is older, or gone, takes nothing out of the file."""
    found = (
        BEFORE,
        {"type": "hologram", "depth": 3},
        {"type": "section", "title": "s", "blocks": [{"type": "hologram"}]},
    )
    put(place, *found)
    shown(place)
    assert "of the type 'hologram'" in Read(shown(place)).words, "made a second time it says the same"
    assert json.loads((place / blocks.FILE).read_text("utf-8"))["blocks"] == list(found)


# ------------------------------------------------------------------------------------------------ markup
FILE_NAMES = ("file", "files")


def filled(cls, said, pick=0, file=""):
    """A block with ``said`` in every text; ``pick`` chooses among words, yes and no, and types."""
    hints = get_type_hints(cls)
    return cls(**{f.name: _filled(hints[f.name], said, pick, file, f.name) for f in dataclasses.fields(cls)})


def _filled(hint, said, pick, file, name):
    origin, args = get_origin(hint), get_args(hint)
    if hint is str:
        return file if name in FILE_NAMES else said
    if hint is Any:
        return Words((said,), title=said)
    if hint is int:
        return -1 if name == "parent" else 1
    if hint in (float, bool):
        return 0.5 if hint is float else pick % 2 == 0
    if hint is type(None):
        return None
    if origin is Literal:
        return args[pick % len(args)]
    if origin in (Union, types.UnionType):
        return _filled(args[pick % len(args)], said, pick, file, name)
    if origin is tuple:
        items = args if args[-1] is not Ellipsis else (args[0], args[0])
        return tuple(_filled(item, said, pick, file, name) for item in items)
    if origin is dict:
        return {said: _filled(args[1], said, pick, file, name)}
    return filled(hint, said, pick, file)


@pytest.mark.parametrize("block", list(wrong_fields()))
def test_a_field_that_holds_something_else_costs_its_block(place, block):
    put(place, BEFORE, block, AFTER)
    html = shown(place)
    assert html.index("stands before") < html.index("Not shown: ") < html.index("stands behind")


@pytest.mark.parametrize("pick", range(5))
@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_text_in_any_block_is_text(place, evil, pick):
    name = "".join(c for c in evil if c not in "/\x00" and not "\ud800" <= c <= "\udfff")
    (place / f"{name}.png").write_bytes(png.encode(np.zeros((2, 2, 3), np.uint8)))
    (place / f"{name}.json").write_text(json.dumps(sample_credit(episodes=1, turns=1, nasty=evil)))
    found = [filled(cls, evil, pick, f"{name}.png") for cls in TYPES if cls is not Credit]
    found += [
        Credit(f"{name}.json", evil),
        Tree(evil, (Node(-1, evil, inside=tuple(found)), Node(0, evil), Node(0, evil))),
    ]
    hint = Hint(evil, (evil,), False, ("evolvent", evil, "DIR"))
    page = Page(evil, tuple(found), Number(evil, 0.5), (evil,), 3, evil, hint, evil)
    blocks.write(place, page)
    assert blocks.read(place) == page
    html = shown(place)
    standings = compare(load([place], page_of))
    htmls = [html, write_html(standings, place.parent / "c.html").read_text("utf-8")]
    htmls.append(render("runs", runs(place.parent, page_of), {}))
    harmless(html)
    for one in htmls:
        Read(one)
        assert not re.search(r"<(script>alert|img src=x|svg onload|iframe srcdoc)", one)
        body = one[one.index("</style>") :]
        assert not [c for c in body if c not in "\n\t" and not c.isprintable()], "control and direction characters"
    assert Read(html).words.count("alert(1)") > 20 or evil != EVIL[0], "it is shown as text"


# ------------------------------------------------------------------------------------------------ files
def outside(place):
    """Files beside the run folder, and ways from inside that lead to them."""
    away = place.parent.parent / "away"
    away.mkdir()
    (away / "secret.png").write_bytes(png.encode(np.full((2, 2, 3), 7, np.uint8)))
    (away / "secret.json").write_text(json.dumps(sample_credit(episodes=1, turns=1, nasty="a secret")))
    (away / "secret.html").write_text("a secret")
    (place / "inside").mkdir()
    (place / "inside" / "to").symlink_to(away)
    (place / "all").symlink_to(away)
    for kind in ("png", "json", "html"):
        (place / f"link.{kind}").symlink_to(away / f"secret.{kind}")
        (place / f"loop.{kind}").symlink_to(place / f"loop.{kind}")
        (place / f"gone.{kind}").symlink_to(place / "nothing")
    return away


OUT = (
    "../../away/secret.{}",
    "inside/../../../away/secret.{}",
    "{away}/secret.{}",
    "link.{}",
    "all/secret.{}",
    "inside/to/secret.{}",
    "loop.{}",
    "gone.{}",
    "file://{away}/secret.{}",
    "https://example.org/secret.{}",
    "//example.org/secret.{}",
    "javascript:alert(1)//.{}",
    "data:text/html,<script>alert(1)</script>.{}",
    "..\\..\\away\\secret.{}",
    "\x00.{}",
    "a" * 5000 + ".{}",
    "\ud800.{}",
    "inside",
    ".",
    "..",
    "",
)


@pytest.mark.parametrize("way", OUT, ids=range(len(OUT)))
def test_a_file_that_lies_elsewhere_is_neither_read_nor_shown(place, way, monkeypatch):
    away = outside(place)
    names = [way.replace("{away}", str(away)).format(kind) for kind in ("png", "html", "json")]
    found = [Pictures(names[:1], ("w",)), Frame(names[1], "n"), Credit(names[2], "c")]
    blocks.write(
        place, Page("", (*found, Tree("t", (Node(-1, "x", inside=tuple(found)),)), Section("s", tuple(found))))
    )
    opened, real = [], io.open
    monkeypatch.setattr(io, "open", lambda file, *how, **more: opened.append(file) or real(file, *how, **more))
    html = shown(place)
    monkeypatch.undo()
    paths = [Path(os.path.realpath(one)) for one in opened if not isinstance(one, int)]
    assert paths and not [one for one in paths if one.is_relative_to(away)], "no file outside is opened"
    words = Read(html).words
    assert "a secret" not in html and "data:image" not in html and "<iframe" not in html
    assert words.count("Not shown: ") + words.count("The credit of the attempts is not shown.") == 9


def test_files_inside_are_shown_wherever_they_lie(place):
    (place / "inside").mkdir()
    picture = png.encode(np.zeros((2, 2, 3), np.uint8))
    for name in ("a.png", "inside/b.PNG", "inside/c d#e?f%20.png"):
        (place / name).write_bytes(picture)
    (place / "inside" / "link.png").symlink_to(place / "a.png")
    (place / "inside" / "g #?%.html").write_text("<script>play()</script>")
    files = ("a.png", "inside/b.PNG", "inside/c d#e?f%20.png", "inside/../a.png", "inside/link.png")
    blocks.write(place, Page("", (Pictures(files, files), Frame("inside/g #?%.html", "a game"))))
    html = shown(place)
    assert html.count("data:image/png;base64,") == 5 and "Not shown" not in html and "play()" not in html
    assert 'href="inside/g%20%23%3F%25.html"' in html and "frame-src 'self'" in html


@pytest.mark.parametrize("name", ["_top", "_self", "_parent", "_blank", "_TOP", "javascript:alert(1)", "a\tb", "x' y"])
def test_a_frame_has_a_name_of_its_own_whatever_its_file_is_called(place, name):
    """``target="_top"`` would leave the frame, and with it what confines it."""
    (place / name).write_text("<script>alert(1)</script>")
    blocks.write(place, Page("", (Frame(name, "n"), Tree("t", (Node(-1, "x", inside=(Frame(name, "n"),)),)))))
    html = shown(place)
    assert html.count("<iframe") == 2 and (":" not in name or html.count('href="javascript%3Aalert%281%29"') == 2)


def test_a_picture_is_a_picture_of_a_size_that_a_page_can_hold(place):
    (place / "page.png").write_text("<script>alert(1)</script>")
    (place / "page.svg").write_text("<svg onload='alert(1)'/>")
    with (place / "large.jpg").open("wb") as file:
        file.truncate(16_000_001)
    blocks.write(place, Page("", tuple(Pictures((name,), ("w",)) for name in ("page.png", "page.svg", "large.jpg"))))
    html = shown(place)
    assert html.count("Not shown: ") == 2 and "svg onload" not in html and len(html) < 100_000


@pytest.mark.parametrize("cut", [0, 10, 24, 30, 41, 50, 60, -1])
def test_a_picture_that_is_torn_costs_itself_at_most(place, cut):
    """A run that is killed while it paints."""
    picture = png.encode(np.random.default_rng(0).integers(0, 256, (20, 20, 3)).astype(np.uint8))
    (place / "a.png").write_bytes(picture[:cut])
    (place / "b.png").write_bytes(picture[:50] + bytes(9) + picture[59:])
    put(place, BEFORE, {"type": "pictures", "files": ["a.png", "b.png"], "words": ["a", "b"]}, AFTER)
    assert "stands behind" in shown(place)


@pytest.mark.parametrize(
    "content",
    ["[" * 10_000, "[" * 800 + "]" * 800, "[]", "3", '{"rules": 3}', '{"rules": [], "episodes": [{"nodes": []}]}', ""],
    ids=range(7),
)
def test_credit_that_is_something_else_costs_its_section(place, content):
    (place / "credit.json").write_text(content)
    put(place, BEFORE, {"type": "credit", "file": "credit.json", "title": "Credit"}, AFTER)
    html = shown(place)
    assert "The credit of the attempts is not shown" in html or "Not shown: " in html
    assert "stands behind" in html


# ------------------------------------------------------------------------------------------------ numbers, depth
LARGE = ("1e400", "-1e400", "NaN", "Infinity", "1e308", "-1e308", "5e-324", "1" + "0" * 400, "1" + "0" * 30, "-3", "0")
LARGE += ('{"$float": "nan"}', '{"$float": "x"}', '{"$float": []}', '{"$float": "inf"}', "true", "null", '"5"', "[]")
HERE = "@@"
WHERE = {
    "the score": {"score": {"name": "s", "value": HERE}},
    "its interval": {"score": {"name": "s", "value": 0.5, "ci95": [HERE, 0.7]}},
    "its interval, a rate": {"score": {"name": "s", "value": 0.5, "ci95": [0.1, HERE], "rate": True, "n": HERE}},
    "steps": {"steps": HERE},
    "a figure": {"type": "headline", "numbers": [{"name": "n", "value": HERE, "ci95": [HERE, 1], "rate": True}]},
    "a tile": {"type": "tiles", "values": {"a": HERE}},
    "a cell": {"type": "table", "columns": ["a", "b"], "rows": [["x", HERE]]},
    "a share": {"type": "table", "columns": ["a", "b"], "rows": [["x", HERE], ["y", 0.5]], "meter": 1},
    "a column": {"type": "table", "columns": ["a", "b"], "rows": [["x", 0.5]], "meter": HERE},
    "an outcome in pairs": {"type": "comparison", "name": "c", "pairs": [["a", HERE, 0], ["b", 1, HERE]]},
    "a level": {
        "type": "comparison",
        "name": "c",
        "own": {"name": "a", "value": HERE, "ci95": [0, 1]},
        "other": {"name": "b", "value": 0.5, "ci95": [0.1, HERE], "n": HERE},
    },
    "a level, a rate": {
        "type": "comparison",
        "name": "c",
        "own": {"name": "a", "value": 0.5, "ci95": [HERE, 1], "rate": True},
        "other": {"name": "b", "value": HERE, "ci95": [0.1, HERE], "rate": True},
    },
    "an outcome": {"type": "outcomes", "rows": [["a", HERE, "k"], ["b", 1, "k"]]},
    "a curve": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "ticks": [[HERE, "t"]],
        "lines": [{"name": "l", "role": "judged", "x": [0, HERE], "y": [HERE, 1], "lo": [HERE, None], "hi": [1, HERE]}],
    },
    "a curve of outcomes": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "rate": True,
        "lines": [{"name": "l", "role": "judged", "x": [0, 1], "y": [0, 0.5], "n": [HERE, 1], "style": HERE}],
    },
    "a level of a curve": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "lines": [{"name": "l", "mark": "level", "x": [HERE], "y": [HERE], "lo": [0], "hi": [HERE]}],
    },
    "a bar": {"type": "bars", "title": "t", "numbers": [{"name": "b", "value": HERE, "ci95": [0, HERE]}]},
    "a map": {"type": "shares", "title": "t", "rows": [["a", [HERE, 0.5]]], "x_label": "x", "last": HERE},
    "a part": {"type": "split", "parts": {"a": HERE, "b": 1.0}},
    "a state": {"type": "tree", "title": "t", "nodes": [{"parent": HERE, "text": "x", "hue": HERE, "weight": HERE}]},
}


def read_by_all(place):
    """What reads pages: the report, the list of runs, a comparison; the last may refuse, and says why."""
    html = shown(place)
    listed = runs(place.parent, page_of)
    Read(render("runs", listed, {}))
    with suppress(BadInput):
        write_html(compare(load([place], page_of)), place.parent / "c.html")
    return html


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_numbers_that_nobody_measured_break_nothing(place, where):
    for number in LARGE:
        block = (BEFORE, where, AFTER) if "type" in where else (BEFORE, AFTER)
        put(place, *block, **({} if "type" in where else where))
        text = (place / blocks.FILE).read_text("utf-8")
        written(place, text.replace(json.dumps(HERE), number))
        html = read_by_all(place)
        assert ("stands before" in html and "stands behind" in html) or "1 lines" in html, number


ODD = {
    "empty": {"type": "comparison", "name": ""},
    "one side": {"type": "comparison", "name": "c", "own": {"name": "a", "value": 1.0}},
    "pairs of one task": {"type": "comparison", "name": "c", "pairs": [["a", 1, 0], ["a", 0, 1]]},
    "outcomes of one task": {"type": "outcomes", "rows": [["a", 1, ""], ["a", 0, ""]]},
    "no outcomes": {"type": "outcomes", "rows": []},
    "a level of nothing": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "lines": [
            {"name": "l", "mark": "level", "x": [0], "y": []},
            {"name": "m", "role": "judged", "x": [0], "y": [1]},
        ],
    },
    "a line of two lengths": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "lines": [{"name": "m", "role": "judged", "x": [0, 1, 2], "y": [1]}],
    },
    "counts of nothing": {
        "type": "curve",
        "title": "t",
        "x_label": "x",
        "y_label": "y",
        "rate": True,
        "lines": [{"name": "m", "role": "judged", "x": [0, 1], "y": [1, 1], "n": [0, 0]}],
    },
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_cannot_be_compared_breaks_nothing(place, odd):
    put(place, BEFORE, odd, AFTER)
    html = read_by_all(place)
    assert "stands before" in html and "stands behind" in html


def nested(depth, inner, outer="[{}]"):
    begin, end = outer.split("{}")
    return begin * depth + inner + end * depth


DEPTHS = (30, 200, 400, 800, 10_000)
SECTION = '{"type": "section", "title": "s", "blocks": [{}]}'
STATE = '{"type": "tree", "title": "t", "nodes": [{"parent": -1, "text": "x", "inside": [{}]}]}'
DEEP = {
    "sections": lambda n: nested(n, '{"type": "text", "lines": ["deep"]}', SECTION),
    "trees": lambda n: nested(n, '{"type": "text", "lines": ["deep"]}', STATE),
    "a text": lambda n: '{"type": "text", "lines": ' + nested(n, "1") + "}",
    "a type": lambda n: '{"type": ' + nested(n, "1") + "}",
    "a tile": lambda n: '{"type": "tiles", "values": ' + nested(n, "1", '{"a": {}}') + "}",
    "a list": lambda n: nested(n, "1"),
    "inside a state": lambda n: '{"type": "tree", "title": "t", "nodes": [{"inside": ' + nested(n, "1") + "}]}",
}


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_nested_deep_breaks_nothing(place, kind, depth):
    put(place, BEFORE, HERE, AFTER)
    text = (place / blocks.FILE).read_text("utf-8").replace(json.dumps(HERE), DEEP[kind](depth))
    written(place, text)
    html = read_by_all(place)
    assert ("stands before" in html and "Not shown: " in html) or "1 lines" in html


def test_sections_that_somebody_may_have_meant_are_all_shown(place):
    block = Words(("innermost",))
    for depth in range(blocks.DEPTH):
        block = Section(f"level {depth}", (block,), folded=True)
    blocks.write(place, Page("", (block,)))
    assert "innermost" in shown(place)
    blocks.write(place, Page("", (Section("one more", (block,)),)))
    html = shown(place)
    assert "innermost" not in html and f"more than {blocks.DEPTH} sections inside one another" in html


STATES = {
    "one after another": lambda i: Node(i - 1, f"state {i}."),
    "one after another, with something inside": lambda i: Node(i - 1, f"state {i}.", inside=(Words(("x",)),)),
    "with a way beside each": lambda i: Node(-1 if i == 0 else i - 1 if i % 2 else max(0, i - 3), f"state {i}."),
    "all at one": lambda i: Node(-1 if i == 0 else 0, f"state {i}."),
    "all alone": lambda i: Node(-1, f"state {i}."),
    "after what does not stand before": lambda i: Node(i + 5, f"state {i}."),
}


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("states", [400, 2_000])
def test_a_tree_may_be_as_deep_as_a_search_can_go(place, kind, states):
    tree = Tree("a tree", tuple(map(STATES[kind], range(states))))
    blocks.write(place, Page("", (Words(("stands before",)), tree, Words(("stands behind",)))))
    html = shown(place)
    assert "stands before" in html and "stands behind" in html
    if kind != "after what does not stand before" and states <= 400:
        assert len(re.findall(r"state \d+\.", html)) == states, "a search of so many states is no mistake"


def _paths(value, at=()):
    yield at
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*at, key))


def _changed(value, at, new):
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = _changed(copy[at[0]], at[1:], new)
    return copy


EVERYTHING = blocks.to_json(
    Page(
        "k",
        tuple(filled(cls, "x") for cls in TYPES),
        Number("s", 0.5, (0.1, 0.9)),
        ("a",),
        3,
        "steps",
        Hint("h", ("--x",)),
        "r",
    )
)
WHAT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(EVIL[:5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(at=st.sampled_from([path for path in _paths(EVERYTHING) if path]), what=WHAT)
def test_whatever_stands_anywhere_in_a_page_breaks_nothing(lasting, at, what):
    written(lasting, json.dumps(_changed({"schema": blocks.SCHEMA, **EVERYTHING}, at, what)))
    read_by_all(lasting)


# ------------------------------------------------------------------------------------------------ what to run next
@pytest.mark.parametrize(
    "command",
    [
        ("rm", "-rf", "DIR"),
        ("sudo", "evolvent", "runs"),
        ("evolvent; rm -rf /",),
        ("evolvent\nrm", "-rf"),
        ("", "evolvent"),
        ("./evolvent", "runs"),
        ("EVOLVENT",),
        ("evolvent ", "x"),
    ],
)
def test_a_page_has_nobody_run_anything_but_evolvent(place, command):
    blocks.write(place, Page("", (), Number("s", 0.5), hint=Hint("Do this.", command=command)))
    page = blocks.read(place)
    said = of_run(MANIFEST, page, place)
    assert (said.advice, said.command) == ("Do this.", "")
    assert 'class="copy"' not in shown(place)


NASTY = ("$(rm -rf ~)", "; rm -rf /", "`id`", "a b", "'\"", "&& x", "| sh", "\nrm", "~/x y", "-- --out=/etc")


@pytest.mark.parametrize("word", NASTY)
def test_words_of_a_command_stay_words(place, word):
    for hint in (
        Hint("w", command=("evolvent", "runs", word)),
        Hint("w", flags=("--x", word)),
        Hint("w", flags=("--x", word), resume=True),
    ):
        blocks.write(place, Page("", (), Number("s", 0.5), hint=hint))
        arguments = shlex.split(of_run(MANIFEST, blocks.read(place), place).command)
        assert arguments[0] == "evolvent" and arguments[-1] == word
    hint = Hint("w", command=("evolvent", "memory", "audit", "DIR"))
    assert shlex.split(of_run(MANIFEST, Page("", (), Number("s", 1.0), hint=hint), Path("/a b/$(c)")).command) == [
        "evolvent",
        "memory",
        "audit",
        "/a b/$(c)",
    ]


def test_a_comparison_is_never_what_a_page_says_it_is(place):
    """The verdict is worked out from the numbers; a page has no word for it but a control's."""
    pairs = tuple((f"t{i}", 0, 1) for i in range(20))
    blocks.write(place, Page("", (Comparison("Better than", pairs=pairs),), Number("s", 0.5), hint=Hint("w")))
    said = of_run(MANIFEST, blocks.read(place), place)
    assert said.state == "worse" and said.sentence == "Worse than Better than."
