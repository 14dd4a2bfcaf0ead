"""The size budget: files, functions, fields of a configuration, tests for each line of source. Prints, and enforces.

Files and functions of the package are held to the limits, and what came out of it: the speed benchmarks, the promises
of a memory. The numbers printed are of the package alone, without the tests that are of benchmarks.
"""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

FILE_MAX = 500
FILE_MEDIAN = 150
FUNCTION_MAX = 80
CONFIG_FIELDS_MAX = 21
PARAMETERS_MAX = 8
# functions with more, which are called with names: of a file, or one of it
MANY = {
    "src/evolvent/cli/": "flags of a command",
    "src/evolvent/memory/memory.py": "verbs of a memory",
    "src/evolvent/memory/opening.py:open_bank": "what `Memory` was given",
    "src/evolvent/memory/outcome.py:outcome": "what `settle` was given",
    "src/evolvent/memory/recall.py:requests_of": "what `recall` was given",
    "src/evolvent/envs/team/disrupt.py:make_team": "options in the name of an environment",
    "src/evolvent/envs/team/ste.py:make_team": "options in the name of an environment",
    "src/evolvent/envs/text/analyst.py:make": "options in the name of an environment",
    "src/evolvent/models/language/model.py:load": "options of a model",
    "src/evolvent/models/language/model.py:sample": "options of sampling",
    "src/evolvent/models/team/joint.py:__init__": "sizes of a network",
    "src/evolvent/teams/worth.py:worth": "what a study was given",
    "src/evolvent/learn/tokens/policy_gradient.py:improve": "what every language learner has in its own names",
}
BESIDE = ("benchmarks/speed", "tests/conformance/promises")


@dataclass(frozen=True)
class Finding:
    fatal: bool
    text: str


def files(path: Path, lines: int) -> list[Finding]:
    return [Finding(True, f"{path}: {lines} lines, more than {FILE_MAX}")] if lines > FILE_MAX else []


def functions(path: Path, tree: ast.AST) -> tuple[list[int], list[Finding]]:
    sizes, found = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            sizes.append(size)
            if size > FUNCTION_MAX:
                found.append(Finding(True, f"{path}:{node.lineno} {node.name}: {size} lines, more than {FUNCTION_MAX}"))
            count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
            count -= bool(node.args.args and node.args.args[0].arg in ("self", "cls"))
            if count > PARAMETERS_MAX and not f"{path}:{node.name}".startswith(tuple(MANY)):
                text = f"{path}:{node.lineno} {node.name}: {count} parameters, more than {PARAMETERS_MAX}"
                found.append(Finding(True, text))
    return sizes, found


def config_fields(algos: Path, sources: dict[Path, ast.Module]) -> list[Finding]:
    """Counts the fields of each algorithm's ``Config`` with those it inherits from classes of this repository."""
    classes = {n.name: n for tree in sources.values() for n in tree.body if isinstance(n, ast.ClassDef)}

    def fields(node: ast.ClassDef) -> set[str]:
        own = {s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
        for base in node.bases:
            name = base.id if isinstance(base, ast.Name) else ""
            own |= fields(classes[name]) if name in classes and name != node.name else set()
        return own

    out = []
    for path, tree in sources.items():
        if (path.parent if path.name == "__init__.py" else path).parent == algos:  # a system is a file or a folder
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.name == "Config":
                    n = len(fields(node))
                    if n > CONFIG_FIELDS_MAX:
                        out.append(Finding(True, f"{path}: Config has {n} fields, more than {CONFIG_FIELDS_MAX}"))
    return out


def quantile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main(root: Path) -> int:
    sources, lines, sizes, found = {}, {}, [], []
    for path in sorted((root / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sources[path], lines[path] = ast.parse(text), text.count("\n")
        found += files(path.relative_to(root), lines[path])
        more, bad = functions(path.relative_to(root), sources[path])
        sizes += more
        found += bad
    for path in sorted(path for place in BESIDE for path in (root / place).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found += files(path.relative_to(root), text.count("\n"))
        found += functions(path.relative_to(root), ast.parse(text))[1]
    found += config_fields(root / "src/evolvent/algos", sources)
    counts = [n for n in lines.values() if n > 0]
    median = quantile(counts, 0.5)
    if median > FILE_MEDIAN:
        found.append(Finding(False, f"median file has {median} lines, more than {FILE_MEDIAN}"))
    tests = sum(
        path.read_text(encoding="utf-8").count("\n")
        for path in (root / "tests").rglob("*.py")
        if root / "tests/unit/bench" not in path.parents
    )
    print(f"files     {len(counts)}, median {median} lines, 95 % {quantile(counts, 0.95)}, longest {max(counts)}")
    middle, long = quantile(sizes, 0.5), quantile(sizes, 0.95)
    print(f"functions {len(sizes)}, median {middle} lines, 95 % {long}, longest {max(sizes)}")
    print(f"tests     {tests / sum(counts):.2f} lines for each of {sum(counts)} lines of source")
    for finding in sorted(found, key=lambda f: f.fatal):
        print("FAIL" if finding.fatal else "warn", finding.text)
    return int(any(finding.fatal for finding in found))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
