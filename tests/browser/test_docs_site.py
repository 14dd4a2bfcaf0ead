"""The documentation as a site, opened from its files in a real browser: accessible, searchable, nothing sticks out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import WIDTHS, judged

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
PAGES = ("index", "start", "tutorial-agent", "your_own", "memlift", "memory-model", "results/marl", "reference/memory")
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_site(name, width, site, opened, shots, axe):
    page, complaints = opened(site / f"{name}.html", width)
    page.screenshot(path=shots / f"docs-{name.replace('/', '-')}-{width}.png")
    assert not complaints
    assert page.evaluate(OVERFLOW) <= 0
    # our text; what surrounds it, and the frame it puts around wide tables, is the theme's own
    assert not [one for one in judged(page, axe, "article") if not one.startswith("scrollable-region-focusable")]


def test_code_is_code(site):
    """A fence that the site's Markdown does not know becomes a paragraph."""
    for page in site.rglob("*.html"):
        text = re.sub(r"(?s)<(pre|script|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"))
        assert "```" not in text and "def make(" not in text, page
    assert "my_shop.py</span>" in (site / "your_own.html").read_text(encoding="utf-8")


def test_the_search_needs_no_network(site, opened):
    page, complaints = opened(site / "index.html")
    page.locator("input.md-search__input").fill("receipt")
    page.locator(".md-search-result__item").first.wait_for()
    assert not complaints
