"""Tools and logged calls of a stranger, through the command line: rows, their check, pickers, a memory that learns."""

import json
import re
from functools import partial
from pathlib import Path

import command

from evolvent.testing.chat import ChatServer, said

evolvent = partial(command.evolvent)
EXAMPLE = Path(__file__).parents[2] / "examples" / "functions"


def table(out, title):
    """The cells of a table's lines, by the first cell."""
    lines = out[out.index(title) :].splitlines()[3:]
    return {
        cells[0]: cells[1:]
        for line in lines[: lines.index("") if "" in lines else 9]
        if (cells := re.split(r" {2,}", line.strip()))
    }


def made(tmp_path, *flags):
    out, _ = evolvent(
        "data",
        "functions",
        str(EXAMPLE / "tools.json"),
        str(EXAMPLE / "calls.jsonl"),
        *flags,
        "--out",
        "fc",
        "--plain",
        cwd=tmp_path,
    )
    return out


def test_the_example_becomes_rows_that_pass_their_check(tmp_path):
    out = made(tmp_path, "--mask", ".67", "--irrelevant", ".1", "--copies", "3")
    rows = [json.loads(line) for line in (tmp_path / "fc" / "rows.jsonl").read_text().splitlines()]
    train = [json.loads(line) for line in (tmp_path / "fc" / "train.jsonl").read_text().splitlines()]
    by_split = {
        name: [r for r in rows if r["split"] == name and r.get("because")] for name in ("train", "heldout", "unseen")
    }
    shown = table(out, "\nrows\n")
    for name, of in by_split.items():
        calls = sum(bool(row["gold"]) for row in of)
        assert shown[name][:2] == [str(calls), str(len(of) - calls)] and of
    assert len(train) == 3 * len(by_split["train"])
    masked = sum(row["mask"] is not None for row in train)
    assert 0.5 < masked / len(train) < 0.85 and f"{masked} of them with random names" in out
    assert all(row["messages"][-1]["role"] == "assistant" and row["tools"] for row in train)
    again = made(tmp_path, "--mask", ".67", "--irrelevant", ".1", "--copies", "3")
    assert again == out and train == [
        json.loads(line) for line in (tmp_path / "fc" / "train.jsonl").read_text().splitlines()
    ]
    out, _ = evolvent("check", "functions", "fc", "--html", "fc.html", "--plain", cwd=tmp_path)
    assert "fc: no fault" in out and out.count("masked: ") == 3 and "as trained" in out
    page = (tmp_path / "fc.html").read_text()
    assert "Calls of functions in fc" in page and page.count("<summary>masked: ") > 10
    one = next(row for row in train if row["mask"] and "tool_calls" in row["messages"][-1])
    assert one["messages"][-1]["tool_calls"][0]["function"]["name"] in page, "the names that are trained"
    _, error = evolvent("check", "functions", "fc", "--html", "gone/fc.html", cwd=tmp_path, code=2)
    assert "the page cannot be written" in error and "create its folder" in error


def test_a_row_that_was_tampered_with_is_found(tmp_path):
    made(tmp_path, "--mask", "1")
    path = tmp_path / "fc" / "train.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    fields = next(line for line in lines if "tool_calls" in line["messages"][-1])
    fields["messages"][-1]["tool_calls"][0]["function"]["arguments"] = json.dumps({"nobody_knows": 1})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out, _ = evolvent("check", "functions", "fc", "--plain", cwd=tmp_path, code=1)
    assert "nobody_knows: not in the schema" in out and f"is not {fields['id']} under other names" in out


def test_without_a_verdict_the_command_says_what_can_be_done(tmp_path):
    lines = [json.loads(line) for line in (EXAMPLE / "calls.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("outcome", None)
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    (tmp_path / "judge.py").write_text("def judge(asked):\n    return 'error' not in str(asked['results'])\n")
    args = ("data", "functions", str(EXAMPLE / "tools.json"), "calls.jsonl", "--out", "fc", "--plain")
    out, _ = evolvent(*args, cwd=tmp_path)
    assert "nothing to train on" in out and "--accept" in out and "--judge FILE:FN" in out
    assert re.search(rf"lines left out: not JSON +1 +calls.jsonl:{len(lines) + 1}", out)
    assert (tmp_path / "fc" / "train.jsonl").read_text() == ""
    _, error = evolvent("check", "env", "functions:fc", cwd=tmp_path, code=2)
    assert "judge=FILE:FN" in error
    for flags, why in ((["--accept"], "a result without an error"), (["--judge", "judge.py:judge"], "the judge")):
        out, _ = evolvent(*args, *flags, cwd=tmp_path)
        assert f"right: {why}" in out and (tmp_path / "fc" / "train.jsonl").read_text()


def test_an_imported_trace_is_a_log_too(tmp_path):
    lines = [json.loads(line) for line in (EXAMPLE / "calls.jsonl").read_text().splitlines()]
    told = [{**line, "success": line.pop("outcome")} for line in lines if "outcome" in line]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    evolvent("import", "traces.jsonl", "--from", "openai", "--out", "runs/x", "--plain", cwd=tmp_path)
    out, _ = evolvent(
        "data", "functions", str(EXAMPLE / "tools.json"), "runs/x", "--out", "fc", "--plain", cwd=tmp_path
    )
    direct = made(tmp_path)
    for text in (out, direct):
        assert "right: field outcome" in text
    counted = [re.search(r"right: field outcome +(\d+)", text)[1] for text in (out, direct)]
    assert counted[0] == counted[1]


def test_bad_input_says_what_to_do(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "two.json").write_text(
        json.dumps([{"name": "a", "parameters": {}}, {"name": "a", "description": "other", "parameters": {}}])
    )
    tools = str(EXAMPLE / "tools.json")
    calls = str(EXAMPLE / "calls.jsonl")
    for arguments, words in (
        ((tools, "empty.jsonl", "--out", "fc"), "the log is empty"),
        (("two.json", calls, "--out", "fc"), "two tools have one name"),
        ((tools, "gone.jsonl", "--out", "fc"), "cannot be read"),
        ((tools, calls, "--out", "fc", "--mask", "67"), "not a share"),
        ((tools, calls, "--out", "."), "something else is there"),
        ((tools, tools, "--out", "fc"), "no decision could be read"),
    ):
        _, error = evolvent("data", "functions", *arguments, cwd=tmp_path, code=2)
        assert words in error, (arguments, error)
        assert not (tmp_path / "fc").exists()
    _, error = evolvent("data", "tables", cwd=tmp_path, code=2)
    assert "evolvent data functions" in error


def test_memory_learns_to_call_from_corrections(tmp_path):
    """A model that can only repeat what it is shown: what was corrected once is right in the second pass."""
    made(tmp_path)

    def answer(body):
        head, request = said(body["messages"][0]), said(body["messages"][-1])
        assert body["tools"] and all(tool["type"] == "function" for tool in body["tools"])
        known = re.findall(rf"{re.escape(request)}\nCalls: (\[.*\])", head)
        return known[-1] if known else "[]"

    with ChatServer(answer) as chat:
        model = f"remote:any@{chat.base_url}"
        out, _ = evolvent(
            "run", "memlift", "--env", "functions:fc", "--model", model, "--train", 8, "--heldout", 2, "--passes", 2,
            "--no-control", "--out", "run", "--plain", cwd=tmp_path,
        )  # fmt: skip
    passes = {line.split()[0]: line for line in out.splitlines() if re.match(r" +[12] +8 ", line)}
    assert re.match(r" +2 +8 +100 %", passes["2"]) and not re.match(r" +1 +8 +100 %", passes["1"])


def test_the_formats_on_the_page_are_read(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "functions.md").read_text("utf-8")
    tools, calls = re.findall(r"^```json\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "tools.json").write_text(tools)
    (tmp_path / "calls.jsonl").write_text(calls)
    args = ("data", "functions", "tools.json", "calls.jsonl", "--accept", "--mask", "1", "--plain")
    out, _ = evolvent(*args, "--unseen", 0, "--heldout", 0, "--out", "fc", cwd=tmp_path)
    assert "5 decisions" in out and "nobody says" not in out and "left out" not in out
    verdicts = {"right: field outcome": "3", "right: a result without an error": "1", "right: xLAM's answers": "1"}
    assert all(re.search(rf"{what} +{n}\n", out) for what, n in verdicts.items())
    rows = [json.loads(line) for line in (tmp_path / "fc" / "rows.jsonl").read_text().splitlines()]
    assert [call["name"] for row in rows for call in row["gold"]] == ["book", "cancel", "hours", "menu"]
    out, _ = evolvent("check", "functions", "fc", "--plain", cwd=tmp_path)
    assert "fc: no fault" in out
