"""The house keeps its own rules: the README's commands and code are real, and the budget finds what it must find."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


budget, readme_command, rooms = _load("budget"), _load("readme_command"), _load("rooms")


def _readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_one_test_command_and_ci_runs_it():
    assert (
        readme_command.test_command(_readme())
        == "pip install -c constraints.txt -e '.[llama,envs,openai,dev]' && pytest -n 2"
    )
    assert "readme_command.py README.md" in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize(
    "text", ["", "<!-- test-command -->\n```bash\npytest\n```", "<!-- test-command -->\n```\na &&\npytest\n```"]
)
def test_a_readme_without_a_usable_command_fails(text):
    with pytest.raises(SystemExit):
        readme_command.test_command(text)


def test_ci_is_a_script_that_bash_accepts():
    subprocess.run([shutil.which("bash"), "-n", str(ROOT / ".ci/run")], check=True)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111 and "set -euo pipefail" in (ROOT / ".ci/run").read_text()


def test_no_two_files_of_tests_have_one_name():
    """Pytest imports them by name; together, the second would not be collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}


def test_files_named_in_the_documentation_exist():
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} → {target}"


def test_rooms_of_the_map_exist():
    for room in re.findall(r"^\| `(\w+)/`", _readme(), re.MULTILINE):
        assert (ROOT / "src/evolvent" / room).is_dir(), room


def test_the_code_of_the_readme_works(tmp_path, monkeypatch):
    """With the hashing embedder in place of the default one, whose weights a test should not fetch."""
    import evolvent

    (code,) = re.findall(r"```python\n(.+?)```", _readme(), re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    memory = evolvent.Memory(tmp_path / "agent.db", embedder="hash:256")
    monkeypatch.setattr(evolvent, "Memory", lambda path: memory, raising=False)
    space = {}
    exec(compile(code, "README.md", "exec"), space)
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return "4" if "A: 4" in prompt else "5"

    space["solve"]("What is two plus two?", model, lambda question, answer: answer == "4")
    space["correct"]("What is two plus two?", "4")
    assert space["solve"]("What is two plus two?", model, lambda question, answer: answer == "4") == "4"
    assert "A: 4" not in prompts[0] and "A: 4" in prompts[1]
    assert str(memory.explain("m1"))


def test_constraints_pin_every_direct_dependency():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    extras = project["optional-dependencies"]
    wanted = [r for name in ("memory", "llama", "torch", "envs", "openai", "server", "dev") for r in extras[name]]
    for requirement in [*project["dependencies"], *wanted]:
        if requirement.startswith("evolvent["):  # an extra that includes another one
            continue
        assert re.match(r"[\w-]+", requirement)[0].lower() in pinned, requirement


# ------------------------------------------------------------------------------------------------ the size budget
def _source(tmp_path, name, text):
    path = tmp_path / "src" / "evolvent" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "fails"),
    [
        ("a.py", "x = 1\n" * 400, False),
        ("a.py", "x = 1\n" * 601, True),
        ("a.py", "def f():\n" + "    x = 1\n" * 79, False),
        ("a.py", "def f():\n" + "    x = 1\n" * 80, True),
        ("a.py", "def f(a, b, c, d, *, e, f, g, h): ...\n", False),
        ("a.py", "def f(a, b, c, d, *, e, f, g, h, i): ...\n", True),
        ("cli/a.py", "def f(a, b, c, d, *, e, f, g, h, i): ...\n", False),
        ("algos/a.py", "class Config:\n" + "".join(f"    f{i}: int = 0\n" for i in range(21)), False),
        ("algos/a.py", "class Config:\n" + "".join(f"    f{i}: int = 0\n" for i in range(22)), True),
        ("algos/a/__init__.py", "class Config:\n" + "".join(f"    f{i}: int = 0\n" for i in range(22)), True),
        ("algos/a/b.py", "class Config:\n" + "".join(f"    f{i}: int = 0\n" for i in range(22)), False),
        (
            "algos/a.py",
            "class Half:\n"
            + "".join(f"    f{i}: int = 0\n" for i in range(15))
            + "class Config(Half):\n"
            + "".join(f"    g{i}: int = 0\n" for i in range(7)),
            True,
        ),
    ],
)
def test_the_budget_finds_what_is_too_long(tmp_path, capsys, name, text, fails):
    _source(tmp_path, name, text)
    _source(tmp_path, "b.py", "def g(): ...\n")
    assert budget.main(tmp_path) == int(fails), capsys.readouterr().out
    assert ("FAIL" in capsys.readouterr().out) == fails or fails


def test_the_budget_holds_what_came_out_of_the_package(tmp_path, capsys):
    _source(tmp_path, "b.py", "def g(): ...\n")
    for place in budget.BESIDE:
        assert (ROOT / place).is_dir()
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "long.py").write_text("x = 1\n" * 501)
    assert budget.main(tmp_path) == 1
    out = capsys.readouterr().out
    assert all(f"FAIL {place}/long.py" in out for place in budget.BESIDE)


PLANTED = {
    "algos/one.py": "from evolvent.play.guide import a",
    "algos/two/__init__.py": "from evolvent.algos.two.own import b\nfrom evolvent.play import shared",
    "algos/two/own.py": "from evolvent.play import shared",
    "play/guide.py": "import evolvent.formulas.deep\nfrom evolvent.play.deep import c",
    "play/deep.py": "",
    "play/shared.py": "",
    "play/used_here.py": "",
    "play/nobody.py": "from evolvent.play import used_here",
    "formulas/deep.py": "",
}


def test_a_file_of_a_shared_room_that_one_system_reaches_is_named(tmp_path, capsys):
    for name, text in PLANTED.items():
        _source(tmp_path, name, text)
    root = tmp_path / "src" / "evolvent"
    found = {"evolvent.play.guide": "one", "evolvent.play.deep": "one", "evolvent.formulas.deep": "one"}
    assert rooms.tenants(root) == found | {"evolvent.play.shared": "two"}
    assert rooms.main(root) == 1 and "evolvent.play.guide: only the system 'one'" in capsys.readouterr().out
    _source(tmp_path, "credit/rule.py", "from evolvent.formulas import deep")  # asked for by name: it and what it needs
    assert "evolvent.formulas.deep" not in rooms.tenants(root)
    _source(tmp_path, "algos/three.py", "from evolvent.play import guide, shared")
    assert rooms.tenants(root) == {} and rooms.main(root) == 0
    assert rooms.main(ROOT / "src" / "evolvent") == 0


def test_no_file_of_a_systems_folder_has_the_name_of_something_else_there():
    """``from evolvent.algos.NAME import part`` is then the file, whatever was imported before."""
    for path in sorted((ROOT / "src/evolvent/algos").glob("*/__init__.py")):
        parts = {part.stem for part in path.parent.iterdir()}
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module != f"evolvent.algos.{path.parent.name}":
                assert not parts & {alias.asname or alias.name for alias in node.names}, (path, node.lineno)


def test_every_algorithm_says_what_the_list_shows():
    algos = ROOT / "src/evolvent/algos"
    for path in sorted([*algos.glob("[!_]*.py"), *algos.glob("*/__init__.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = [t for n in tree.body if isinstance(n, ast.Assign) for target in n.targets for t in ast.walk(target)]
        names = {t.id for t in said if isinstance(t, ast.Name)}
        names |= {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        assert {"PAPER", "LEVELS", "STATUS", "Config", "run"} <= names and ast.get_docstring(tree), path


# ------------------------------------------------------------------------------------------------ claims
def test_the_readme_says_what_the_result_file_says():
    import json

    readme = (ROOT / "README.md").read_text()
    files = (ROOT / f"benchmarks/results/{name}.json" for name in ("main_job", "main_job_rag", "main_job_icl"))
    data = [json.loads(file.read_text())["summary"] for file in files]
    rows = [{row.get("phase") or row["pass"]: row for row in [*s["phases"], *s["passes"]]} for s in data]
    for at in rows[0]:
        line = "".join(_cells(side[at]) if at in side else " | |" for side in rows)
        assert f" |{line}\n" in readme, (at, line)


def _cells(row):
    low, high = (round(100 * x) for x in row["ci95"])
    return f" {row['successes']} | {100 * row['rate']:.0f} % [{low}, {high}] |"


def _names(path):
    """What a module of the package has at its top, those of its folder included."""
    tree = ast.parse(path.read_text("utf-8"))
    found = {name.stem for name in path.parent.iterdir()} if path.name == "__init__.py" else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_what_tests_benchmarks_and_examples_import_of_the_package_exists():
    """Type checking reads ``src`` alone: a name that moves there would be missed here until somebody runs it."""
    places = [path for room in ("tests", "benchmarks", "examples") for path in (ROOT / room).rglob("*.py")]
    missing = []
    for path in places:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or (node.module or "").split(".")[0] != "evolvent":
                continue
            home = (ROOT / "src").joinpath(*node.module.split("."))
            home = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
            known = _names(home) if home.is_file() else set()
            missing += [f"{path.name}: {node.module}.{a.name}" for a in node.names if a.name not in known]
    assert not missing, missing
