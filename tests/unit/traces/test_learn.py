"""Lessons from imported attempts: under review, at the prior, once."""

import json

import pytest

from evolvent.cli import main
from evolvent.cli.memory.learn import learn
from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory


@pytest.fixture
def folder(tmp_path):
    rows = [
        {"id": str(i), "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": f"task {i % 2}"},
                                    {"role": "assistant", "content": "same"}], **outcome}
        for i, outcome in enumerate([{"reward": 1}, {"reward": 0}, {"reward": 1}, {}, {"reward": 0.5}])
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["import", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "run")])
    return tmp_path / "run"


def test_lessons_are_under_review_at_the_prior_and_once(tmp_path, folder, capsys):
    store = tmp_path / "m.db"
    with Memory(store, embedder="hash") as memory:
        own = memory.remember("task 0", "same\n\n(it succeeded)", source="reviewer")
    learn(folder, store=store, plain=True)
    learn(folder, store=store, plain=True)
    assert "0 lessons under review, 3 known" in capsys.readouterr().out
    with Memory(store) as memory:
        rows = memory.bank.store.rows("SELECT seq, status, source, polarity, q_given FROM memory ORDER BY seq")
        assert [tuple(row)[1:] for row in rows] == [
            ("active", "reviewer", "neutral", 0),
            ("quarantined", "import:openai", "success", 0),
            ("quarantined", "import:openai", "failure", 0),
            ("quarantined", "import:openai", "mixed", 0),
        ]
        assert [one.id for one in memory.recall("task 0", k=4).items] == [own]
        memory.restore(["m2"], "read and right")
        assert {one.id for one in memory.recall("task 0", k=4).items} == {own, "m2"}
        assert not memory.bank.store.rows("SELECT * FROM value_event")


def test_a_folder_without_outcomes_teaches_nothing(tmp_path):
    row = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    main(["import", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "run")])
    with pytest.raises(BadInput, match="nothing to learn"):
        learn(tmp_path / "run", store=tmp_path / "m.db")
    assert not (tmp_path / "m.db").exists()
