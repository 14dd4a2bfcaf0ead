"""Attempts as coroutines: each asks the model and goes on when it is answered; what waits is answered as one batch.

A *player* is a generator that yields a ``Request`` for every decision, is sent its ``Completion``, and returns its
``Episode`` (``play.attempt`` makes them). ``run_players`` lets any number of them go on side by side: in lockstep, or
on threads, so that a slow tool holds up nobody but its own attempt. Draws come from the seed in each request, so the
numbers do not depend on who waited together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from threading import Semaphore

from evolvent.core.calls import spawn
from evolvent.core.episode import Episode
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Completion, Engine, Request, advance
from evolvent.core.protocols import Player as Player

PATIENCE_S = 0.01
"""How long the model waits, once somebody asks, for others to ask too: a batch costs little more than one."""


def run_players(
    players: Sequence[Player],
    engine: Engine,
    *,
    workers: int = 0,
    overlap: bool = False,
    heard: Callable[[int], None] = lambda done: None,
) -> list[Episode | EnvError]:
    """Let all players go on until each has returned its episode.

    Args:
        players: attempts.
        engine: the model.
        workers: threads on which environments work; 0 = all in lockstep, so that who is answered together, and with it
            every bit of the numbers, does not depend on the clock.
        overlap: in lockstep, each environment works on a thread of its own, and the model waits for all of them.
        heard: called with the number of finished attempts.

    Returns:
        In the order of ``players``: the episode, or the error of an environment that broke.
    """
    results: list[Episode | EnvError | None] = [None] * len(players)
    sent: dict[int, Completion | None] = dict.fromkeys(range(len(players)))
    running: dict[Future[Request | Episode | EnvError], int] = {}
    finished, places = 0, Semaphore(max(1, workers or len(players)))

    def advance_in_place(player: Player, completion: Completion | None) -> Request | Episode | EnvError:
        with places:
            return advance(player, completion)

    try:
        while sent or running:
            if workers or overlap:
                running |= {spawn(advance_in_place, players[i], completion): i for i, completion in sent.items()}
                wait(running, return_when=FIRST_COMPLETED if workers else ALL_COMPLETED)
                ready, _ = wait(running, timeout=PATIENCE_S if workers else 0)
                moved = {running.pop(future): future.result() for future in ready}
            else:
                moved = {i: advance(players[i], completion) for i, completion in sent.items()}
            requests: dict[int, Request] = {}
            for i in sorted(moved):
                outcome = moved[i]
                if isinstance(outcome, Request):
                    requests[i] = outcome
                else:
                    results[i] = outcome
                    finished += 1
            heard(finished)
            sent = dict(zip(requests, engine(list(requests.values())), strict=True)) if requests else {}
    except Exception:
        wait(running)  # nobody is left at work in what is closed now; Ctrl-C waits for nobody
        raise
    return [result for result in results if result is not None]
