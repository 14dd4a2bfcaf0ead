"""The runs in a folder: found, distinguished, ordered; what is broken is named and hides nothing else."""
# pyright: reportOptionalMemberAccess=false

import json
import os
import re
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.index import runs, state_of
from evolvent.evaluate.pages.index_page import render
from evolvent.running import page_of
from sample_language_run import sample_language_run
from sample_run import sample_run
from sample_search_run import sample_search_run
from sample_team_run import sample_team_run


def test_every_kind_of_run_is_listed_with_its_score_and_verdict(tmp_path):
    sample_run(tmp_path / "a")
    sample_team_run(tmp_path / "seeds" / "seed-0")
    sample_language_run(tmp_path / "b")
    sample_search_run(tmp_path / "c")
    found = {run.path: run for run in runs(tmp_path, page_of)}
    assert set(found) == {"a", "b", "c", "seeds/seed-0"}
    assert {run.state for run in found.values()} == {"finished"}
    assert re.fullmatch(r"\d+ % \[\d+, \d+\]", found["a"].score) and found["a"].verdict.state == "better"
    assert re.fullmatch(r"-\d+\.\d \[-\d+\.\d, -\d+\.\d\]", found["seeds/seed-0"].score)
    assert found["seeds/seed-0"].seconds == 130.0 and found["b"].algo == "poad"


def test_the_newest_stands_first(tmp_path):
    for number, day in enumerate(("20", "23", "21")):
        path = sample_run(tmp_path / str(number), tasks=4) / "config.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "started": f"2026-11-{day}T10:00:00+00:00"}))
    assert [run.path for run in runs(tmp_path, page_of)] == ["1", "2", "0"]


def test_a_run_is_running_while_it_is_written_and_stopped_when_nobody_does(tmp_path):
    path = sample_team_run(tmp_path / "r", summary=False)
    with RunFolder.open(path) as folder:
        folder.log(96_001, update=61, **{"return": 1.0})
        (run,) = runs(tmp_path, page_of)
        assert run.state == "running" and run.verdict.sentence.startswith("No verdict yet")
        assert run.score.startswith("-"), "its last evaluation"
    if Path("/proc/locks").exists():
        assert state_of(path) == "stopped", "at once, whether other processes hold locks or none does"


def test_where_locks_cannot_be_seen_a_run_that_wrote_lately_goes_on(tmp_path, monkeypatch):
    path, read = sample_team_run(tmp_path / "r", summary=False), Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, **how: "" if str(self) == "/proc/locks" else read(self, **how))
    assert state_of(path) == "running", "not even our own lock is noticed"
    os.utime(path / "metrics.jsonl", (1, 1))
    assert state_of(path) == "stopped"


def test_a_run_that_an_error_ended_says_so_until_it_goes_on(tmp_path):
    path = sample_team_run(tmp_path / "r", summary=False)
    folder = RunFolder.open(path)
    folder.fail(BadInput("the world broke", got="<b>"))
    (run,) = runs(tmp_path, page_of)
    assert run.state == "failed" and run.trouble == "the world broke"
    assert "1 failed" in (html := render("runs", [run], {})) and "the world broke" in html
    folder.truncate(10**9)
    assert state_of(path) != "failed" and folder.error == ""


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", '{"algo": 3', "not JSON"),
        ("config.json", '{"schema": 9}', "another version"),
        ("config.json", '{"schema": 1}', "KeyError"),
        ("summary.json", "[]", "something else"),
    ],
)
def test_a_broken_run_is_named_and_the_others_are_shown(tmp_path, name, content, says):
    sample_run(tmp_path / "good", tasks=4)
    sample_run(tmp_path / "bad", tasks=4)
    (tmp_path / "bad" / name).write_text(content)
    good, bad = runs(tmp_path, page_of)
    assert (good.path, good.state) == ("good", "finished")
    assert (bad.path, bad.state) == ("bad", "broken") and says in bad.trouble
    html = render("runs", [good, bad], {})
    assert "1 finished · 1 broken" in html and bad.trouble.split('"')[0][:20] in html


def test_a_run_whose_score_cannot_be_read_is_named(tmp_path):
    path = sample_run(tmp_path / "r", tasks=4)
    (path / "summary.json").write_text('{"score": {"value": "much"}}')
    (run,) = runs(tmp_path, page_of)
    assert (run.state, run.score) == ("finished", "–") and "could not be made: " in run.trouble
    assert "could not be made: " in render("runs", [run], {})


def test_a_folder_with_lines_but_no_settings_is_broken_and_a_model_is_no_run(tmp_path):
    sample_run(tmp_path / "r", tasks=4)
    (tmp_path / "r" / "config.json").unlink()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    assert [(run.path, run.state) for run in runs(tmp_path, page_of)] == [("r", "broken")]


@pytest.mark.parametrize("made", [True, False])
def test_nothing_there_is_an_error_that_helps(tmp_path, made):
    folder = tmp_path if made else tmp_path / "no"
    with pytest.raises(BadInput, match="no run in this folder" if made else "no such folder"):
        runs(folder, page_of)


def test_text_from_a_run_is_never_markup(tmp_path):
    path = sample_run(tmp_path / "<b>r", tasks=4)
    content = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**content, "algo": "<script>x</script>", "env": '"><img src=x>'}))
    html = render("<i>", runs(tmp_path, page_of), {"<b>r": 'javascript:"x'})
    assert "<script>x" not in html and "<img" not in html and "<b>r" not in html and "<i>" not in html
