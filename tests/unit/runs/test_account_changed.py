"""One task before learning and after it: which one is shown, and how many changed."""

from evolvent.core.episode import Episode
from evolvent.evaluate.blocks import Pair, Section, Text
from evolvent.runs.account import changed
from evolvent.runs.account.tasks import Seen


def rows(before, after, **more):
    """Attempts at tasks a, b, …: 1 right, 0 wrong; ``None``: nobody judges."""
    both = [("before", before), ("after", after)]
    return [
        {"phase": phase, "task": task, "step": 100 * (phase == "after") + i, "success": won, **more}
        for phase, outcomes in both
        for i, (task, won) in enumerate(zip("abcdefgh", outcomes, strict=False))
    ]


def said(found):
    """All words of blocks, sections inside too."""
    out = []
    for one in found:
        if isinstance(one, Section):
            out += [one.title, *said(one.blocks)]
        elif isinstance(one, Text):
            out += one.lines
        elif isinstance(one, Pair):
            out += [*one.names, *one.texts]
    return out


def attempts(of):
    return {row["step"]: Seen(f"question {row['task']}", (f"{row['phase']} {row['task']}",)) for row in of}


def test_the_first_that_changed_is_shown_and_the_first_the_other_way_too():
    of = rows([1, 1, 0, 0, 0], [1, 0, 1, 1, 0])
    ((section),) = changed.example(of, attempts(of))
    told = said([section])
    assert told[1] == (
        "Of 5 held-out tasks 2 changed from wrong to right and 1 from right to wrong; 1 were right both times, 1 wrong "
        "both times. This is the first that changed."
    )
    assert told[2:7] == ["question b", "before: right", "after: wrong", "before b", "after b"]
    assert told[7:11] == ["The first that changed the other way", "question c", "before: wrong", "after: right"]
    assert told[11:] == ["before c", "after c"]


def test_where_nothing_changed_it_says_so():
    of = rows([1, 0, 0], [1, 0, 0])
    assert said(changed.example(of, {})) == [
        "One task, before and after",
        "No outcome changed: of 3 held-out tasks 1 were right both times, 2 wrong both times.",
    ]
    assert changed.example([], {}) == changed.example(rows([1, 0], []), {}) == []


def test_what_broke_is_no_outcome():
    of = rows([0, 0], [1, 1])
    of[2]["valid"] = 0
    assert "Of 1 held-out task 1 changed from wrong to right" in said(changed.example(of, {}))[1]


def test_returns_are_compared_where_nobody_judges():
    of = [
        {**row, "success": None, "reward": x} for row, x in zip(rows([0] * 3, [0] * 3), (1, 2, 3, 1, 1, 5), strict=True)
    ]
    told = said(changed.example(of, attempts(of)))
    assert "1 changed to a higher return and 1 to a lower return; 1 came out as before" in told[1]
    assert told[3:5] == ["before: return 2", "after: return 1"]


def test_what_is_known_besides_the_answer():
    of = rows([0], [1])
    known = {
        0: Seen("q" * 2000, ("no",), words="Syntax error.", cut=True),
        100: Seen("q", ("yes",), shown=("m1", "m2")),
    }
    told = said(changed.example(of, known))
    assert told[-1] == (
        "Before: Syntax error; the answer was cut off by its length. After: with the memories m1, m2 in the prompt."
    )
    known[100] = Seen("q" * 2000, ("",))
    told = said(changed.example(of, known))
    assert "…" in told[2] and len(told[2]) < 1300 and told[6] == "(nothing was answered)"


def test_attempts_are_kept_and_read(tmp_path):
    def episode(task, reward, success):
        made = Episode(task, env="e", id=f"{task}{reward}", meta={"words": "well"})
        made.observe("ask")
        made.act("answer", reward=reward)
        made.end(terminated=True, success=success)
        return made

    changed.write(tmp_path, "before", [episode("a", 0.0, False), episode("b", 0.5, None)])
    for number in range(2):  # the newest counts
        changed.write(tmp_path, "after", [episode("a", 1.0 - number, True)])
    found, seen = changed.read(tmp_path)
    assert [(row["phase"], row["task"], row["success"], row["reward"]) for row in found] == [
        ("before", "a", False, 0.0),
        ("before", "b", None, 0.5),
        ("after", "a", True, 0.0),
    ]
    assert seen[2] == Seen("ask", ("answer",), words="well")
    assert changed.read(tmp_path / "none") == ([], {})
