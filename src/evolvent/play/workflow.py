"""Who decides in an attempt: one agent, or several that speak one after another; the last one's words are the action.

Source: Flex-MG of MARFT (Liao et al. 2025, arXiv 2504.16129), a Markov game with a dependency function D(i, j): agent j
reads what agent i said in this turn. D must be without circles; agents speak in an order that follows it (``order``).
Every agent acts with weights of its own (the adapter of its name) on one base, where the engine has such. The reward
of a turn is the last agent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evolvent.core.errors import BadInput

PROFILES = {
    "checker": "An answer is proposed. Give the right answer.",
    "critic": "An answer is proposed. Say what is wrong with it.",
    "planner": "Say how to find the answer.",
}
"""Default prompts of agents with these names; other agents have none."""


@dataclass(frozen=True)
class Member:
    """An agent: its name, the agents whose output of this turn it reads, its prompt, and the adapter that it uses.

    ``adapter`` "" is the one of its name; ``None`` is the frozen base; with ``models.served.several`` it is a model of
    its own, or a function. ``label`` is what its answers are called in its prompts; "" = as the environment calls them.
    ``kind`` says which of several that can stand in this place it is, such as "strong".
    """

    name: str
    reads: tuple[str, ...] = ()
    profile: str = ""
    adapter: str | None = ""
    label: str = ""
    kind: str = ""

    @property
    def implementation(self) -> str:
        """What the record says of it: its kind, or else whose weights it has."""
        return self.kind or self.weights or "base"

    @property
    def weights(self) -> str | None:
        """The adapter that answers."""
        return self.name if self.adapter == "" else self.adapter


@dataclass(frozen=True)
class Workflow:
    """Agents and who reads whom; the last in order acts on the environment."""

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if not names or len(set(names)) != len(names) or not all(name.isidentifier() for name in names):
            raise BadInput("agents need distinct names", got=names, expected="one identifier each", where="--agents")
        for member in self.members:
            unknown = [name for name in member.reads if name not in names]
            if unknown:
                raise BadInput("an agent reads nobody", got=unknown, expected=names, where=f"--agents, {member.name}")
        self.order()

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of speaking."""
        return tuple(name for layer in self.order() for name in layer)

    @property
    def speaking(self) -> tuple[Member, ...]:
        """The agents in the order of speaking."""
        return tuple(map(self.member, self.names))

    def frozen(self, name: str) -> Workflow:
        """The same, with an agent that answers with the frozen base."""
        return Workflow(tuple(replace(m, adapter=None) if m.name == name else m for m in self.members))

    def member(self, name: str) -> Member:
        """The agent of that name."""
        return next(member for member in self.members if member.name == name)

    def order(self) -> list[list[str]]:
        """Layers: those of one do not read one another, and read earlier layers only.

        Raises:
            BadInput: agents that wait for one another.
        """
        left, layers = list(self.members), list[list[str]]()
        while left:
            waiting = {member.name for member in left}
            layer = [member.name for member in left if not waiting & set(member.reads)]
            if not layer:
                raise BadInput(
                    "agents wait for one another", got=sorted(waiting), where="--agents", expected="an order"
                )
            layers.append(layer)
            left = [member for member in left if member.name not in layer]
        return layers


SOLO = Workflow((Member("agent", adapter="policy"),))
"""One agent that decides alone."""


def workflow(agents: Sequence[str]) -> Workflow:
    """Agents as written on the command line: ``name`` or ``name<a+b``, each with ``: prompt`` if any.

    Without ``<`` an agent reads all that stand before it; ``name<`` reads nobody.
    """
    members: list[Member] = []
    for word in agents:
        head, colon, profile = word.partition(":")
        name, chosen, reads = (part.strip() for part in head.partition("<"))
        seen = tuple(r.strip() for r in reads.split("+") if r.strip()) if chosen else tuple(m.name for m in members)
        members.append(Member(name, seen, profile.strip() if colon else PROFILES.get(name, "")))
    return Workflow(tuple(members))
