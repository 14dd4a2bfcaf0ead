"""Settings: what an error says of them."""

from dataclasses import dataclass, field

import pytest

from evolvent.core.config import at_least
from evolvent.core.errors import BadInput


def test_what_is_out_of_bounds_names_the_default_of_the_whole():
    """A system may have its own default for a part of its settings: that is the one a user gets."""

    @dataclass(frozen=True)
    class Part:
        rounds: int = 0

    @dataclass(frozen=True)
    class System:
        part: Part = field(default_factory=lambda: Part(rounds=5))

    @dataclass(frozen=True)
    class Asked:
        name: str
        part: Part = Part()

    with pytest.raises(BadInput, match=r"--rounds[^?]*leave it out for 5"):
        at_least(System(Part(-1)), {"rounds": 0})
    with pytest.raises(BadInput, match=r"--rounds") as caught:
        at_least(Asked("a", Part(-1)), {"rounds": 0})
    assert "leave it out" not in str(caught.value)
