"""`evolvent teams channels` as a user runs it."""

from __future__ import annotations

import json

from command import evolvent


def lines(questions: int = 24) -> str:
    """Three agents: ann and her copy are right but for each third question, bob but for each fourth."""
    rows = []
    for q in range(questions):
        for agent, right in (("ann", q % 3 > 0), ("ann#2", q % 3 > 0), ("bob", q % 4 > 0)):
            answer = "yes" if right else f"no, {agent[:3]}"
            rows.append({"question": f"q{q}", "agent": agent, "answer": answer, "right": right, "tokens": 10})
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_words_first_then_tables_json_and_a_page(tmp_path):
    (tmp_path / "answers.jsonl").write_text(lines())
    out, _ = evolvent("teams", "channels", "answers.jsonl", "--embedder", "hash", "--html", "page.html", cwd=tmp_path)
    assert out.index("3 agents, 24 questions") < out.index("best single (bob): 75 %") < out.index("By number of agents")
    assert "With plain majority vote two agents score the mean of the two" in out
    assert "under hash:256" in out and "one text repeated 1" in out
    assert "correlation is not worth" in out and "evolvent.worth(" in out
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "correlation is not worth" in page and "ann#2" in page
    said, _ = evolvent(
        "teams", "channels", "answers.jsonl", "--json", "--embedder", "none", "--html", "page.html", cwd=tmp_path
    )
    data = json.loads(said)
    assert data["by_number"][0]["vote"][0] == data["by_number"][1]["vote"][0]  # two score the mean
    assert data["agents"][0]["tokens"] == 10 and "texts" not in data["k_star"]
    one = [pair["value"] for pair in data["error_correlation"]["pairs"] if pair["agents"] == ["ann", "ann#2"]]
    assert round(one[0], 9) == 1


def test_errors_name_the_line_and_the_way_out(tmp_path):
    (tmp_path / "answers.jsonl").write_text(lines() + '{"question": "q1", "agent": "bob", "answer": 3}\n')
    _, error = evolvent("teams", "channels", "answers.jsonl", cwd=tmp_path, code=2)
    assert "no 'right'" in error and "answers.jsonl:73" in error
    (tmp_path / "answers.jsonl").write_text(lines() + "{\n")
    assert "not JSON" in evolvent("teams", "channels", "answers.jsonl", cwd=tmp_path, code=2)[1]
    (tmp_path / "answers.jsonl").write_text("")
    assert "no answers" in evolvent("teams", "channels", "answers.jsonl", cwd=tmp_path, code=2)[1]
    for words, said in (
        (("channels", "none.jsonl"), "there is no such file"),
        (("channels", "answers.jsonl", "--html", "answers.jsonl"), "a page cannot be written there"),
        (("chanels",), "unknown command"),
        ((), "expected: channels"),
    ):
        assert said in evolvent("teams", *words, cwd=tmp_path, code=2)[1]
    assert "for example: evolvent teams channels" in evolvent("teams", "--help", cwd=tmp_path)[0]
