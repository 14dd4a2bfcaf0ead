"""The page of a served memory in a real browser: read, judged by keyboard, narrow and dark; hostile notes stay text."""

import json

import pytest
from lived import Caller, live
from test_pages import OVERFLOW, WIDTHS, judged

from serving import served

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
pytestmark = pytest.mark.browser

VIEWS = ("", "inbox", "attempts", "attempt/{reverted}", "attempt/{claimed}", "memory", "memory/m1", "withheld")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / ".", "--holdout", "0.3") as one:
        one.found = live(one)
        yield one


@pytest.fixture
def entered(opened, server):
    """``entered(view, **how)``: the page behind the link that the server prints, at a view."""

    def enter(view="", **how):
        page, complaints = opened(f"{server.address}/ui#{server.token}", **how)
        page.wait_for_selector(".says")
        show(page, server, view)
        return page, complaints

    return enter


def show(page, server, view):
    if view:
        before = page.inner_text("h1")
        page.evaluate("where => { location.hash = where }", f"#/{view.format(**server.found)}")
        expect(page.locator("h1")).not_to_have_text(before)  # not wait_for_function: the policy forbids its eval


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_and_complains_of_nothing(entered, server, shots, width, scheme):
    page, complaints = entered(width=width, scheme=scheme)
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    for view in VIEWS:
        show(page, server, view)
        assert page.evaluate(OVERFLOW) == [], view
        assert "undefined" not in page.inner_text("body") and "NaN" not in page.inner_text("body"), view
        name = view.format(**server.found).replace("/", "-") or "overview"
        page.screenshot(path=shots / f"server-{name}-{width}-{scheme}.png", full_page=True)
    assert complaints == [] and asked and all(url.startswith(server.address) for url in asked)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible(entered, axe, view):
    page, _ = entered(view)
    assert judged(page, axe) == []


def test_the_token_of_the_link_stands_in_no_address_and_a_wrong_one_is_told(opened, server):
    page, _ = opened(f"{server.address}/ui#{server.token}")
    page.wait_for_selector(".says")
    assert server.token not in page.url and page.context.cookies() == []
    page.reload()
    page.wait_for_selector(".says")  # the tab has it
    other, _ = opened(f"{server.address}/ui")
    other.fill("#token", "ev1_00000000_" + "x" * 43)
    other.keyboard.press("Enter")
    other.wait_for_selector(".alert")
    assert "no token of this store" in other.inner_text(".alert")
    other.fill("#token", server.token)
    other.keyboard.press("Enter")
    other.wait_for_selector(".says")


def test_it_says_whether_the_memory_helps_and_how_many_attempts_are_missing(entered, opened, tmp_path):
    page, _ = entered()
    said = page.inner_text(".says")
    assert "points [" in said or "Too early" in said
    with served(tmp_path / ".", "--holdout", "0.2", "--no-auth") as one:
        ask = Caller(one, "none")
        ask("/v1/memories", {"key": "a task", "body": "a note"})
        for i in range(3):
            made = ask("/v1/recall", {"task": "a task", "session": str(i)})
            ask.evidence(made["attempt"], "person", reward=True)
        page, _ = opened(f"{one.address}/ui")  # served to everybody here: nobody is asked who they are
        page.wait_for_selector(".says")
        assert "more attempts with an outcome until anything can be said" in page.inner_text(".says")


def test_an_attempt_is_one_line_of_time_from_the_recall_to_its_revision(entered):
    page, _ = entered("attempt/{reverted}")
    events = page.locator("ol.line > li .name").all_inner_texts()
    order = [
        "Recall: ",
        "Tests: 0 passed, 1 failed",
        "Tests: 1 passed",
        "Verdict: right",
        "Commit",
        "Verdict, revised: wrong",
    ]
    assert len(events) == len(order) and all(e.startswith(o) for e, o in zip(events, order, strict=True))
    first = page.locator("ol.line > li").first
    assert "m1" in first.inner_text() and "reverts it" in page.inner_text(".says")


def test_a_person_judges_by_keyboard_and_it_is_evidence(entered, server):
    page, _ = entered("inbox")
    card = page.locator("li", has_text="/orders")
    assert "moves nothing" in card.inner_text()
    left = page.locator("ul.list > li").count()
    card.get_by_role("button", name="Wrong").focus()
    page.keyboard.press("Enter")
    expect(page.locator("ul.list > li")).to_have_count(left - 1)
    assert page.evaluate("document.activeElement.tagName") == "BUTTON" and "Kept: wrong" in page.inner_text("#said")
    told = Caller(server)(f"/v1/attempts/{server.found['claimed']}")
    assert (told["verdict"]["state"], told["verdict"]["reward"], told["verdict"]["source"]) == (
        "settled",
        False,
        "human",
    )
    assert [one["kind"] for one in told["evidence"]] == ["claim", "person"]


def test_what_others_wrote_stays_text(entered, server):
    hostile = "<img src=x onerror=alert(1)> in a report"
    page, complaints = entered("memory")
    dialogs = []
    page.on("dialog", lambda one: dialogs.append(one.message) or one.dismiss())
    assert hostile in page.inner_text("main") and page.locator("main img, main script").count() == 0
    show(page, server, "memory/m6")
    assert "<script>alert(2)</script>" in page.inner_text("pre") and dialogs == [] and complaints == []


def test_a_token_that_may_only_read_is_told_that_it_cannot_judge(opened, server):
    token = server.new("reader", "--may", "read")
    page, _ = opened(f"{server.address}/ui#{token}")
    page.wait_for_selector(".says")
    show(page, server, "attempt/{open}")
    page.get_by_role("button", name="Right").click()
    page.wait_for_selector("#said:not(:empty)")
    assert "does not allow it" in page.inner_text("#said")
    assert json.dumps(Caller(server)(f"/v1/attempts/{server.found['open']}")["evidence"]) == "[]"
