"""`evolvent run X --help` needs no extra, opens with an example, shows what matters first; `--help-all` shows all."""

import json
import re
import subprocess
import sys
from dataclasses import fields

import pytest

from evolvent import catalogue, running
from evolvent.cli import run
from evolvent.core.config import flat

NAMES = [entry.name for entry in catalogue.entries("algos")]
WITHOUT_TORCH = f"""
import contextlib, io, json, sys
class Never:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] not in ("torch", "transformers", "peft"), name
sys.meta_path.insert(0, Never())
from evolvent import catalogue
from evolvent.cli.run import main
helps = {{}}
for name in {NAMES!r}:
    assert type(catalogue.defaults_of(name)).__module__ == "evolvent.algos." + name
    for flag in ("--help", "--help-all"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([name, flag])
        helps.setdefault(name, []).append(out.getvalue())
print(json.dumps(helps))
"""


@pytest.fixture(scope="module")
def helps():
    """Of each system what --help and --help-all print where torch cannot be imported."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flags(text):
    """Those that have an entry, the opposites of switches among them."""
    entries = re.findall(r"^. (-h, --help|--[a-z].*?)(?:  |  ?.?$)", text, re.M)
    return [word for entry in entries for word in re.findall(r"--[a-z0-9-]+", entry)]


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_what_matters_first_and_help_all_the_rest(name, helps):
    some, every = helps[name]
    default = catalogue.defaults_of(name)
    paths = [*flat(default), *(field.name for field in fields(run.RunOptions))]
    all_flags = ["--" + path.rpartition(".")[2].replace("_", "-") for path in paths]
    shown = flags(some)
    assert len(shown) <= 30 and {"--env", "--seed", "--out", "--seeds", "--resume"} <= {*shown}
    own = {flag for path, flag in zip(paths, all_flags, strict=True) if "." not in path} - {"--log", "--plain"}
    assert own <= {*shown}, "what the system itself has"
    assert {*all_flags} <= {*flags(every)}
    hidden = {*all_flags} - {*shown}
    assert some.rstrip().endswith(f"evolvent run {name} --help-all" if hidden else "these are all settings")
    assert not hidden or re.search(rf"^{len(hidden)} more setting", some, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_that_help_opens_with_is_understood(name, helps):
    first = helps[name][0].partition("\n")[0]
    start = f"for example: evolvent run {name}"
    assert first.startswith(start)
    default = catalogue.defaults_of(name)
    words = first.removeprefix(start).split()
    _, config = run._parse(type(default), name, words, default)
    running.check_env(type(config), config.env)


def test_of_the_example_a_system_takes_what_means_the_same_there(helps):
    first = {name: some.partition("\n")[0].removeprefix("for example: ") for name, (some, _) in helps.items()}
    assert first["grpo"] == "evolvent run grpo --env arithmetic:largest --lr 5e-4 --kl 0 --updates 20"
    assert first["dapo"] == "evolvent run dapo --env arithmetic:largest --lr 5e-4 --updates 20", "it has no --kl"
    assert first["coma"] == "evolvent run coma --steps 200000", "its agents choose: no --env spread:n=3"


def test_a_setting_that_help_does_not_show_is_taken():
    default = catalogue.defaults_of("grpo")
    _, config = run._parse(type(default), "grpo", ["--lora-rank", "3"], default)
    assert config.plan.lora_rank == 3
