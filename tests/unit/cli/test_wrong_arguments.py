"""Arguments that a command does not take get our own error; what a file or a number is not, is not called worse."""

import io

import pytest

from evolvent import Memory
from evolvent.cli import main
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, StoreError

BOX = set("│╭╮╰╯─")


def refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    err = capsys.readouterr().err
    assert stopped.value.code == 2 and err.startswith("error: ") and "Traceback" not in err, err
    return err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("memory audit", "a run folder with one"),
        ("memory explain x.db", "ID"),
        ("memory frobnicate x.db", "audit, search"),
        ("memory audit x.db --top many", "'many'"),
        ("eval --foo", "folder"),
        ("eval runs/a --episodes few", "few"),
        ("demo --nope", "--nope"),
        ("runs a b c", "b"),
        ("credit", "--rule"),
        ("sandbox run", "Python program"),
        ("sandbox walk", "walk"),
        ("check env", "NAME|STR"),
        ("list --all", "--all"),
        ("export verl", "--out"),
        ("run mat --steps many", "'many'"),
        ("run memlift --train 1.5", "1.5"),
    ],
)
def test_no_boxes_but_an_error_as_all_others(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    err = refused(arguments.split(), capsys)
    assert not BOX & set(err) and any(one in err for one in message.split("|")), err
    assert "  where: evolvent" in err and "--help" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run search --model remote:gpt@http://localhost:9 --value judge", "a remote model cannot score words"),
        ("run search --search beam beam", "searches"),
        ("run search --search beem", "did you mean 'beam'"),
    ],
)
def test_what_settings_refuse_is_told_line_by_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    err = refused(arguments.split(), capsys)
    assert message in err and "parsing" not in err and "\n  expected: " in err, err
    assert not list(tmp_path.iterdir())


def test_help_is_help_still(capsys):
    for arguments in (["eval", "--help"], ["memory", "audit", "--help"], ["check", "--help"], ["run", "mat", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert not stopped.value.code and "usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [b"def answer(prompt):\n    return 'yes'\n" * 9, b"PK\x03\x04" + b"z" * 200, "ü".encode() * 60],
)
def test_a_file_that_is_no_memory_is_not_called_a_damaged_one(content, tmp_path, capsys):
    (tmp_path / "agent.py").write_bytes(content)
    err = refused(["memory", "audit", str(tmp_path / "agent.py")], capsys)
    assert "not an Evolvent memory" in err and "damaged" not in err and "run folder" in err
    with pytest.raises(StoreError, match="not an Evolvent memory"):
        Memory(tmp_path / "agent.py", embedder="hash")
    assert (tmp_path / "agent.py").read_bytes() == content


@pytest.mark.parametrize(("start", "size"), [(0, 16), (0, 4), (70, 30)])
def test_a_memory_whose_head_is_damaged_is_called_damaged(start, size, tmp_path):
    with Memory(tmp_path / "m.db", embedder="hash") as memory:
        memory.remember("a", "b")
    content = bytearray((tmp_path / "m.db").read_bytes())
    content[start : start + size] = b"\xff" * size
    (tmp_path / "m.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|not an Evolvent memory|version") as caught:
        Memory(tmp_path / "m.db", embedder="hash")
    assert "damaged" in str(caught.value) or start


@pytest.mark.parametrize("subject", ["m99", "r99", "nothing", "m0", "7"])
def test_explain_says_where_ids_come_from(subject, tmp_path, capsys):
    with Memory(tmp_path / "m.db", embedder="hash") as memory:
        memory.remember("a", "b")
    err = refused(["memory", "explain", str(tmp_path / "m.db"), subject], capsys)
    assert "  do: " in err


@pytest.mark.parametrize("arguments", [["audit"], ["frobnicate"], ["audit", "x", "--nope", "y"], []])
def test_rules_of_minus_signs_are_no_part_of_the_error(arguments, monkeypatch):
    """Where output takes ASCII alone, or is no file, the boxes are drawn with it."""
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with pytest.raises(BadInput) as refusal:
        parsed({"audit": lambda path: path, "list": lambda path: path}, arguments, "prog")
    assert "---" not in str(refusal.value)
