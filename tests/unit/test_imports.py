"""``import evolvent`` stays light: numpy only, whatever else is installed."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch", "transformers", "sentence_transformers", "rich", "tyro", "openai", "xllamacpp", "sqlite3", "matplotlib",
)  # fmt: skip


def loaded_after(statement: str) -> set[str]:
    """Top-level modules of a fresh interpreter after ``statement``."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
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
