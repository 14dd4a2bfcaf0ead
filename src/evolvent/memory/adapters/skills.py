"""Skills of a folder as candidates: each SKILL.md under its name, by the cosine of its description and the task.

recall = memory.recall(task, candidates=candidates(memory, Path("skills"), task))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evolvent.memory.memory import Memory
from evolvent.memory.skills import read_skills
from evolvent.memory.text import content_hash, storable


def candidates(memory: Memory, folder: Path, task: str) -> list[dict[str, Any]]:
    """The skills of a folder, as ``read_skills`` reads them; of one that Evolvent exported, its lessons.

    Args:
        memory: whose embedder compares; a description is embedded once for as long as the memory is open.
        folder: one skill, or folders with one each.
        task: what the agent is asked.

    Errors are those of ``read_skills``.
    """
    rows = [
        (skill.name if i == 0 else f"{skill.name}#{i}", lesson)
        for skill in read_skills(folder)
        for i, lesson in enumerate(skill.lessons)
    ]
    texts = {content_hash(text): text for text in [storable(task), *(lesson["key"] for _, lesson in rows)]}
    vec = memory.bank.vectors(texts)
    asked = vec[content_hash(storable(task))]
    score = [float(asked @ vec[content_hash(lesson["key"])]) for _, lesson in rows]
    return [{"id": id_, "text": lesson["body"], "score": s} for (id_, lesson), s in zip(rows, score, strict=True)]
