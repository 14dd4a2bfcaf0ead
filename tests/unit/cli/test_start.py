"""`evolvent list`: what to use for what a person has."""

from evolvent import catalogue
from evolvent.cli import main
from evolvent.start import choices, systems


def test_every_system_stands_under_what_a_person_has(capsys):
    names = [name for choice in choices() for group in systems(choice).values() for name in group]
    assert sorted(names) == [entry.name for entry in catalogue.entries("algos")]
    main(["list", "--plain"])
    said = capsys.readouterr().out
    assert all(f"You have {choice.have}" in said and choice.command in said for choice in choices())
