"""Members of a team on models of their own: each request goes to the engine that its adapter names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evolvent.core.errors import BadInput, closest
from evolvent.core.protocols import Completion, Engine, Request


class Several:
    """One engine of many: what a model, an endpoint or a Python function answers (``models.served.acting.Served``).

    Args:
        engines: by the name that a member's ``adapter`` has.
        base: answers members without one; ``None`` = nobody does.
    """

    def __init__(self, engines: Mapping[str, Engine], base: Engine | None = None) -> None:
        self._engines: dict[str | None, Engine] = {**engines} | ({} if base is None else {None: base})

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """The answers in order; each engine is asked once, for all of its own.

        Raises:
            BadInput: nobody has that name.
        """
        mine: dict[str | None, list[int]] = {}
        for i, request in enumerate(requests):
            if request.adapter not in self._engines:
                names = [name for name in self._engines if name is not None]
                wanted = request.adapter or ""
                raise BadInput("no such model", got=wanted, expected=closest(wanted, names), where="Several")
            mine.setdefault(request.adapter, []).append(i)
        answers: dict[int, Completion] = {}
        for name, places in mine.items():
            answers |= zip(places, self._engines[name]([requests[i] for i in places]), strict=True)
        return [answers[i] for i in range(len(requests))]
