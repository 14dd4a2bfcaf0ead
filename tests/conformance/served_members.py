"""Members that the tests serve in processes of their own; each takes a text and does what it says."""

import asyncio
import os
import time
from pathlib import Path

from evolvent.core.errors import BadInput
from evolvent.play.workflow import Member, Workflow
from evolvent.teams.answers import MOST, Answer

SECRET = "sk-3c1f in /etc/members/key.pem"


async def solve(question: str, times: int = 1) -> str | Answer:
    """Solve a question in words."""
    print("printed by the member")
    word, _, rest = question.partition(" ")
    match word:
        case "hang":
            Path(rest).with_suffix(".begun").touch()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                Path(rest).write_text("cancelled")
                raise
        case "meet":  # comes back once the other one is there
            Path(rest).touch()
            while not Path(rest).with_suffix(".other" if rest.endswith(".one") else ".one").exists():
                await asyncio.sleep(0.01)
        case "die":
            os._exit(1)
        case "raise":
            raise RuntimeError(SECRET)
        case "refuse":
            raise BadInput(SECRET, got=SECRET)
        case "huge":
            return "x" * (MOST + 1)
        case "count":
            return Answer("counted", {"prompt": 17, "cached": 5, "completion": 3, "seconds": 0.5})
        case "pid":
            return str(os.getpid())
    return " ".join([question] * times)


def plain(question: str) -> str:
    """Not async."""
    time.sleep(600 * (question == "hang"))
    return question.upper()


team = Workflow((Member("planner", profile="Plan."), Member("solver", ("planner",), profile="Solve.")))
solver = team.member("solver")
