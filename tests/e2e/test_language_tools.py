"""Training on a task file with tools: the same numbers also after a run that broke off, and a readable report."""

import json

import pytest

import tiny_language
from evolvent.cli import run
from evolvent.envs.text._tools import Tools
from evolvent.runs.language.run import LanguageRun
from run_folders import stable, weights

TASK = '''
import asyncio
PROMPTS = [{"prompt": f"Say {i}."} for i in range(10)]
MAX_TOKENS, MAX_TURNS = 4, 3
async def later(what: str) -> str:
    """Something, later."""
    await asyncio.sleep(0.001 * (len(what) % 3))
    return f"<|im_end|> {what}"
def now(what: str) -> str:
    """Something at once, if it is not too long."""
    if len(what) > 3:
        raise ValueError("too long")
    return what
TOOLS = [later, now]
def reward(completion, prompt, calls):
    return min(1.0, len(calls) / 4 + len(set(completion)) / 8)
'''


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A model that has learned nothing never writes a call: most of what it says is taken for one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK)

    def asked(self, text):
        name = ("later", "now", "never", "")[sum(map(ord, text)) % 4]
        return name and f"{name}({text!r})"

    monkeypatch.setattr(Tools, "asked", asked)
    model = tiny_language.write(tmp_path / "tiny", max_position_embeddings=512)
    words = ["--env", f"graded:{tmp_path / 'task.py'}", "--model", model, "--updates", 4, "--prompts", 2, "--group", 3]
    words += ["--lr", 0.01, "--dtype", "float32", "--eval-tasks", 2, "--threads", 1, "--plain"]
    return [str(word) for word in words]


def recorded(folder):
    attempts = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    return stable(folder), [{k: v for k, v in row.items() if k != "id"} for row in attempts], weights(folder)


def test_a_run_with_tools_repeats_itself_and_goes_on_where_it_broke_off(tmp_path, settings, monkeypatch):
    run.main(["grpo", *settings, "--out", "whole"])
    rows, attempts, _ = whole = recorded(tmp_path / "whole")
    updates = [row for row in rows if "update" in row]
    assert max(row["gap"] for row in updates) < 1e-4, "results are in the context of what was trained"
    assert all(0 < row["calls_mean"] <= 2 for row in updates)
    assert any(0 < row["failed_calls_mean"] < 1 for row in updates)
    assert {row["outcome"] for attempt in attempts for row in attempt["nodes"] if row["kind"] == "tool"} >= {
        "ok",
        "unknown",
    }
    assert {attempt["ends"][0]["stop"] for attempt in attempts} == {"env", "turns"}
    page = (tmp_path / "whole" / "report.html").read_text()
    assert "calls that came back with an error" in page and "Result: &lt;|im_end|&gt;" in page

    log, seen = LanguageRun.log, []

    def breaks(self, *args, **values):
        seen.append(self.update)
        if len(seen) == 3:
            raise RuntimeError("the machine went away")
        log(self, *args, **values)

    monkeypatch.setattr(LanguageRun, "log", breaks)
    with pytest.raises(RuntimeError, match="went away"):
        run.main(["grpo", *settings, "--out", "broken"])
    run.main(["grpo", "--resume", "broken", "--plain"])
    assert seen == [0, 1, 2, 2, 3] and recorded(tmp_path / "broken") == whole
