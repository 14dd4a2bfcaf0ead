"""A small run of CreativeGame, its model a script; the browser is replaced by one that has seen it all."""

import io
from pathlib import Path
from unittest.mock import patch

from evolvent.algos import creative_game
from evolvent.core import config as configs
from evolvent.core.folder import RunFolder
from evolvent.envs.text import games
from evolvent.envs.text.games_mechanics import BY_NAME
from evolvent.evaluate.live import Live
from evolvent.models.served.scripted import Scripted
from evolvent.sandbox.browser import Seen

# the smallest JPEG there is, of one grey point
JPEG = bytes.fromhex(
    "ffd8ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113"
    "141515150c0f171816141812141514ffc0000b080001000101011100ffc40014000100000000000000000000000000000009ffc40014100100"
    "000000000000000000000000000000ffda0008010100003f0054dfffd9"
)


class FakeBrowser:
    """Sees what a text says: ``broken`` in a page is an error there."""

    def __init__(self):
        self.pages = []

    def start(self):
        return "Chrome/0"

    def see(self, html):
        self.pages.append(html)
        errors = ("ReferenceError: broken is not defined (line 9)",) if "broken()" in html else ()
        return Seen(True, True, True, errors, (), "hangs" if "while (true)" in html else "", JPEG, 0.1)

    def close(self):
        pass


class Writer(Scripted):
    """Writes what the templates say; some mechanics fail at first, one always, and one answer is prose."""

    def __init__(self, never=("shield",), late=("magnet", "fruit"), prose=("dash",)):
        super().__init__(self._write)
        self.never, self.late, self.prose = never, late, prose

    def _write(self, prompt):
        task = prompt.split("Task: ")[-1]
        name = task.split("Add ")[1].split(":")[0]
        again = "This failed (" in task
        if name in self.prose and not again:
            return "Sure! Here is how I would go about it."
        if name in self.never or (name in self.late and not again):
            return "```js\nmechanics.push({ step(s, keys) { s.score += broken(); } });\n```"
        return f"```js\n{BY_NAME[name].code}\n```"


def seen():
    """The browser alone is replaced."""
    return patch.multiple(games, Browser=FakeBrowser, find_browser=lambda: "")


def begin(path, **more):
    config = creative_game.Config(**{"lineages": 3, "versions": 3, **more})
    folder = RunFolder.create(
        path,
        algo="creative_game",
        config=configs.to_json(config),
        env=config.env,
        seed=config.seed,
        command="test",
        kind="games",
    )
    return config, folder


def live():
    return Live(plain=True, stream=io.StringIO())


def played(path, model=None, **more):
    config, folder = begin(path, **more)
    with folder:
        return creative_game.run(config, folder, live(), model=model or Writer())


def sample_games_run(path: Path) -> Path:
    """A run that has ended."""
    with seen():
        played(path)
    return path
