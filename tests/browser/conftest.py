"""A real Chromium, and the pages it opens.

Needs playwright and a chromium: ``$EVOLVENT_CHROMIUM``, one on the path, or playwright's own. Accessibility is judged
by axe-core, of which ``$EVOLVENT_AXE`` names ``axe.min.js``. Screenshots go to ``$EVOLVENT_SCREENSHOTS``.
"""

import os
import shutil
from pathlib import Path

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    named = os.environ.get("EVOLVENT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as tools:
        if not named and not Path(tools.chromium.executable_path).exists():
            pytest.skip("no chromium: install one, or name it in EVOLVENT_CHROMIUM")
        browser = tools.chromium.launch(executable_path=named or None, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    path = os.environ.get("EVOLVENT_AXE")
    if not path:
        pytest.skip("EVOLVENT_AXE names no axe.min.js: npm pack axe-core")
    return Path(path).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    """Where screenshots go."""
    given = os.environ.get("EVOLVENT_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Every kind of page: name and file."""
    from kinds import pages

    return pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def opened(chromium):
    """``opened(file, width=1280, scheme="light", touch=False)``: a page, and what it complained about."""
    contexts = []

    def open_(where, width=1280, scheme="light", *, touch=False, script=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 860},
            color_scheme=scheme,
            has_touch=touch,
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        complaints = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(where if isinstance(where, str) else where.as_uri())
        return page, complaints

    yield open_
    for context in contexts:
        context.close()
