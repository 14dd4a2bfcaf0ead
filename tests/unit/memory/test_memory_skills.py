"""Memories as SKILL.md and back; what stands in a skill is data, whatever it holds."""

from __future__ import annotations

import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput
from evolvent.memory.policies import preset
from evolvent.memory.skills import FILE, export_skills, import_skills, read_skills

yaml = pytest.importorskip("yaml")
BODIES = [
    "plain",
    "two\nlines\n\nand more",
    "```python\nprint('x')\n```",
    "````\n--> <!-- evolvent {} -->\n````",
    "---\nname: other\n---",
    "ends with a tick `",
    "Ünïcode — 漢字 \u202e x",
]


def filled(path, policy="rag"):
    memory = Memory(path, embedder="hash", policy=policy)
    for i, body in enumerate(BODIES):
        memory.remember(f"question {i} --> of <b>{body[:5]}</b>\nsecond line", body, metadata={"n": i}, merge=None)
    return memory


def test_there_and_back_is_the_same(tmp_path):
    with filled(tmp_path / "a.db") as memory:
        (path,) = export_skills(memory, tmp_path / "skills", least_outcomes=0)
        before = sorted((i.key, i.body, i.kind, i.polarity, i.metadata["n"]) for i in memory.items())
    head = yaml.safe_load(path.read_text().split("\n---\n")[0])
    assert head["name"] == path.parent.name == "case" and 0 < len(head["description"]) <= 1024
    with Memory(tmp_path / "b.db", embedder="hash") as other:
        first = import_skills(other, tmp_path / "skills")
        assert import_skills(other, tmp_path / "skills") == first  # twice is once
        found = other.items()
        assert sorted((i.key, i.body, i.kind, i.polarity, i.metadata["n"]) for i in found) == before
        assert {i.source for i in found} == {"skills"} and all(i.n == 0 for i in found)


def test_the_best_of_a_kind_with_what_they_are_worth(tmp_path):
    with filled(tmp_path / "a.db", policy=preset("memrl", gate=-1.0)) as memory:
        for reward in (1.0, 1.0, 0.0):
            recall = memory.recall("question 1", k=2)
            memory.settle(recall, reward)
        memory.remember("never tried", "x", kind="script")
        (path,) = export_skills(memory, tmp_path / "skills", most=1)
        text = path.read_text()
        assert text.count("## For:") == 1 and "after 3 outcomes" in text and "not measured" in text
        with pytest.raises(BadInput, match="nothing to export"):
            export_skills(memory, tmp_path / "none", kinds=["script"])
    assert not (tmp_path / "none").exists()


def test_what_is_shown_to_harm_is_not_exported_and_nothing_is_called_right(tmp_path):
    with Memory(embedder="hash", policy=preset("memlift", omit=0.5, omit_n0=1e6, hide=0.0)) as memory:
        for body, key in (("use the index", ""), ("read the log", " now"), ("drop the table", " and nobody knows why")):
            memory.remember(f"the query is slow{key}", body)
        for _ in range(200):
            recall = memory.recall("the query is slow", k=3)
            memory.settle(recall, "drop the table" not in [item.body for item in recall])
        rows = {memory.get(row["id"]).body: row for row in memory.lift("item").to_dict()["items"]}
        assert rows["drop the table"]["named"] == "harms"
        (path,) = export_skills(memory, tmp_path / "skills")
    text = path.read_text()
    assert "drop the table" not in text and "use the index" in text
    assert "proved right" not in text and "2 lessons, the most valuable first" in text


def test_a_skill_of_others_is_one_memory_under_its_description(tmp_path):
    home = tmp_path / "pdf"
    home.mkdir()
    (home / FILE).write_text(
        "---\nname: pdf\ndescription: >\n  Fill forms\n  in PDF files.\nlicense: MIT\n---\n\n# How\n\nUse the tool.\n"
    )
    with Memory(tmp_path / "a.db", embedder="hash") as memory:
        (id_,) = import_skills(memory, tmp_path)
        item = memory.get(id_)
        assert (item.key, item.body, item.kind) == ("Fill forms in PDF files.", "# How\n\nUse the tool.", "skill")
        assert memory.recall("fill forms in PDF files", policy="rag").ids == [id_]


def test_a_skill_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path):
    (tmp_path / FILE).write_bytes("\ufeff---\r\nname: x\r\ndescription: how to\r\n---\r\nbody".encode())
    assert [skill.name for skill in read_skills(tmp_path)] == ["x"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no skill"),
        ("# Title\n", "no skill"),
        ("---\nname: x\n---\n", "no skill"),
        ("---\nname: [x\n---\nbody", "no YAML"),
        ("---\n" + "[" * 5000 + "\n---\nbody", "no YAML"),
        ("---\nname: 1\ndescription: 2\n---\n", "no skill"),
        (
            '---\nname: x\ndescription: y\nmetadata: {evolvent: "1"}\n---\n<!-- evolvent {"a": 1} -->\n'
            "```text\nz\n```\n",
            "damaged",
        ),
        ("---\nname: x\ndescription: y\n---\n" + "z" * (1 << 20), "too long"),
    ],
)
def test_what_is_no_skill_is_refused_and_nothing_is_remembered(tmp_path, text, match):
    for name, content in (("a", "---\nname: a\ndescription: fine\n---\nbody"), ("b", text)):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(content)
    with Memory(tmp_path / "m.db", embedder="hash") as memory:
        with pytest.raises(BadInput, match=match):
            import_skills(memory, tmp_path)
        assert memory.items() == []


def test_links_and_empty_folders(tmp_path):
    (tmp_path / "secret.md").write_text("---\nname: a\ndescription: b\n---\nc")
    (tmp_path / "skills" / "x").mkdir(parents=True)
    (tmp_path / "skills" / "x" / FILE).symlink_to(tmp_path / "secret.md")
    for folder in (tmp_path / "skills", tmp_path / "gone"):
        with pytest.raises(BadInput):
            read_skills(folder)
