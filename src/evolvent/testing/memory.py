"""``check_memory``: a memory proves that it keeps its promises; each promise is one named check.

Credit is in ``memory_credit``, selection in ``memory_selection``, writing in ``memory_store``, reading and
listing in ``memory_verbs``, finding and erasing what was found in ``memory_finding``, outcomes that are taken back in
``memory_revising``, what is taken out in ``memory_mending``, several scopes in ``memory_scopes``, what is told in
``memory_told``, several threads, processes and sudden death in ``memory_shared``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count

from evolvent.memory.memory import Memory
from evolvent.testing import (
    memory_credit,
    memory_finding,
    memory_mending,
    memory_revising,
    memory_scopes,
    memory_selection,
    memory_shared,
    memory_store,
    memory_told,
    memory_verbs,
)

Factory = Callable[..., Memory]
"""``factory(name, **options)`` opens the store called ``name`` (makes it when new) with ``Memory``'s options."""

# a check is a public function of one argument, the factory
CHECKS: dict[str, Callable[[Factory], None]] = {
    name: check
    for module in (
        memory_credit,
        memory_selection,
        memory_store,
        memory_verbs,
        memory_revising,
        memory_mending,
        memory_finding,
        memory_scopes,
        memory_told,
        memory_shared,
    )
    for name, check in vars(module).items()
    if inspect.isfunction(check)
    and check.__module__ == module.__name__
    and name[0] != "_"
    and list(inspect.signature(check).parameters) == ["factory"]
}


def check_memory(factory: Factory) -> list[str]:
    """Run every check on fresh stores and return the names of the checks that passed.

    Args:
        factory: ``factory(name, **options) -> Memory``. The same name gives the same store again; options are those
            of ``Memory`` (policy, embedder, scope, seed, reward_range). Stores must be files or servers that another
            process can open at ``memory.path``.

    Raises:
        AssertionError: a promise is broken; the message names the check.
    """
    number = count()
    for name, check in CHECKS.items():
        serial = next(number)

        def fresh(store: str = "a", _serial: int = serial, **options: object) -> Memory:
            return factory(f"{_serial}-{store}", **options)

        try:
            check(fresh)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
    return list(CHECKS)
