"""``import evolvent`` stays light, numpy only, whatever else is installed; and no two files need one another."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "rich",
    "tyro",
    "openai",
    "xllamacpp",
    "sqlite3",
    "matplotlib",
)


def loaded_after(statement: str) -> set[str]:
    """Top-level modules of a fresh interpreter after ``statement``."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    return {name.split(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import evolvent",
        "import evolvent; evolvent.Episode; evolvent.Ledger; evolvent.Rollout",
        "import evolvent.formulas.statistics, evolvent.credit.step_gae, evolvent.testing.credit",
    ],
)
def test_nothing_heavy_is_imported(statement):
    assert not loaded_after(statement) & set(HEAVY)


def imports_of(source: Path) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports, anywhere in it, ``TYPE_CHECKING`` included."""
    files = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in source.rglob("*.py")
    }
    graph = {}
    for module, path in files.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {name if (name := f"{node.module}.{a.name}") in files else node.module for a in node.names}
            elif isinstance(node, ast.Import):
                named |= {a.name for a in node.names}
        graph[module] = (named & files.keys()) - {module}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import one another in a circle, the first one again at the end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_two_files_need_one_another():
    graph = imports_of(SOURCE)
    assert len(graph) > 300
    assert not circle(graph)


def test_a_circle_is_found(tmp_path):
    """Through a submodule, under ``TYPE_CHECKING``, inside a function."""
    (tmp_path / "pkg").mkdir()
    for name, text in {
        "__init__": "",
        "a": "from pkg import b",
        "b": "if TYPE_CHECKING:\n    from pkg.c import C",
        "c": "def f():\n    import pkg.a",
    }.items():
        (tmp_path / f"pkg/{name}.py").write_text(text)
    assert set(circle(imports_of(tmp_path))) == {"pkg.a", "pkg.b", "pkg.c"}
    (tmp_path / "pkg/c.py").write_text("")
    assert circle(imports_of(tmp_path)) == []


def test_dir_lists_the_public_names():
    code = "import evolvent; assert dir(evolvent) == sorted(evolvent.__all__); evolvent.Memory, evolvent.run"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
