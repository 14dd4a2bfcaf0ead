"""Ways to search are found by their files: one that is added is listed, checked, run and documented."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import evolvent.search
from evolvent import catalogue
from evolvent.cli import main
from evolvent.cli import run as command
from evolvent.core.errors import BadInput
from evolvent.runs.search.config import SearchConfig, called
from evolvent.search import dser, greedy
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.ways import way, ways

FIRST = '''"""First come: of each state the first child, until an attempt has ended."""

from dataclasses import dataclass

from evolvent.search.search import Search, Settings

PAPER = "arXiv 0000.00000"
AGGREGATE = "min_max"
WIDER = "--widths"


@dataclass(frozen=True)
class Config(Settings):
    """Its settings."""

    paths: int = 1
    """Paths for each task."""


def run(search: Search, config: Config = Config()) -> None:
    """Go down."""
    assert config.paths == 1, "it draws nothing"
    nodes = search.tree.roots.tolist()
    while nodes:
        search.expand(nodes)
        for node in nodes:
            if search.tree.terminal[node]:
                search.reach(node)
        nodes = [int(children[0]) for node in nodes if len(children := search.tree.children(node))]
'''
WORDS = "--model none --value flat --env household --tasks 1 --budget-tokens 0 --budget-calls 200 --plain"
TINY = WORDS.split()


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A file more in the package."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "first_come.py").write_text(FIRST)
    monkeypatch.setattr(evolvent.search, "__path__", [*evolvent.search.__path__, str(tmp_path / "more")])
    yield
    sys.modules.pop("evolvent.search.first_come", None)
    vars(evolvent.search).pop("first_come", None)


def test_a_file_more_is_a_search_more(planted, tmp_path, capsys, monkeypatch):
    command.main(["search", *TINY, "--search", "first_come", "best_of_n", "--out", str(tmp_path / "run")])
    first, _ = json.loads((tmp_path / "run" / "summary.json").read_text())["arms"]
    assert (first["name"], first["n"], first["paths"], first["wider"]) == ("first_come", 1, 1, "--widths")
    assert "first_come" in (tmp_path / "run" / "report.html").read_text()
    capsys.readouterr()
    main(["list", "search", "--plain"])
    assert "first_come arXiv 0000.00000 min_max First come: of each state" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["run", "search", "--help"])
    assert "dser, first_come, greedy" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    with pytest.raises(BadInput, match=r"no such search\n  got: first_com\n(.|\n)*'first_come'"):
        SearchConfig(search=("first_com",))
    with pytest.raises(BadInput, match="a way to search: evolvent run search --search first_come"):
        catalogue.system("first_come")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    table = importlib.import_module("algo_pages").searches()
    assert "| `first_come` | min_max | arXiv 0000.00000 | of each state the first child" in table


def test_without_its_file_it_is_none():
    assert "first_come" not in ways()
    with pytest.raises(BadInput, match="no such search"):
        SearchConfig(search=("first_come",))


def test_what_searches_share_is_no_search():
    assert {"greedy", "rap", "cot_sc"} <= ways().keys()
    assert not {"search", "tree", "values", "aggregate", "simulate", "ways"} & ways().keys()
    for name in ("tree", "search.tree", "../beam"):
        with pytest.raises(BadInput, match="no such search"):
            way(name)


@pytest.mark.parametrize("name", ways())
def test_what_a_search_says_of_itself_can_be(name):
    module, settings = called(name, SearchConfig(), [3])
    assert getattr(module, "AGGREGATE", "last_max") in AGGREGATORS
    assert module.__doc__.partition("\n")[0].endswith(".")
    draws = getattr(module, "DRAWS", False)
    assert getattr(settings, "paths", 4096 if draws else 1) == (4096 if draws else 1)
    assert getattr(settings, "seed", (3,)) == (3,)


def test_the_temperature_of_the_greedy_one_is_its_own():
    assert (greedy.TEMPERATURE, greedy.UNIT) == (0.0, "answer")


def test_a_world_that_a_search_cannot_take_is_refused_before_anything_is_searched(tmp_path):
    assert callable(dser.check)
    with pytest.raises(BadInput, match="whole answers"):
        command.main(["search", *TINY, "--search", "best_of_n", "dser", "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
