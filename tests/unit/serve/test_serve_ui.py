"""The files of the page: strict headers, nothing inline, nothing from elsewhere, no string that becomes markup."""

import re

import pytest

pytest.importorskip("starlette", reason="the extra 'server' is not installed")
pytest.importorskip("httpx", reason="the client of starlette's tests")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from evolvent.serve import ui

FILES = {"/ui": "text/html", "/ui/page.js": "text/javascript", "/ui/page.css": "text/css"}


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=ui.routes()))


@pytest.mark.parametrize("path", FILES)
def test_every_file_comes_under_a_policy_that_allows_its_own_files_only(client, path):
    answer = client.get(path)
    assert answer.status_code == 200 and answer.headers["content-type"] == f"{FILES[path]}; charset=utf-8"
    policy = dict(part.split(maxsplit=1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"


def test_nothing_is_inline_and_nothing_is_from_elsewhere(client):
    html, script, style = (client.get(path).text for path in FILES)
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?! type=\"module\" src=\"/ui/page.js\"></script>)", html)
    for text in (html, script, style):
        assert "://" not in text and "//cdn" not in text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|cookie", script)


def test_there_is_nothing_else_to_read(client):
    assert client.get("/ui/../rest.py").status_code == 404 and client.get("/ui/index.html").status_code == 404
    assert client.post("/ui").status_code == 405
