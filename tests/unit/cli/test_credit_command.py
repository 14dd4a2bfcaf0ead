"""`evolvent credit`: every rule of `credit/` over a recorded run, or what the record lacks for it."""

import json
import math
from dataclasses import replace

import pytest

from evolvent import catalogue
from evolvent.cli import credit as command
from evolvent.cli.credit import COMMANDS, applied
from evolvent.core.branches import graft
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.pages.credit_units import Book, summary
from evolvent.memory import embedders
from evolvent.running import write_report
from evolvent.testing.credit import sample_episodes

RULES = [entry.name for entry in catalogue.entries("credit")]


def recorded(path, episodes):
    with RunFolder.create(path, algo="grpo", config={}, env="none", seed=0, command="test") as folder:
        for step, episode in enumerate(episodes):
            folder.episode(episode, step=step // 7)
    return path


@pytest.fixture(autouse=True)
def _words_hashed(monkeypatch):
    """An embedder without weights, where a rule needs one."""
    monkeypatch.setattr(embedders, "load", lambda name="hash": embedders.Hashing())


@pytest.fixture
def full(tmp_path):
    """A run whose attempts hold everything that a rule reads."""
    return recorded(tmp_path / "full", sample_episodes())


@pytest.fixture
def bare(tmp_path):
    """A run whose attempts hold nothing but actions and rewards."""
    episodes = []
    for n in range(4):
        episode = Episode("task", id=f"e{n}")
        episode.observe("what now?")
        episode.act(f"act {n}", reward=float(n))
        episode.end(terminated=True)
        episodes.append(episode)
    return recorded(tmp_path / "bare", episodes)


def credit(*arguments):
    COMMANDS["credit"]([str(word) for word in arguments])


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_reached_or_says_what_is_missing(full, tmp_path, name, capsys):
    rule = catalogue.credit_rule(name)
    arguments = (full, "--rule", name, "--json", tmp_path / "c.json", "--plain")
    if rule.RECORD == "rollout":
        with pytest.raises(BadInput, match="recorded no rollout"):
            credit(*arguments)
        return
    credit(*arguments)
    data = json.loads((tmp_path / "c.json").read_text())["rules"][0]
    assert data["level"] == rule.LEVEL and data["units"] and name in capsys.readouterr().out
    ledger = applied(rule, _standing(rule), [*map(Episode.from_dict, RunFolder.open(full).read_episodes())], None)
    assert data["total"] == pytest.approx(ledger.total(rule.LEVEL))
    assert math.fsum(one["share"] for one in data["units"]) == pytest.approx(1.0)
    assert [one["credit"] for one in data["units"]] == sorted((one["credit"] for one in data["units"]), reverse=True)


def _standing(rule):
    config = None if rule.Config is None else rule.Config()
    return replace(config, embed=embedders.Hashing().embed) if hasattr(config, "embed") else config


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("step_gae", "needs a critic"),
        ("token_bad", "value"),
        ("token_entropy_weight", "token"),
        ("step_progress", "progress"),
        ("step_test_weighted", "test"),
        ("step_token_average", "token"),
        ("memory_omission", "shown memories"),
        ("memrl", "shown memories"),
        ("memq", "shown memories"),
        ("component_shapley", "components"),
        ("step_majority_novelty", "answer"),
        ("step_length_budget", "budget"),
    ],
)
def test_what_the_record_lacks_is_said(bare, name, message):
    with pytest.raises(BadInput, match=message):
        credit(bare, "--rule", name, "--plain")


def test_a_rule_that_hands_out_the_reward_says_so_and_another_by_how_much_not(bare, tmp_path, capsys):
    arguments = ("--rule", "step_return_to_go", "step_group_mean", "step_gae", "--html", tmp_path / "c.html", "--plain")
    credit(bare, *arguments)
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("step_")}
    assert rows["step_return_to_go"][-1] == "yes" and rows["step_return_to_go"][-2] == "6"
    assert rows["step_group_mean"][-1] == "no" and "step_group_mean: its total is 6 less than what was paid" in out
    assert "! step_gae:" in out and "needs a critic" in out  # the others are shown all the same
    assert "act 3" in (tmp_path / "c.html").read_text()


@pytest.mark.parametrize(
    ("which", "rule"), [("bare", "step_return_to_go"), ("full", "step_group_mean"), ("full", "step_return_to_go")]
)
def test_a_page_is_drawn_unasked_and_the_report_leads_to_it(which, rule, request, capsys):
    folder = request.getfixturevalue(which)
    credit(folder, "--rule", rule, "--plain")
    assert rule in (folder / "credit.html").read_text() and f"page: {folder}/credit.html" in capsys.readouterr().out
    assert 'href="credit.html"' in write_report(folder).read_text()
    (folder / "credit.html").unlink()
    credit(folder, "--rule", rule, "--plain", "--html", folder / "other.html")
    assert (folder / "other.html").exists() and not (folder / "credit.html").exists()


def test_a_folder_that_cannot_be_written_to_is_reported_after_the_tables(bare, monkeypatch, capsys):
    def refused(path, content):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("evolvent.cli.credit.write_atomic", refused)
    with pytest.raises(BadInput, match=r"(?s)page cannot be written.*Permission denied.*--html FILE"):
        credit(bare, "--rule", "step_return_to_go", "--plain")
    assert "who earned most" in capsys.readouterr().out


def test_settings_files_and_the_last_update(full, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom evolvent import Ledger\nLEVEL = 'component'\n"
        "@dataclass(frozen=True)\nclass Config:\n    each: float = 1.0\n"
        "def assign(episodes, config):\n"
        "    ledger = Ledger.for_episodes(episodes)\n    ledger.set('component', config.each)\n    return ledger\n"
    )
    for arguments in ((f"{tmp_path}/mine.py:assign,each=3",), (f"{tmp_path}/mine.py", "--rule-options", "each=3")):
        credit(full, "--rule", *arguments, "--last", "--json", tmp_path / "c.json", "--plain")
        data = json.loads((tmp_path / "c.json").read_text())["rules"][0]
        n = sum(len(e.components) for e in sample_episodes()[7:])
        assert data["total"] == 3.0 * n and {one["unit"] for one in data["units"]} == {"planner", "critic"}
    with pytest.raises(BadInput, match="did you mean 'each'"):
        credit(full, "--rule", f"{tmp_path}/mine.py", "--rule-options", "eech=3", "--plain")


@pytest.mark.parametrize("name", ["step_search_label", "step_search_return", "step_search_siblings"])
def test_attempts_that_share_a_beginning_are_credited_where_they_part_and_where_they_do_not(name, tmp_path, capsys):
    def attempt(last, reward):
        episode = Episode("task", id=last)
        for action, earned in (("begin", 0.0), (last, reward)):
            episode.observe("what now?")
            episode.act(action, reward=earned)
        episode.end(terminated=True)
        return episode

    tree = attempt("right", 1.0)
    for other in ("wrong", "wrong too"):
        graft(tree, attempt(other, 0.0), of=0, steps=1)
    credit(recorded(tmp_path / "tree", [tree]), "--rule", name, "--json", tmp_path / "c.json", "--plain")
    assert "3 attempts in 1 record:" in capsys.readouterr().out
    units = json.loads((tmp_path / "c.json").read_text())["rules"][0]["units"]
    got = {one["said"]: one["credit"] for one in units}
    want = {
        "step_search_label": (0.0, 1.0, 0.0),
        "step_search_return": (1 / 3, 1.0, 0.0),
        "step_search_siblings": (0.0, 1.0, -0.5),
    }[name]
    assert [got[said] for said in ("begin", "right", "wrong")] == pytest.approx(want)
    assert len(units) == 4  # what they share stands once


def test_a_run_without_attempts_is_refused(tmp_path):
    with pytest.raises(BadInput, match="recorded no attempts"):
        credit(recorded(tmp_path / "empty", []), "--rule", "step_group_std", "--plain")


def test_a_flag_given_twice_names_both_rules(monkeypatch):
    seen = []
    monkeypatch.setattr(command, "parsed", lambda _, words, prog: seen.append(words))
    command._main(["run", "--rule", "a", "--rule=b", "--top", "3"])
    command._main(["run", "--rule", "a", "b"])
    assert seen == [["run", "--top", "3", "--rule", "a", "b"], ["run", "--rule", "a", "b"]]


@pytest.mark.parametrize("rounding", [1.46e-14, -1.46e-14, 0.0])
def test_credits_that_sum_to_nothing_are_said_to(rounding):
    (row,) = summary([Book("step_group_mean", "step", [], 0, rounding, 51.0)])[1]
    assert row[4:6] == ["0", "51"]
