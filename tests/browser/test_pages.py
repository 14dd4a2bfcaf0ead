"""Every kind of page in a real browser, wide and narrow, light and dark: no error, no overflow, accessible, usable."""

import threading

import pytest

from evolvent.cli.runs import server
from evolvent.core.folder import RunFolder
from sample_team_run import sample_team_run

pytestmark = pytest.mark.browser

KINDS = (
    "memory",
    "calls",
    "one-pass",
    "awkward",
    "language",
    "going-on",
    "team",
    "team-many",
    "search",
    "index",
    "audit",
    "credit",
    "compare-memory",
    "compare-team",
    "compare-language",
    "compare-seeds",
    "programs",
    "games",
    "search-deep",
    "worth",
)
WIDTHS = WIDE, NARROW = 1280, 390
# what sticks out to the right of the page, but for what scrolls in a part of its own
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll('body *')]
    .filter((e) => !e.closest('.scroll') && e.getBoundingClientRect().right > width + 1)
    .map((e) => e.tagName + '.' + e.className + ' ' + (e.textContent || '').slice(0, 40)).slice(0, 5).concat(['page']);
}"""
# pairs of labels of one picture that lie over one another, and labels that leave their picture
COLLIDE = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const edge = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map((e) => [e.textContent, e.getBoundingClientRect()])
      .filter(([, b]) => b.width > 0);
    boxes.forEach(([a, p], i) => {
      if (p.left < edge.left - 1 || p.right > edge.right + 1) found.push(`${a} leaves its picture`);
      boxes.slice(i + 1).forEach(([b, q]) => {
        const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (x > 1 && y > 3) found.push(`${a} / ${b}`);
      });
    });
  }
  return found;
}"""
# of the smaller findings those about a page's order
STRUCTURE = ("heading-order", "landmark-one-main", "region", "page-has-heading-one", "empty-table-header")


@pytest.fixture(scope="module")
def everywhere(made):
    assert set(made) | {"programs"} == set(KINDS)
    return made


def judged(page, axe, part="html"):
    """What axe-core finds that is serious, and what is out of order, in a part of the page."""
    page.evaluate(axe)
    found = page.evaluate("async (part) => (await axe.run(part)).violations", part)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical") or one["id"] in STRUCTURE
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_looks_right_and_is_accessible(kind, width, everywhere, opened, shots, axe):
    if kind not in everywhere:
        pytest.skip("kernels cannot be judged here")
    page, complaints = opened(everywhere[kind], width)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=shots / f"{kind}-{width}-{scheme}.png", full_page=True)
    page.evaluate("() => document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert not complaints
    assert not page.evaluate(OVERFLOW), "sticks out"
    assert not page.evaluate(COLLIDE), "labels over one another"
    assert not judged(page, axe), "in the dark"
    page.emulate_media(color_scheme="light")
    assert not judged(page, axe), "in the light"


# ------------------------------------------------------------------------------------------------ the page of credit
@pytest.mark.parametrize("width", WIDTHS)
def test_no_button_of_the_credit_is_covered(width, everywhere, opened):
    page, _ = opened(everywhere["language"], width)
    for block in ("start", "end"):
        covered = page.evaluate(
            """(block) => [...document.querySelectorAll('#credit label')].filter((e) => {
              e.scrollIntoView({ block, behavior: 'instant' });
              const box = e.getBoundingClientRect();
              const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
              return !e.contains(hit);
            }).map((e) => e.textContent)""",
            block,
        )
        assert not covered
    assert page.locator(".readout").is_hidden(), "nothing lies over the text before a token is pointed at"


def test_credit_by_keyboard(everywhere, opened):
    page, _ = opened(everywhere["language"])
    page.locator("input[name=credit-rule]").first.focus()
    before = page.locator(".act .tokens > i").nth(3).get_attribute("class")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name=credit-rule]").nth(1).is_checked()
    assert page.locator(".act .tokens > i").nth(3).get_attribute("class") != before
    page.locator(".tokens").first.focus()
    readout = page.locator(".readout")
    assert "turn 1, token 1" in readout.inner_text()
    page.keyboard.press("ArrowRight")
    assert "turn 1, token 2" in readout.inner_text()
    apart = page.evaluate(
        """() => {
          const [a, b] = ['.readout', '.tokens > .on'].map((e) => document.querySelector(e).getBoundingClientRect());
          return a.bottom <= b.top || b.bottom <= a.top;
        }"""
    )
    assert apart, "it does not cover what it is about"
    page.keyboard.press("Escape")
    assert readout.is_hidden()
    page.locator("input[name=credit-attempt]").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".pane").nth(1).is_visible() and page.locator(".pane").first.is_hidden()


def test_credit_by_tap(everywhere, opened):
    page, _ = opened(everywhere["language"], NARROW, touch=True)
    page.locator(".pane .tokens > i").nth(2).tap()
    readout = page.locator(".readout")
    assert "turn 1, token 3" in readout.inner_text()
    page.locator(".choice label").nth(1).tap()
    assert readout.is_hidden() and page.locator("input[name=credit-rule]").nth(1).is_checked()
    page.locator(".attempts .list label").nth(2).tap()
    assert page.locator(".pane").nth(2).is_visible()


@pytest.mark.parametrize("kind", ["memory", "language", "search", "team"])
def test_parts_open_by_keyboard_and_without_script(kind, everywhere, opened):
    page, _ = opened(everywhere[kind], NARROW, script=False)
    summary = page.locator("details:not([open]) > summary:visible").first
    handle = summary.element_handle()
    handle.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_deep_tree_can_be_read_and_opened_by_keyboard(width, everywhere, opened, shots):
    page, complaints = opened(everywhere["search-deep"], width)
    for fold in page.locator("details:has(> .tree) > summary").all():
        fold.focus()
        page.keyboard.press("Enter")
    stretch = page.locator("details.way > summary:visible").first
    assert "states" in stretch.inner_text()
    hidden = page.locator("details.way .leaf").first
    assert not hidden.is_visible()
    stretch.focus()
    page.keyboard.press("Enter")
    assert hidden.is_visible()
    page.screenshot(path=shots / f"search-deep-{width}.png", full_page=True)
    page.evaluate("() => document.querySelectorAll('details').forEach((d) => d.open = true)")
    widths = page.evaluate(
        "() => [...document.querySelectorAll('.tree .mono')].map((e) => e.parentElement.getBoundingClientRect().width)"
    )
    assert len(widths) > 400 and min(widths) > 0.4 * width, "no line is squeezed, however deep it lies"
    assert not page.evaluate(OVERFLOW) and not complaints


# ------------------------------------------------------------------------------------------------ games of a run
@pytest.mark.parametrize("served", [False, True])
def test_a_version_is_played_in_a_frame_that_reaches_nothing(served, everywhere, opened, shots):
    def look(where):
        page, _ = opened(where)
        frames = page.locator("iframe")
        assert not [frame for frame in page.frames if "/games/" in frame.url], "no game runs before it is asked for"
        page.locator(".tree details:has(> iframe) > summary:visible").first.click()
        page.get_by_role("link", name="Start").first.click()
        inside = frames.first.content_frame
        inside.locator("canvas").wait_for()
        assert frames.first.get_attribute("sandbox") == "allow-scripts"
        inside.locator("canvas").click()
        (frame,) = (frame for frame in page.frames if "/games/" in frame.url)
        before = frame.evaluate("() => s.player.x")
        page.keyboard.down("ArrowRight")
        frame.wait_for_function("(x) => s.player.x > x", arg=before)
        page.keyboard.up("ArrowRight")
        assert frame.evaluate("() => fetch('/').then(() => 'reached', () => 'refused')") == "refused"
        assert frame.evaluate("() => { try { return parent.document.title } catch { return 'refused' } }") == "refused"
        page.screenshot(path=shots / f"game-played-{'served' if served else 'file'}.png", full_page=True)

    file = everywhere["games"]
    if not served:
        look(file)
        return
    with server(file.parents[1], 0) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        try:
            look(f"http://127.0.0.1:{listening.server_port}/run/{file.parent.name}/")
        finally:
            listening.shutdown()


# ------------------------------------------------------------------------------------------------ the index of runs
def _names(page):
    return page.locator("table.runs tbody tr:not([hidden]) td:first-child").all_inner_texts()


def test_the_index_is_sorted_and_filtered_by_keyboard_and_tap(everywhere, opened):
    page, complaints = opened(everywhere["index"])
    everything = _names(page)
    page.get_by_role("button", name="system").focus()
    page.keyboard.press("Enter")
    systems = page.locator("table.runs tbody tr:not(.broken) td:nth-child(5)").all_inner_texts()
    assert systems == sorted(systems) and "broken" in _names(page)[-1]
    assert page.locator("th").nth(4).get_attribute("aria-sort") == "ascending"
    page.locator("input[type=search]").fill("team mat")
    assert not _names(page)
    page.locator("input[type=search]").fill("mat spread")
    assert len(_names(page)) == 2 < len(everything) and not complaints
    page, _ = opened(everywhere["index"], NARROW, touch=True)
    page.locator("th button").nth(0).tap()
    assert _names(page)[:-1] == sorted(_names(page)[:-1])
    page.get_by_role("link", name="mat-0").tap()
    page.get_by_role("heading", name="What mat learned on spread").wait_for()


def test_a_run_that_goes_on_is_followed_without_losing_the_place(tmp_path, opened, shots):
    path = sample_team_run(tmp_path / "runs" / "mat-0", updates=20, summary=False)
    with server(tmp_path / "runs", 0) as listening, RunFolder.open(path) as folder:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        try:
            page, complaints = opened(f"http://127.0.0.1:{listening.server_port}/")
            page.locator("input[type=search]").fill("mat")
            page.wait_for_timeout(2500)  # it has asked once
            folder.log(32_001, update=21, **{"return": -5.0}, attempts=64)
            page.get_by_text("step 32,001").wait_for()
            page.screenshot(path=shots / "followed-1280-light.png")
            assert "running" in page.locator("table.runs tbody").inner_text()
            assert page.locator("input[type=search]").input_value() == "mat"
            page.get_by_role("link", name="mat-0").click()
            page.get_by_text("21 updates").wait_for()
            part = page.locator("details").first
            part.locator("summary").click()
            page.evaluate("() => scrollTo({ top: 500, behavior: 'instant' })")
            page.wait_for_timeout(2500)
            folder.log(33_602, update=22, **{"return": -4.0}, attempts=64)
            page.get_by_text("22 updates").wait_for()
            assert page.evaluate("() => scrollY") == 500
            assert part.evaluate("e => e.open") and not complaints
        finally:
            listening.shutdown()
