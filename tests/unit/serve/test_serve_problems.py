"""What is wrong here and not with the request stands in the log, and in no answer."""

import json

import pytest

pytest.importorskip("starlette", reason="the extra 'server' is not installed")

from evolvent.core.errors import BadInput, ModelError, StoreError
from evolvent.serve.lanes import Busy
from evolvent.serve.problems import problem


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (
            StoreError("the disk is full", got="/srv/hidden", where="/srv/hidden/a.db", code="disk_full"),
            507,
            "disk_full",
        ),
        (StoreError("another process kept the memory locked", where="/srv/hidden/a.db", code="locked"), 503, "locked"),
        (ModelError("the embedder failed", got="hidden", code="embedder_failed"), 503, "embedder_failed"),
        (BadInput("the embedder gave NaN", where="hidden", code="bad_vectors"), 503, "bad_vectors"),
        (ZeroDivisionError("hidden"), 500, "defect"),
    ],
)
def test_what_is_wrong_here(error, status, code, caplog):
    answer = problem(error, "id1")
    found = json.loads(answer.body)
    assert (answer.status_code, found["status"], found["code"]) == (status, status, code)
    assert "hidden" not in answer.body.decode() and "hidden" in caplog.text and "id1" in caplog.text
    assert ("retry-after" in answer.headers) == (status != 500)


def test_busy_says_when_to_ask_again_and_is_no_line_of_the_log(caplog):
    answer = problem(Busy(2.2), "id1")
    assert (answer.status_code, answer.headers["retry-after"], caplog.text) == (503, "3", "")
