"""Pages that are generated stand in the docs as their generators write them now."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_the_speed_page_is_that_of_its_result_file():
    module = importlib.import_module("speed_page")
    written = (ROOT / "docs" / "results" / "memory-speed.md").read_text("utf-8")
    assert written == module.page(json.loads(module.SOURCE.read_text("utf-8")))


def test_the_table_of_the_served_memory_is_that_of_its_result_file():
    module = importlib.import_module("serve_load")
    written = module.PAGE.read_text("utf-8")
    found = module.parts(json.loads(module.SOURCE.read_text("utf-8")))
    assert written == importlib.import_module("algo_pages").filled(written, found), (
        "run benchmarks/serve_load.py --page"
    )


def test_the_pages_of_searches_are_those_of_their_result_files():
    deep, learned = (importlib.import_module(name) for name in ("search_deep_page", "search_learning_page"))
    found = (json.loads(path.read_text("utf-8")) for path in (deep.NOISY, deep.DEPTH, deep.CHORES))
    assert (deep.DOCS / "search-deep.md").read_text("utf-8") == deep.page(*found), "run benchmarks/search_pages.py"
    found = (json.loads(path.read_text("utf-8")) for path in learned.SOURCES)
    assert learned.PAGE.read_text("utf-8") == learned.page(*found), "run benchmarks/search_pages.py"


def test_the_pages_of_memories_are_those_of_their_result_files():
    module = importlib.import_module("tables")
    for name, title in module.PAGES.items():
        rows = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
        written = (module.DOCS / f"{name.replace('_', '-')}.md").read_text("utf-8")
        assert written == module.page(title, name, rows), "run benchmarks/tables.py"


def test_the_pages_of_algorithms_are_filled_from_modules_and_result_files():
    module = importlib.import_module("algo_pages")
    pages = sorted(module.PAGES.glob("*.md"))
    assert len(pages) >= 8
    for page in [*pages, module.SEARCH]:
        written = page.read_text("utf-8")
        assert written == module.filled(written, module.parts_of(page.stem)), f"run benchmarks/algo_pages.py: {page}"


def test_the_table_of_definitions_is_that_of_the_questions():
    written = (ROOT / "docs" / "analyst.md").read_text("utf-8")
    module = importlib.import_module("analyst_page")
    for database in module.DATABASES:
        assert module.table(database) in written, "paste what benchmarks/analyst_page.py prints"


def test_the_table_of_text_worlds_is_that_of_its_result_file():
    module = importlib.import_module("text_baselines")
    written = module.PAGE.read_text("utf-8")
    rows = json.loads(module.SOURCE.read_text("utf-8"))
    assert written == module.filled(written, module.parts(rows)), "run benchmarks/text_baselines.py --page"
    few = [row["spec"] for row in rows if row["nothing"]["attempts"] < 100]
    assert len(rows) >= 16 and set(few) <= {"textworld", "textarena:GuessTheNumber-v0"}  # compiled games; few starts


def test_the_table_of_wires_is_that_of_its_result_file():
    module, filled = importlib.import_module("members"), importlib.import_module("algo_pages").filled
    written, found = module.PAGE.read_text("utf-8"), json.loads(module.SOURCE.read_text("utf-8"))
    assert written == filled(written, module.parts(found)), "run benchmarks/members.py --page"
    assert found["calls"] == 1000 and [*found["wires"]] == [*module.WIRES] and not found["commit"]["dirty"]
    assert all(one.keys() == module.AXES.keys() for one in found["wires"].values())


def test_the_page_of_what_language_models_learn_is_that_of_its_result_files():
    module = importlib.import_module("language_tables")
    assert module.PAGE.read_text("utf-8") == module.page(), "run benchmarks/language_tables.py"


def test_the_page_of_the_sandbox_is_that_of_its_result_files():
    module = importlib.import_module("sandbox_page")
    written = module.PAGE.read_text("utf-8")
    found = {name: json.loads(path.read_text("utf-8")) for name, path in module.SOURCES.items()}
    assert written == module.page(found), "run benchmarks/sandbox_page.py"
    assert " E**" not in written  # a number of escapes in a sum


def test_the_page_of_recall_is_that_of_its_result_file():
    module = importlib.import_module("recall")
    written = module.PAGE.read_text("utf-8")
    assert written == module.page(json.loads(module.SOURCE.read_text("utf-8"))), "run benchmarks/recall.py --page"


def test_the_pictures_of_credit_are_those_of_the_kept_attempts():
    module = importlib.import_module("credit_picture")
    book = module.read(module.KEPT)
    assert module.PICTURE.read_text("utf-8") == module.draw(book), "run benchmarks/credit_picture.py"
    assert module.ONE.read_text("utf-8") == module.draw(book, 1), "run benchmarks/credit_picture.py"


def test_the_page_of_what_to_use_and_its_minutes_are_those_of_the_result_files():
    from evolvent.catalogue import kind

    module = importlib.import_module("start_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run benchmarks/start_page.py"
    for name in ("memory", "language", "team"):
        choice = kind(name).choices[0]
        said = int(choice.minutes.split()[0]) / module.minutes(name)
        assert 2 / 3 < said < 3 / 2, f"src/evolvent/runs/{name}/kind.py: {choice}"


def test_the_page_of_costs_is_that_of_its_result_files():
    module = importlib.import_module("cost_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run benchmarks/cost_page.py"


def test_the_page_of_kernels_is_that_of_its_result_files():
    module, pages = importlib.import_module("evokernel"), importlib.import_module("evokernel_page")
    written = pages.PAGE.read_text("utf-8")
    assert written == pages.page(module.rows(module.RESULTS), module.rows(module.LESSONS)), (
        "run benchmarks/evokernel.py --page"
    )


def test_the_page_of_games_is_that_of_its_result_file():
    module = importlib.import_module("creative_game")
    assert module.PAGE.read_text("utf-8") == module.page(module.rows(module.RESULTS)), (
        "run benchmarks/creative_game.py --page"
    )


def test_the_page_of_worlds_is_that_of_its_result_files():
    module = importlib.import_module("worlds_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run benchmarks/worlds_page.py"


@pytest.mark.parametrize("name", ["attack", "peers"])
def test_the_pages_of_attacks_and_peers_are_those_of_their_result_files(name):
    module, found = importlib.import_module(f"{name}_page"), json.loads((RESULTS / f"memory_{name}.json").read_text())
    written = (ROOT / "docs" / "results" / f"memory-{name}.md").read_text("utf-8")
    assert written == module.text(found["rows"] if name == "attack" else found), (
        f"write it by benchmarks/{name}_page.py"
    )


def test_every_page_of_results_is_in_the_navigation_and_links_to_its_numbers():
    """A page that no menu names is found by nobody, and details that are not on it are in its result file."""
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs" / "results").glob("*.md"):
        linked = re.findall(r"\]\(\.\./\.\./benchmarks/results/([\w.]+)\)", page.read_text("utf-8"))
        assert f"- results/{page.name}" in menu and linked, page.name
        assert all((RESULTS / name).exists() for name in linked), page.name


def test_every_system_has_a_page_and_no_page_needs_a_drawing_program():
    """A picture that a site would have to draw stands there as code where it is read without the net."""
    module = importlib.import_module("algo_pages")
    pages = {page.stem for page in module.PAGES.glob("*.md")}
    assert {entry.name for group in module.catalogue.by_kind().values() for entry in group} - pages <= {"search"}
    for page in module.PAGES.parent.rglob("*.md"):
        assert not re.search(r"^```(mermaid|dot|plantuml)", page.read_text("utf-8"), re.MULTILINE), page


def test_scripts_and_files_that_a_page_names_exist():
    """Also those that are named without a link: a script that was renamed leaves its old name behind."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(
            r"`((?:src|benchmarks|tests|examples|docs)/[\w/.-]+\.(?:py|md))`", path.read_text("utf-8")
        ):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_the_tables_of_measured_lift_are_those_of_its_result_file():
    module = importlib.import_module("lift_simulation")
    written = module.PAGE.read_text("utf-8")
    assert written == module.filled(written, json.loads(module.OUT.read_text("utf-8"))), (
        "run benchmarks/lift_simulation.py"
    )
