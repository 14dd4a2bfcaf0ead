"""Runs the memory code of the README as it stands, with the default embedder: ``memory_alone.py README.md``.

For an environment that has ``evolvent[memory]`` and nothing else; fails where that brings torch along.
"""

import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path


def main(readme: str) -> None:
    for name in ("torch", "transformers"):
        assert importlib.util.find_spec(name) is None, f"evolvent[memory] brings {name} along"
    (code,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    space: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where agent.db is written
        exec(compile(code, "README.md", "exec"), space)
        task, check = ("What is two plus two?", lambda question, answer: answer == "4")

        def solved() -> str:
            return space["solve"](task, lambda prompt: "4" if "A: 4" in prompt else "5", check)

        before = solved()
        space["correct"](task, "4")
        after, embedder = solved(), space["memory"].bank.store.meta_get("embedder")
        assert (before, after) == ("5", "4"), (before, after)
        assert not str(embedder).startswith("hash"), embedder
        space["memory"].close()
    print(f"before the correction {before}, after it {after}; embedder {embedder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text(encoding="utf-8"))
