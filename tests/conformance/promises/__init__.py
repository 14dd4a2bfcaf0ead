"""What a memory promises, on any engine; each promise is one check, named as a sentence.

A check takes ``factory(name, **options)``, which opens the store of that name (makes it when new) with ``Memory``'s
options. Stores must be files or servers that another process can open at ``memory.path``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from evolvent.memory.memory import Memory

from . import credit, finding, mending, reports, revising, scopes, selection, shared, store, verbs

# a check is a public function of one argument, the factory
CHECKS: dict[str, Callable[[Callable[..., Memory]], None]] = {
    name: check
    for module in (credit, selection, store, verbs, revising, mending, finding, scopes, reports, shared)
    for name, check in vars(module).items()
    if inspect.isfunction(check)
    and check.__module__ == module.__name__
    and name[0] != "_"
    and list(inspect.signature(check).parameters) == ["factory"]
}
