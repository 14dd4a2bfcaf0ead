"""What a memory adds is said by one function: ``audit`` and a run's page are as cautious as ``explain``."""

import json
import random

import pytest

from evolvent import Memory
from evolvent.cli import main
from evolvent.cli.memory.audit import audit
from evolvent.cli.memory.look import _tell
from evolvent.evaluate.live import Live
from evolvent.evaluate.pages.draw import draw
from evolvent.memory.policies import preset
from evolvent.runs.account.memories import valuable
from evolvent.runs.memory.summary import _row


def lived(path, effect, n, seed):
    """A store with two notes, left out now and then: the second one changes the reward by ``effect``."""
    draw = random.Random(seed)
    policy = preset("memlift", hide=0.0, omit=0.4, omit_n0=1e9)
    memory = Memory(path, embedder="hash", seed=seed, policy=policy)
    for word in ("one", "two"):
        memory.remember(f"how to open the door, way {word}", f"push {word}")
    for _ in range(n):
        recall = memory.recall("how to open the door", k=2)
        memory.settle(recall, float(draw.random() < 0.5 + effect * ("m2" in recall.ids)))
    return memory


@pytest.mark.parametrize(("effect", "n"), [(0.0, 12), (0.0, 60), (0.45, 120), (-0.45, 120)])
@pytest.mark.parametrize("seed", [0, 1])
def test_audit_says_too_early_where_explain_does(effect, n, seed, tmp_path, capsys):
    with lived(tmp_path / "m.db", effect, n, seed) as memory:
        data = audit(memory, top=5)
        rows = [*data["most_valuable"], *data["least_valuable"]]
        assert any(row["adds"] for row in rows)
        for row in rows:
            said = str(memory.explain(row["id"]))
            assert (row["adds"] in said) if row["adds"] else row["lift"] is None, (row, said)
            assert ("too early to say" in row["adds"]) == ("too early to say" in said)
            page = draw(valuable({"top_memories": [_row(memory, memory.get(row["id"]))]}), tmp_path)
            assert "lift" not in page and ("too early to say" in page) == ("too early to say" in said)
        with Live(plain=True) as live:
            _tell(live, data)
        out = capsys.readouterr().out
        for row in rows:
            assert row["lift"] is None or f"{row['lift']:.4f}" not in out


def test_the_command_says_and_draws_what_lift_does(tmp_path, capsys):
    path, page = tmp_path / "m.db", tmp_path / "lift.html"
    with Memory(path, embedder="hash", holdout=0.5) as memory:
        memory.remember("how to open the door", "push <it>")
        for number in range(60):
            recall = memory.recall("how to open the door")
            memory.settle(recall, bool(recall) or number % 5 == 0)
    main(["memory", "lift", str(path), "--by", "week", "--html", str(page)])
    with Memory(path) as memory:
        found = memory.lift("week")
    assert found.verdict == "helps" and str(found) in capsys.readouterr().out
    drawn = page.read_text("utf-8")
    assert "Your memory helps" in drawn and "<it>" not in drawn and "<svg" in drawn
    main(["memory", "lift", str(path), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["lift"], said["with"]["n"] + said["without"]["n"]) == (found.lift, 60)
