"""A tree that is written down, as a space to search: {node: {child: (prior, value)}}; leaves end, rewards by name."""

import numpy as np

from evolvent.search.budget import Budget
from evolvent.search.search import Moves, Search, State
from evolvent.search.tree import Tree


class Written:
    def __init__(self, edges, rewards=None, keys=None, tasks=1, cost=1, dead=()):
        self.edges, self.rewards, self.keys, self.dead = edges, rewards, keys or {}, dead
        self.names = dict.fromkeys(range(tasks), "root")
        self.values = {"root": 0.0} | {n: v for some in edges.values() for n, (_, v) in some.items()}
        self.cost, self.asked, self.waiting = cost, [], {}

    def propose(self, nodes, widths, meter):
        out = []
        for node, width in zip(nodes, widths, strict=True):
            task = int(self.tree.task[node])
            some = list(self.edges.get(self.names[node], {}).items())[:width]
            count, tokens = meter.share(task, max(len(some), 1), self.cost)
            if count == 0 or tokens < self.cost:
                out.append(None)
                continue
            some = some[:count] if self.names[node] not in self.dead else []
            self.asked.append(self.names[node])
            meter.calls[task] += len(some)
            meter.tokens[task] += self.cost * len(some)
            self.waiting[node] = [name for name, _ in some]
            out.append(Moves(np.array([p for _, (p, _) in some]), np.full(len(some), self.cost)))
        return out

    def made(self, parent, children):
        self.names.update(zip(children.tolist(), self.waiting.pop(parent), strict=True))

    def twin(self, node, new):
        self.names[new] = self.names[node]

    def enter(self, nodes):
        ends = [self.names[n] not in self.edges for n in nodes]
        return [
            (np.nan if self.rewards is None else self.rewards.get(self.names[n], 0.0)) if end else None
            for n, end in zip(nodes, ends, strict=True)
        ]

    def state(self, node):
        names, ended = [self.names[n] for n in self.tree.path(node)], bool(self.tree.terminal[node])
        return State(
            node, int(self.tree.task[node]), "root", tuple(names[1:]), (), ended, float(self.tree.reward[node])
        )

    def key(self, node):
        return self.keys.get(self.names[node])


def search_of(space, tasks=1, *, value=None, widths=(99,), budget=Budget(), verifier=None, virtual_loss=1.0):
    tree = Tree(tasks, virtual_loss=virtual_loss)
    space.tree = tree

    def written(states):
        return [space.values[space.names[s.node]] for s in states]

    written.__name__ = "written"
    return Search(tree, space, value or written, widths=widths, budget=budget, verifier=verifier)


def named(search, name):
    """The node of that name, the first one made."""
    return next(node for node, known in search.space.names.items() if known == name)
