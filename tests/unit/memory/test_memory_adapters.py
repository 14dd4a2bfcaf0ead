"""Other memories, each real, through ``recall(candidates=…)``: a null one makes no difference, a planted one helps."""

import os
import random
import secrets

import pytest

from evolvent import Memory
from evolvent.memory.adapters import langgraph, mem0, skills
from evolvent.memory.embedders import Hashing
from evolvent.memory.maintenance.verify import verify

LESSONS = {
    "reset the router": "hold the button for ten seconds",
    "print a page": "choose the second tray",
    "call a customer": "look up the time zone first",
}
EMBEDDER = Hashing(64)


def lifted(offered, adds, n):
    """The lift after attempts of which a lesson that is shown raises the success rate by ``adds``."""
    rng, tasks = random.Random(7), list(LESSONS)
    with Memory(embedder=EMBEDDER, holdout=0.4) as memory:
        for number in range(n):
            task = tasks[number % 3]
            recall = memory.recall(task, candidates=offered(memory, task), task_id=f"case {number}", k=1)
            right = any(LESSONS[task] in item.body for item in recall)
            memory.settle(recall, rng.random() < 0.4 + adds * right)
        assert verify(memory) == []
        return memory.lift()


def judged(offered):
    """Both verdicts."""
    null = lifted(offered, 0.0, 400)
    assert null.verdict in ("too early", "no difference") and null.data["with"]["n"] > 200
    assert lifted(offered, 0.5, 200).verdict == "helps"


@pytest.fixture(autouse=True)
def draws(monkeypatch):
    """The same draws in every run."""
    monkeypatch.setattr(secrets, "token_hex", lambda n=None: "5a17" * 8)


def test_a_folder_of_skills(tmp_path):
    pytest.importorskip("yaml")
    for task, lesson in LESSONS.items():
        home = tmp_path / task.replace(" ", "-")
        home.mkdir()
        (home / "SKILL.md").write_text(f"---\nname: {home.name}\ndescription: {task}\n---\n\n# How\n\n{lesson}\n")
    judged(lambda memory, task: skills.candidates(memory, tmp_path, task))
    with Memory(embedder=EMBEDDER) as memory:
        found = memory.recall("print a page", candidates=skills.candidates(memory, tmp_path, "print a page"))
        assert found.ids[0] == "print-a-page" and found[0].relevance == pytest.approx(1.0)


def test_lessons_that_were_exported_as_a_skill(tmp_path):
    pytest.importorskip("yaml")
    from evolvent.memory.skills import export_skills

    with Memory(embedder=EMBEDDER) as memory:
        for task, lesson in LESSONS.items():
            memory.remember(task, lesson)
        export_skills(memory, tmp_path, least_outcomes=0)
        found = skills.candidates(memory, tmp_path, "print a page")
        assert {one["id"] for one in found} == {"case", "case#1", "case#2"}
        assert memory.recall("print a page", candidates=found)[0].body == LESSONS["print a page"]


@pytest.mark.frameworks
def test_a_store_of_langgraph():
    store = pytest.importorskip("langgraph.store.memory").InMemoryStore(
        index={"dims": 64, "embed": lambda texts: EMBEDDER.embed(texts).tolist(), "fields": ["task"]}
    )
    for number, (task, lesson) in enumerate(LESSONS.items()):
        store.put(("u7", "lessons"), f"k{number}", {"task": task, "lesson": lesson})
    judged(lambda memory, task: langgraph.candidates(store, ("u7",), task, field="lesson"))
    with Memory(embedder=EMBEDDER) as memory:
        recall = memory.recall("print a page", candidates=langgraph.candidates(store, ("u7",), "print a page", most=2))
        assert recall.ids[0] == "u7.lessons/k1" and '"lesson": "choose the second tray"' in recall[0].body
        assert langgraph.candidates(store, ("nobody",), "print a page") == []


def test_mem0_itself(tmp_path, monkeypatch):
    for name, value in {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path), "OPENAI_API_KEY": "unused"}.items():
        monkeypatch.setitem(os.environ, name, value)
    package = pytest.importorskip("mem0", reason="its extra does not live beside the others")
    from mem0.embeddings.base import EmbeddingBase

    class Ours(EmbeddingBase):
        def embed(self, text, memory_action=None):
            return EMBEDDER.embed([text])[0].tolist()

    at = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": 64, "on_disk": True}
    config = {"vector_store": {"provider": "qdrant", "config": at}, "history_db_path": str(tmp_path / "history.db")}
    store = package.Memory.from_config(config)
    store.embedding_model = Ours()
    ids = {}
    for task, lesson in LESSONS.items():
        (made,) = store.add(f"{task}: {lesson}", user_id="u7", infer=False)["results"]
        ids[task] = made["id"]
    judged(lambda memory, task: mem0.candidates(store, task, {"user_id": "u7"}, threshold=0.0))
    with Memory(embedder=EMBEDDER) as memory:
        recall = memory.recall("print a page", candidates=mem0.candidates(store, "print a page", {"user_id": "u7"}))
        assert recall.ids[0] == ids["print a page"] and 0.0 < recall[0].relevance <= 1.0
        memory.settle(recall, 1.0)
        store.update(recall.ids[0], data="print a page: choose the third tray")
        again = memory.recall("print a page", candidates=mem0.candidates(store, "print a page", {"user_id": "u7"}))
        assert again.ids[0] == recall.ids[0] and again[0].n == 0  # another text begins anew
        assert mem0.candidates(store, "print a page", {"user_id": "nobody"}) == []
    store.close()
