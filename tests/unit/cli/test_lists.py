"""Systems are listed by what learns in them, without importing what they run with."""

import inspect
import subprocess
import sys

from evolvent import catalogue
from evolvent.cli import main


def test_every_system_stands_under_one_kind():
    groups = catalogue.by_kind()
    assert [title.partition(":")[0] for title in groups] == [
        "memory",
        "language",
        "team",
        "search",
        "programs",
        "games",
        "agents",
        "populations",
        "recorded data",
    ]
    names = [entry.name for group in groups.values() for entry in group]
    assert sorted(names) == [entry.name for entry in catalogue.entries("algos")]
    memory, language, team, search, programs, games, *_ = ({entry.name for entry in group} for group in groups.values())
    assert "memlift" in memory and {"grpo", "marft"} <= language and {"mat", "coma"} <= team
    assert "search" in search and programs == {"evokernel"} and games == {"creative_game"}


def test_the_kind_of_a_system_in_a_file_is_its_own(monkeypatch):
    entry = catalogue.Entry("mine", "A system of mine", {})
    monkeypatch.setattr(catalogue, "settings_of", lambda name: type("Config", (), {"KIND": "game"}))
    assert catalogue.by_kind([entry])["game"][-1] is entry


def test_the_list_shows_the_kinds_and_needs_no_torch(capsys):
    main(["list", "algos", "--plain"])
    said = capsys.readouterr().out
    places = [
        said.index(text) for text in ("algos, memory", "memlift ", "algos, language", "grpo ", "algos, team", "\nmat ")
    ]
    assert places == sorted(places)
    code = "import sys; from evolvent import catalogue; catalogue.by_kind(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_language_system_is_evaluated_as_all_are_unless_it_says_how(monkeypatch):
    from types import SimpleNamespace
    from typing import Any, cast

    system = cast("Any", catalogue.System)
    shipped = cast("Any", catalogue.system)
    from evolvent.runs.language import frozen
    from evolvent.runs.language.config import LanguageConfig

    def own(folder, live, episodes):
        return {}

    shared = system("mine", "mine.py", SimpleNamespace(Config=LanguageConfig)).evaluate()
    monkeypatch.setattr(
        frozen, "evaluate_language", lambda *arguments, **options: {"words": arguments, "options": options}
    )
    evaluated = shared("folder", "live", 3, env="other")
    assert evaluated == {"words": (LanguageConfig, "folder", "live", 3), "options": {"env": "other", "attempts": 0}}
    assert system("mine", "mine.py", SimpleNamespace(Config=LanguageConfig, evaluate=own)).evaluate() is own
    assert system("mine", "mine.py", SimpleNamespace(Config=object)).evaluate() is None
    assert "env" in inspect.signature(shipped("grpo").evaluate()).parameters, "--env is taken"
    assert "env" in inspect.signature(shipped("mat").evaluate()).parameters
    for name in ("grpo", "dpo", "marft", "satori", "spc", "flow_grpo"):
        assert "attempts" in inspect.signature(shipped(name).evaluate()).parameters, "--attempts is taken"
