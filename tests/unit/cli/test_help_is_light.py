"""`evolvent list` and `evolvent run X --help` need no extra."""

import subprocess
import sys

from evolvent import catalogue

NAMES = [entry.name for entry in catalogue.entries("algos")]
WITHOUT_TORCH = f"""
import contextlib, io, sys
class Never:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] not in ("torch", "transformers", "peft"), name
sys.meta_path.insert(0, Never())
from evolvent import catalogue
from evolvent.cli.run import main
for name in {NAMES!r}:
    assert type(catalogue.defaults_of(name)).__module__ == "evolvent.algos." + name
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([name, "--help"])
    assert "--seed" in out.getvalue(), name
"""


def test_every_system_is_imported_set_up_and_explained_without_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
