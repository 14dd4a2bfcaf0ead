"""Every block of code in the README and the docs is run, or is named here with the reason why not; every command of
this library in them is read by the parser of the command line."""

import functools
import inspect
import re
import shlex
import shutil
from pathlib import Path

import pytest
import tyro

from evolvent import catalogue
from evolvent.cli import _COMMANDS, main
from evolvent.cli import run as run_command
from evolvent.core.errors import BadInput

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TUTORIALS = ["docs/tutorial-agent.md", "docs/tutorial-language.md", "docs/tutorial-team.md", "docs/turns.md"]
HERE = [  # run below, in order, in one namespace a page
    "docs/algos/ppo.md",
    "docs/analyst.md",
    "docs/channels.md",
    "docs/import.md",
    "docs/kernels.md",
    "docs/lift.md",
    "docs/programs.md",
    "docs/recorded.md",
    "docs/reward.md",
    "docs/run-folder.md",
    "docs/sandbox.md",
    "docs/scheduling.md",
    "docs/text-worlds.md",
    "docs/tools.md",
    "docs/worth.md",
]
ELSEWHERE = {
    "README.md": "tests/unit/test_house.py",
    "docs/beside-your-agent.md": "tests/unit/docs/test_docs_beside.py",
    "docs/blame.md": "tests/unit/memory/test_memory_blame.py",
    "docs/members.md": "tests/conformance/test_members_over_wire.py",
    "docs/memory.md": "tests/unit/docs/test_docs_memory.py",
    "docs/memory-embedders.md": "tests/unit/docs/test_docs_memory.py",
    "docs/search.md": "tests/unit/docs/test_docs_search.py",
    "docs/three-nouns.md": "tests/unit/docs/test_docs_three_nouns.py",
    "docs/your_own.md": "tests/e2e/test_docs_your_own.py",
}
NOT_RUN = {
    "docs/vllm.md": "needs vLLM and a GPU",
    "docs/verl.md": "needs verl",
}


def name(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(page.read_text("utf-8")) if kind.split()[:1] == [language]]


def commands(page):
    """The commands of this library in the shell blocks of a page, as words."""
    for block in blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r"&&|\|(?!\|)", line):
                arguments = shlex.split(command, comments=True)
                if arguments[:1] == ["evolvent"]:
                    yield arguments[1:]


def test_every_page_with_python_is_run_somewhere():
    pages = {name(page) for page in PAGES if blocks(page, "python")}
    assert pages == {*HERE, *TUTORIALS} | ELSEWHERE.keys() | NOT_RUN.keys(), (
        "run the new page's Python, and say here where"
    )
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8"), (page, test)


def test_every_block_says_its_language():
    known = {"bash", "python", "text", "json", "toml", "mermaid"}
    for page in PAGES:
        kinds = {(kind.split() or [""])[0] for kind, _ in BLOCK.findall(page.read_text("utf-8"))}
        assert kinds <= known, (name(page), kinds - known)


@pytest.mark.parametrize("page", HERE)
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if page == "docs/analyst.md":
        request.getfixturevalue("flights_db")
    elif page == "docs/run-folder.md":
        main(["demo", "--out", "runs/…", "--no-open", "--plain"])
    elif page in ("docs/sandbox.md", "docs/kernels.md", "docs/programs.md", "docs/reward.md"):
        sandbox_works()
        if page == "docs/kernels.md" and shutil.which("gcc") is shutil.which("clang") is None:
            pytest.skip("no C compiler")
    space: dict = {"__name__": "page"}
    for code in blocks(ROOT / page, "python"):
        if "evolvent.sandbox.browser" not in code or browser_there():
            exec(compile(code, page, "exec"), space)
    if page == "docs/run-folder.md":
        assert space["folder"].summary()["score"]["value"] == 1.0
    elif page == "docs/programs.md":
        assert "expected" in space["turn"].info["words"] or "Error" in space["turn"].info["words"]
    elif page == "docs/reward.md":
        assert space["reward"]("def double(x): return 2 * x", [[[1], 2], [[21], 42]], "double") == 1.0
    elif page == "docs/import.md":
        for words in list(commands(ROOT / page))[:2]:
            main([*words])
        assert "step_leave_one_out" in Path("runs/mine/credit.html").read_text("utf-8")
    elif page == "docs/recorded.md":
        assert space["best"].returns_E.mean() > space["data"].returns_E.mean()
    elif page == "docs/channels.md":
        assert [row["vote"][0] for row in space["found"]["by_number"]] == [0.5, 0.5, 0.5]
    elif page == "docs/kernels.md":
        assert space["turn"].info["gate"] and len(space["OPERATORS"]) == 1


@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space, printed = {"__name__": "page"}, ""
    for kind, block in BLOCK.findall((ROOT / page).read_text("utf-8")):
        if kind == "python":
            assert not printed, "nothing under the last block says what it prints"
            exec(compile(block, page, "exec"), space)
            printed = capsys.readouterr().out
        elif kind == "text":
            assert block == printed
            printed = ""
    assert not printed


def browser_there():
    from evolvent.sandbox.browser import NoBrowser, find_browser

    try:
        return bool(find_browser())
    except NoBrowser:
        return False


def sandbox_works():
    from evolvent.sandbox import NoSandbox, Sandbox

    try:
        Sandbox().close()
    except NoSandbox as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("page", [name(page) for page in PAGES if list(commands(page))])
def test_the_parser_reads_every_command(page, monkeypatch):
    real, many = tyro.cli, tyro.extras.subcommand_cli_from_dict
    monkeypatch.setattr(tyro, "cli", lambda what, **given: real(asked(what), **given))
    monkeypatch.setattr(
        tyro.extras,
        "subcommand_cli_from_dict",
        lambda commands, **given: many({key: asked(what) for key, what in commands.items()}, **given),
    )
    for arguments in commands(ROOT / page):
        if arguments[0] == "run":
            try:
                kind = catalogue.system(arguments[1]).Config
            except BadInput:
                assert arguments[1] in ("ALGO", "my_system.py"), arguments
                continue
            run_command._parse(kind, arguments[1], [word for word in arguments[2:] if word != "…"], kind())
        else:
            assert arguments[0] in _COMMANDS, arguments
            main(arguments)


def asked(what):
    """A command that reads its words and then does nothing."""
    return functools.wraps(what)(lambda *args, **kwargs: lambda: None) if inspect.isfunction(what) else what
