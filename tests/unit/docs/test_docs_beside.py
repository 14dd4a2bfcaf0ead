"""The page 'beside your agent' does what it says: its Python runs and prints what follows it, its commands too, and the
excerpts are lines of the examples that another test runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "beside-your-agent.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- from (\S+) -->\n)?```(\w+)\n(.*?)```", flags=re.DOTALL)


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, printed, checked = {}, [], 0
    for example, language, block in BLOCK.findall(TEXT):
        if language == "python" and not example:
            exec(compile(block, "docs/beside-your-agent.md", "exec"), names)
            printed = [capsys.readouterr().out]
        elif language == "bash":
            printed = [command(line) for line in block.splitlines() if line.startswith("evolvent ")]
        elif language == "text":
            assert block == printed[0] if len(printed) == 1 else block in printed[-1]
            checked += 1
    assert checked == 6 and (tmp_path / "agent.db").exists()


def command(line):
    name, *arguments = shlex.split(line)
    assert name == "evolvent"
    done = subprocess.run([sys.executable, "-m", name, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout, done.stderr
    return done.stdout


def test_excerpts_are_lines_of_the_examples():
    excerpts = [(example, block) for example, _, block in BLOCK.findall(TEXT) if example]
    assert len(excerpts) == 5 == len({example for example, _ in excerpts})
    for example, block in excerpts:
        assert block in (ROOT / "examples" / example).read_text(encoding="utf-8"), example


def test_the_loop_is_short():
    block = next(block for example, language, block in BLOCK.findall(TEXT) if language == "python" and not example)
    body = block[block.index("def attempt") : block.index("\n\n\nattempt(")]
    assert len(body.splitlines()) <= 15


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
