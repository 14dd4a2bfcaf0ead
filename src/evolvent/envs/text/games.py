"""Small games of the browser: an attempt writes one mechanic, and a real browser says whether the page still plays.

A game is one page: a frame that runs (canvas, loop, keys, a state) and mechanics of a few lines each. An answer is a
mechanic, or a whole page. It passes three gates or stops at one:

1. there is a program in the answer, in the form that was asked for;
2. its text holds what a game needs, and reaches out of its page nowhere;
3. Chromium, in the sandbox, loads it, plays it with keys, and sees it paint, without an error, a dialog, a window or a
   request; a page that hangs or floods its console is stopped.

Reward: 1 for a playable page in which the mechanic changes the rules (or, where only a look was asked for, is there).
Whether it does what its words say is not judged. ``games:browser=false`` leaves the third gate out, and says so.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, drawn, named, playing
from evolvent.envs.text.games_mechanics import BY_NAME, GAMES, HELDOUT, MECHANICS, Mechanic
from evolvent.envs.text.games_page import added, assemble, blocks_of, extract, is_mechanic, missing, real, static_check
from evolvent.formulas.creative import runtime_score
from evolvent.sandbox.browser import Browser, Seen, find_browser

INSTRUCTIONS = """Write small mechanics for a game of the browser in JavaScript.
There is: s.player {x, y, w, h, vx, vy, color}; s.things, a list of boxes {kind, x, y, w, h, color} that are drawn;
s.score, s.lives, s.over, s.background; s.t counts frames; keys.ArrowLeft, keys.ArrowRight, keys.ArrowUp, keys[" "];
W = 480 and H = 320; hit(a, b) says whether two boxes touch. start runs once, step and draw in every frame.

Task: Game with nothing in it yet.
Add walk: the arrow keys left and right move the player
JavaScript:
```js
mechanics.push({
  step(s, keys) {
    if (keys.ArrowLeft) s.player.x -= 4;
    if (keys.ArrowRight) s.player.x += 4;
    s.player.x = Math.max(0, Math.min(W - s.player.w, s.player.x));
  },
});
```

"""
WHOLE = """Answer with the whole page, in one file: canvas, loop, keys, start. Put each mechanic between a line
"// mechanic: NAME" and a line "// end"."""


@dataclass(frozen=True)
class Verdict:
    """What became of an answer."""

    page: str
    """The whole page, also where it was refused; empty where the answer held no program."""
    source: str
    gate: str
    """Where it stopped: ``text``, ``static``, ``browser``; "" = it plays; ``harness``: the browser failed."""
    words: str
    """What may be shown to whoever wrote it."""
    errors: int = 0
    warnings: int = 0
    seen: Seen | None = None
    """None where no browser looked."""

    @property
    def playable(self) -> bool:
        """It passed the gates."""
        return self.gate == ""

    @property
    def score(self) -> float:
        """RuntimeScore, of text and run together."""
        return runtime_score(self.errors, self.warnings)

    @property
    def sanity(self) -> float:
        """Share of: loads, paints, changes, runs without trouble. Without a browser the score of the text."""
        seen = self.seen
        if seen is None:
            return self.score if self.page else 0.0
        return (seen.loaded + seen.painted + seen.changes + (not seen.errors and not seen.ended)) / 4


class Judge:
    """Where pages are opened; ``browser=False`` judges their text alone.

    Raises:
        NoBrowser, NoSandbox: pages cannot be opened here.
    """

    def __init__(self, *, browser: bool = True) -> None:
        self.browser = Browser() if browser else None

    def judge(self, page: str, source: str) -> Verdict:
        """The gates of a page."""
        errors, warnings = static_check(page)
        if errors:
            return Verdict(page, source, "static", "; ".join(errors[:2]), len(errors), len(warnings))
        if self.browser is None:
            return Verdict(page, source, "", "its text is right; no browser looked", 0, len(warnings))
        seen = self.browser.see(page)
        if seen.ended == "crashed":
            seen = self.browser.see(page)  # once more, so that what happens to the browser is not held against a page
        faults = [*seen.errors, *([_ENDED[seen.ended]] if seen.ended else [])]
        faults += [] if seen.painted or seen.ended else ["nothing is painted"]
        gate = "" if seen.playable else "browser"
        n = len(seen.errors) + bool(seen.ended) + (not seen.painted)
        text = "; ".join(faults[:2]) or ("it plays" if seen.changes else "it plays, but nothing on it moves")
        return Verdict(page, source, gate, text, n, len(warnings) + len(seen.warnings), seen)

    def close(self) -> None:
        """End the browser."""
        if self.browser is not None:
            self.browser.close()


_ENDED = {
    "hangs": "the page hangs: a loop without an end",
    "floods": "it writes to the console without end",
    "leaves": "it leaves its page",
    "crashed": "the browser crashed on it",
}


class Games(TextEnv):
    """The world; ``asked`` and ``judged`` are open to systems that go on with what was written."""

    name, labels, stop, max_tokens = "games", ("Task", "JavaScript"), ("\n```\n", "\nTask:"), 350
    instructions = INSTRUCTIONS

    def __init__(self, *, browser: bool) -> None:
        self.mechanics, self.browser = dict(BY_NAME), browser
        self._judge: Judge | None = None
        self.last: Verdict | None = None

    def start(self) -> Judge:
        """Where pages are opened; made at first use.

        Raises:
            NoBrowser, NoSandbox: they cannot be opened here.
        """
        if self._judge is None:
            self._judge = Judge(browser=self.browser)
        return self._judge

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` pairs of a game and a mechanic to add to it, in shuffled order; used up, they come again."""
        check_request(split, n, "games.tasks")
        wanted = [m for m in MECHANICS if (m.name in HELDOUT) == (split == "heldout")]
        pairs = [(game, m) for game, core in GAMES.items() for m in wanted if m.name not in ("walk", core)]
        tasks = list[Task]()
        for game, m in drawn(pairs, n, random.Random(f"games/{split}/{seed}")):
            page = base(game)
            text = self.asked(game, page, m)
            tasks.append(Task(f"games/{game}/{m.name}", text, m.name, split, meta={"page": page}))
        return named(tasks, len(pairs))

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Show what is to be added; ``seed`` changes nothing."""
        if task.kind not in self.mechanics or "page" not in task.meta:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where="games")
        self._task, self._turn = task, Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Take the mechanic. ``info``: ``action`` (the program), ``gate``, ``words``, ``score``, ``sanity``.

        The page is in ``last``.
        """
        playing(self._turn, "games")
        name = self._task.kind
        found = self.last = self.judged(str(self._task.meta["page"]), name, action)
        there = found.playable and self.there(found, name)
        self._turn = Turn(
            found.words,
            reward=float(there),
            terminated=True,
            success=there,
            valid=found.gate != "harness",
            info={
                "action": found.source,
                "gate": found.gate,
                "words": found.words,
                "score": found.score,
                "sanity": found.sanity,
                "rewards": {"playable": float(found.playable), "realised": float(there)},
            },
        )
        return self._turn

    def judged(self, page: str, name: str, answer: str) -> Verdict:
        """All gates of a page with the mechanic of an answer put into it."""
        source = extract(answer)
        if not source or not is_mechanic(source):
            why = "there is no mechanics.push({...}) in the answer" if source else "there is no program in the answer"
            return Verdict("", source, "text", why, errors=1)
        return self.start().judge(added(page, name, source), source)

    def there(self, verdict: Verdict, name: str) -> bool:
        """Whether a page has a mechanic, and it changes the rules or is a look."""
        code = blocks_of(verdict.page).get(name, "")
        return bool(code) and (self.mechanics[name].look or real(code))

    @staticmethod
    def asked(
        game: str, page: str, mechanic: Mechanic, *, failed: str = "", source: str = "", whole: bool = False
    ) -> str:
        """The text of a task: what the game has, what to add, and how the last try failed."""
        have = "; ".join(
            f"{name} ({BY_NAME[name].description})" if name in BY_NAME else name for name in blocks_of(page)
        )
        text = f"Game {game}{f', with {have}' if have else ''}.\n"
        text += f"This is the page so far:\n```html\n{page.strip()}\n```\n{WHOLE}\n" if whole else ""
        text += f"Add {mechanic.name}: {mechanic.description}"
        text += " (what it looks like alone: draw(s, g), no rules)" if mechanic.look else ""
        if failed:
            text += f"\nThis failed ({failed}):\n```js\n{source}\n```\nWrite it again without the mistake."
        return text

    @staticmethod
    def advice(kind: str, key: str, body: str) -> str:
        """A remembered thing as a part of a task."""
        if kind == "code":
            return f"A mechanic that works ({key}):\n```js\n{body.strip()}\n```"
        return f"{'A mistake to avoid' if kind == 'failure' else 'Advice'}: {body}"

    def close(self) -> None:
        """End the browser."""
        if self._judge is not None:
            self._judge.close()


def base(game: str) -> str:
    """The page that a game begins with: walking, and its point."""
    return assemble(game, {name: BY_NAME[name].code for name in ("walk", GAMES[game])})


def lost(page: str) -> float:
    """1 where canvas, loop or input is missing."""
    return float(bool(missing(page)))


def make(*, browser: bool = True) -> Games:
    """Games to add mechanics to.

    Args:
        browser: false judges the text of a page alone: an explicit choice, which every report of the run shows.

    Raises:
        EnvError: there is no browser.
    """
    if browser:
        try:
            find_browser()
        except RuntimeError as error:
            raise EnvError(
                "games are opened in a browser, and there is none",
                got=str(getattr(error, "got", "")),
                where="games",
                do="apt install chromium-headless-shell (or chromium); --env games:browser=false judges their text "
                "alone",
            ) from error
    return Games(browser=browser)
