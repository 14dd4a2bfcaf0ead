"""Credit rules by name: of the package, of a file, of a module, and what is wrong with them."""

import textwrap

import pytest

from evolvent.catalogue import credit_rule, entries, rule_with_settings
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.testing.credit import check_credit, sample_episodes

WHOLE = '''
"""The whole return on every step."""
from dataclasses import dataclass
from evolvent import Ledger

LEVEL, UNBIASED = "step", True

@dataclass(frozen=True)
class Config:
    """Settings."""
    scale: float = 1.0

def assign(episodes, config=Config()):
    """Return."""
    ledger = Ledger.for_episodes(episodes)
    adv = [e.total_reward * config.scale if e.valid else float("nan") for e in episodes]
    ledger.set("step", [adv[i] for i in ledger.episode_index("step")])
    return ledger
'''


@pytest.fixture
def rule_file(tmp_path):
    def write(text=WHOLE, name="my_rule.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def refused(name, call=credit_rule):
    with pytest.raises(BadInput) as error:
        call(name)
    return str(error.value)


def test_every_rule_of_the_package_is_called_alike():
    for entry in entries("credit"):
        rule = credit_rule(entry.name)
        assert rule.summary == entry.summary and entry.constants["LEVEL"] == rule.LEVEL and not rule.home
        assert (rule.Config is None) == (rule.settings([]) is None)
    ledger = credit_rule("step_leave_one_out_to_go").assign(sample_episodes())  # one without settings
    assert isinstance(ledger, Ledger)


def test_the_level_may_be_left_out_where_that_says_enough():
    assert credit_rule("group_std").name == "step_group_std"
    assert "agent_gae or step_gae" in refused("gae")
    assert "did you mean 'step_group_std'" in refused("step_grup_std")


def test_a_file_a_name_in_it_and_a_module_name_the_same_rule(rule_file, monkeypatch):
    path, episodes = rule_file(), sample_episodes()
    whole, named = credit_rule(str(path)), credit_rule(f"{path}:assign")
    (path.parent / "my_package").mkdir()
    (path.parent / "my_package/rule.py").write_text(path.read_text())
    monkeypatch.syspath_prepend(path.parent)
    module = credit_rule("my_package.rule:assign")
    first = whole.assign(episodes).values("step")
    for rule in (named, module):
        assert (rule.LEVEL, rule.UNBIASED, rule.summary) == ("step", True, "The whole return on every step")
        assert rule.assign(episodes).values("step").tobytes() == first.tobytes()
    check_credit(whole.source)
    assert refused("my_package.other:assign").startswith("no such module")


def test_settings_stand_behind_the_name(rule_file):
    path, episodes = rule_file(), sample_episodes()
    rule, config = rule_with_settings(f"{path},scale=2")
    same, _ = rule_with_settings(f"{path}:assign,scale=2")
    assert config.scale == 2.0 and same.settings(["scale=2"]) == config
    assert rule.assign(episodes, config).total("step") == pytest.approx(2 * rule.assign(episodes).total("step"))
    rule, config = rule_with_settings("step_group_std:eps=0.5,kinds=['return', 'process']")
    assert (config.eps, config.kinds) == (0.5, ("return", "process"))
    assert "did you mean 'eps'" in refused("step_group_std:epps=1", rule_with_settings)
    assert "float" in refused("step_group_std:eps=many", rule_with_settings)
    assert "no settings" in refused("step_live_groups:eps=1", rule_with_settings)


def test_a_file_that_does_not_run_is_reported_with_its_own_words_and_line(rule_file):
    printed = refused(str(rule_file("LEVEL = 'step'\nx = 1 / 0")))
    assert "ZeroDivisionError: division by zero" in printed and "my_rule.py, line 2" in printed
    assert "my_rule.py, line 2" in refused(str(rule_file("x = 1\ny = = 2")))
    rule = credit_rule(str(rule_file(WHOLE.replace("ledger.set(", "episodes[0].no_such_thing\n    ledger.set("))))
    with pytest.raises(
        BadInput, match=r"AttributeError: 'Episode' .* 'no_such_thing'(.|\n)*my_rule.py, line 17, in assign"
    ):
        rule.assign(sample_episodes())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UNBIASED = None\ndef assign(episodes): ...", 'LEVEL = "step"'),
        ("LEVEL = 'turn'\ndef assign(episodes): ...", "got: turn"),
        ("LEVEL = 'step'\ndef asign(episodes): ...", "with asign"),
        ("LEVEL = 'step'\nassign = 3", "not a credit rule"),
        ("LEVEL = 'step'\ndef assign(): ...", "takes nothing"),
    ],
)
def test_what_is_no_rule_is_refused(rule_file, text, message):
    assert message in refused(str(rule_file(text)))


def test_what_is_returned_must_be_a_ledger(rule_file):
    rule = credit_rule(str(rule_file("LEVEL = 'step'\ndef assign(episodes): return [1.0]")))
    with pytest.raises(BadInput, match="must return a ledger"):
        rule.assign(sample_episodes())
