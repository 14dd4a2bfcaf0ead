"""Pages that a model wrote, in a real Chromium in the sandbox: what is reported of good and hostile ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import evolvent
from evolvent.envs.text import games
from evolvent.envs.text.games_mechanics import MECHANICS
from evolvent.envs.text.games_page import assemble
from evolvent.sandbox import NoSandbox
from evolvent.sandbox.browser import Browser, NoBrowser

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><canvas id="c" width="480" height="320"></canvas><script>
const g = c.getContext("2d"); let x = 0;
addEventListener("keydown", () => { x += 9; });
function loop() { x++; g.fillStyle = "black"; g.fillRect(0, 0, 480, 320); g.fillStyle = "red";
  g.fillRect(x % 480, 50, 20, 20); IN; requestAnimationFrame(loop); }
loop(); AFTER</script>"""
ENDED = {
    "while (1) {}": "hangs",
    "setInterval(() => { for (let i = 0; i < 99; i++) console.log('x'.repeat(1 << 20) + i); }, 0)": "floods",
    "location = 'http://example.com/'": "leaves",
    "setTimeout(() => location.reload(), 300)": "leaves",
}
REFUSED = (
    "alert(1)",
    "open('http://example.com/')",
    "fetch('http://example.com/')",
    "new WebSocket('ws://127.0.0.1:9/')",
    "new Image().src = 'http://127.0.0.1:9/x.png'",
    "localStorage.x = 1",
    "location = 'file:///etc/passwd'",
    "new Worker(URL.createObjectURL(new Blob(['1'])))",
    "nothing()",
    "console.error = () => 0; HTMLCanvasElement.prototype.getContext = () => null; throw 1",
)


def page(after="", inside=""):
    return PAGE.replace("IN", inside).replace("AFTER", after)


@pytest.fixture(scope="module")
def browser():
    try:
        with Browser() as found:
            found.start()
            yield found
    except (NoBrowser, NoSandbox) as error:
        pytest.skip(f"no browser in the sandbox here: {error}")


def test_a_good_page_plays(browser):
    seen = browser.see(page())
    assert seen.playable and seen.changes and not seen.warnings
    assert seen.picture.startswith(b"\xff\xd8"), "a JPEG"


def test_what_changes_on_keys_alone_changes(browser):
    still = page().replace("x++;", "")
    assert browser.see(still).changes
    seen = browser.see(still.replace("x += 9", ""))
    assert seen.playable and not seen.changes


@pytest.mark.parametrize("after", ENDED)
def test_a_page_without_an_end_is_stopped_and_the_next_one_opens(browser, after):
    seen = browser.see(page(after))
    assert seen.ended == ENDED[after] and not seen.playable
    assert browser.see(page()).playable


@pytest.mark.parametrize("after", REFUSED)
def test_what_reaches_out_is_refused_and_reported(browser, after):
    seen = browser.see(page(after))
    assert seen.errors and not seen.playable and not seen.ended


def test_an_error_long_after_loading_counts(browser):
    seen = browser.see(page(inside="if (x > 20) later()"))
    assert seen.errors and "later is not defined" in seen.errors[0], seen


def test_what_earlier_pages_leave_behind_ends_no_later_one(browser):
    """Processes of closed pages go late; too many of them once ended the browser under a page that was good."""
    with Browser() as fresh:
        seen = [fresh.see("", seconds=0.1) for _ in range(30)]
    assert not any(one.ended for one in seen)


def test_no_page_is_no_game(browser):
    assert not browser.see("Sure! Here is your game.").playable
    assert not browser.see("").playable


def test_every_template_plays(browser):
    seen = browser.see(assemble("all", {m.name: m.code for m in MECHANICS}))
    assert seen.playable and seen.changes and not seen.warnings


def test_the_world_opens_pages():
    env = games.make()
    try:
        task = next(t for t in env.tasks("train", 60, 0) if t.kind == "rocks")
        env.reset(task)
        turn = env.step("```js\nmechanics.push({ step(s) { s.rocks.push(1); } });\n```")
        assert turn.info["gate"] == "browser" and "undefined" in turn.info["words"] and turn.reward == 0.0
        env.reset(task)
        turn = env.step(f"```js\n{env.mechanics['rocks'].code}\n```")
        assert turn.success and turn.info["sanity"] == 1.0
    except (NoBrowser, NoSandbox) as error:
        pytest.skip(f"no browser in the sandbox here: {error}")
    finally:
        env.close()


def test_an_ordinary_user_has_the_browser_that_root_has():
    if os.geteuid() != 0:
        pytest.skip("the other tests here are run by an ordinary user")
    code = "from evolvent.sandbox.browser import Browser\nwith Browser() as it: print(it.see('<p>hello').loaded)"
    somebody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/", "capture_output": True, "text": True}
    path = str(Path(evolvent.__file__).parents[1])
    try:
        import_it = [sys.executable, "-c", "import evolvent.sandbox.browser"]
        readable = subprocess.run(import_it, env=os.environ | {"PYTHONPATH": path}, check=False, **somebody)
    except PermissionError as error:
        pytest.skip(f"nobody else may run this Python: {error}")
    if readable.returncode:
        pytest.skip(f"nobody else may read the package: {readable.stderr[-200:]}")
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, check=False, **somebody)
    if "NoSandbox" in done.stderr:
        pytest.skip(done.stderr[-300:])
    assert done.stdout == "True\n", done.stderr
