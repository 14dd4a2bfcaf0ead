"""`evolvent run X --help` makes the settings of a system from its source alone: they must be those that it has."""

import pytest

from evolvent import catalogue
from evolvent.core.config import to_json


@pytest.mark.parametrize("name", [entry.name for entry in catalogue.entries("algos")])
def test_the_settings_shown_are_those_of_the_system(name):
    shown, whole = catalogue.settings_of(name), catalogue.system(name).Config
    assert shown is not whole and to_json(shown()) == to_json(whole()) and shown.__doc__ == whole.__doc__
