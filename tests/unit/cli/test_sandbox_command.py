"""`evolvent sandbox`: one program run and reported; what the machine can do."""

import importlib.util
import json
import shutil
import sys

import pytest

from evolvent.cli import main


@pytest.fixture(autouse=True)
def no_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)


def program(tmp_path, text, name="p.py"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_program_is_run_and_its_result_printed(tmp_path, capsys):
    main(["sandbox", "run", program(tmp_path, "import sys; print(sys.argv[1:])"), "a", "b"])
    out = capsys.readouterr().out
    assert "stdout: ['a', 'b']" in out and "p.py: ok" in out and "own" in out


SEQUENCES = (
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b31m",
    "\u202ertl",
    "\x08",
    "\rover",
    "\x7f",
    "\x1bc",
    "\x00",
    "\x85",
)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_what_a_terminal_would_obey_is_printed_as_it_is_written(tmp_path, capsys, arguments, sequence):
    text = (
        f"import os, sys\nfor out in (sys.stdout, sys.stderr): out.write('a ' + {sequence!r} + ' b\\nc\\n')\n"
        f"os.symlink('/', 'l' + {sequence!r}.replace(chr(0), ''))"
    )
    main(
        [
            "sandbox",
            "run",
            program(tmp_path, text),
            *arguments,
            *([] if arguments else ["--collect", str(tmp_path / "new")]),
        ]
    )
    printed = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in printed.out + printed.err), printed.out
    if arguments:
        found = json.loads(printed.out)
        assert found["stdout"] == found["stderr"] == f"a {sequence} b\nc\n"
    else:
        assert printed.out.count(f"a {ascii(sequence)[1:-1]} b") == 2 and "stdout: c" in printed.out


def test_what_is_typed_comes_back_as_it_is_written(capsys):
    with pytest.raises(SystemExit):
        main(["sandbox", "run", "no\x1b[31m.py"])
    assert r"no\x1b[31m.py" in capsys.readouterr().err


def test_a_program_that_fails_makes_the_command_fail_and_files_are_brought_back(tmp_path, capsys):
    path = program(
        tmp_path, "open('out.txt', 'w').write('x')\nimport os; os.mkdir('d'); os.symlink('/etc', 'd/l')\n1/0"
    )
    with pytest.raises(SystemExit) as end:
        main(["sandbox", "run", path, "--json", "--collect", str(tmp_path / "new")])
    printed = json.loads(capsys.readouterr().out)
    assert end.value.code == 1 and printed["status"] == "failed" and "ZeroDivisionError" in printed["stderr"]
    assert sorted(p.name for p in (tmp_path / "new").rglob("*")) == ["out.txt", "p.py"] and printed["left"] == ["d/l"]


def test_limits_are_flags_and_a_shell_script_is_one(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["sandbox", "run", program(tmp_path, "sleep 60", "p.sh"), "--wall", "0.5"])
    assert "time" in capsys.readouterr().out


def test_without_a_sandbox_the_output_says_so(tmp_path, capsys):
    main(["sandbox", "run", program(tmp_path, "print(1)"), "--unsafe-no-sandbox"])
    out = capsys.readouterr().out
    assert "there was no sandbox" in out and "none (unsafe)" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no.py"],
        ["run", __file__ + "x"],
        ["run", __file__, "--mechanism", "x"],
        ["run", __file__, "--wall", "-1"],
    ],
)
def test_what_cannot_be_run_is_said(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(["sandbox", *arguments])
    assert end.value.code == 2 and "error:" in capsys.readouterr().err


def test_check_says_what_works_and_what_is_not_covered(tmp_path, capsys):
    main(["sandbox", "check", "--plain", "--json", str(tmp_path / "c.json")])
    out = capsys.readouterr().out
    assert "NOT covered" in out and "side channels" in out
    assert any(row[2] == "works" for row in json.loads((tmp_path / "c.json").read_text())["result"]["found"])


@pytest.mark.parametrize("command", [["sandbox", "check"], ["credit", ".", "--rule", "group_std"]])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(command, tmp_path, capsys, monkeypatch):
    for path in (tmp_path / "no" / "x.json", tmp_path):
        with pytest.raises(SystemExit) as end:
            main([*command, "--json", str(path)])
        printed = capsys.readouterr()
        assert end.value.code == 2 and "--json" in printed.err and str(path) in printed.err and not printed.out


def found(tmp_path, capsys):
    main(["sandbox", "check", "--plain", "--json", str(tmp_path / "c.json")])
    capsys.readouterr()
    rows = json.loads((tmp_path / "c.json").read_text())["result"]["found"]
    return {name: words for name, _, words in rows if name in ("compiler", "browser")}


def test_check_says_what_to_install_where_there_is_no_compiler_and_no_browser(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    printed = found(tmp_path, capsys)
    assert printed["compiler"].startswith("no: ")
    assert "apt install gcc" in printed["compiler"] and "[kernels]" in printed["compiler"]
    assert printed["browser"].startswith("no: ") and "EVOLVENT_CHROMIUM" in printed["browser"]


def test_check_tries_what_it_finds_as_the_worlds_do(tmp_path, capsys, monkeypatch):
    broken = tmp_path / "cc"  # a compiler that lacks its headers, a browser its libraries
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(broken) if name == "cc" else None)
    monkeypatch.setenv("EVOLVENT_CHROMIUM", str(broken))
    printed = found(tmp_path, capsys)
    assert printed["compiler"].startswith("no: ") and f"{broken} says" in printed["compiler"]
    assert printed["browser"].startswith("no: ") and "does not start" in printed["browser"]
