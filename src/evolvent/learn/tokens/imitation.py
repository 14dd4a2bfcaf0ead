"""SPEAR's self-imitation (arXiv 2509.22601): a loss on fresh attempts and on replayed ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.units import Terms, Units


@dataclass(frozen=True)
class WithReplay:
    """``own`` on the first ``fresh`` trajectories of a batch plus ``weight`` times ``replayed`` on all others.

    Each part is weighted over its own trajectories. Neither may need a reference or entropies.
    """

    own: Objective
    replayed: Objective
    fresh: int
    weight: float

    needs_reference = False
    together = "trajectory"

    def prepare(self, units: Units) -> Units:
        """What each part fixes over its own units: advantages, weights, relative entropies, which take part."""
        fixed: dict[str, Tensor] = {}
        for mine, loss, factor in self._parts(units):
            prepared = loss.prepare(units[mine]) if bool(mine.any()) else units[mine]
            for name in ("adv", "weight", "h", "kept"):
                column: Tensor | None = getattr(prepared, name)
                if column is not None:
                    whole = fixed.setdefault(name, column.new_ones(len(units)))
                    whole[mine] = factor * column if name == "weight" else column
        return replace(units, **fixed)

    def spans_rows(self, units: Units) -> bool:
        """Whether that of either part does."""
        return any(loss.spans_rows(units[mine]) for mine, loss, _ in self._parts(units) if bool(mine.any()))

    def idle(self, units: Units) -> Tensor:
        """Units without credit, and replayed ones of weight 0."""
        out = torch.zeros(len(units), dtype=torch.bool)
        for mine, loss, factor in self._parts(units):
            if bool(mine.any()):
                out[mine] = loss.idle(units[mine]) if factor > 0.0 else True
        return out

    def terms(self, units: Units, logp: Tensor, entropy: Tensor, generator: torch.Generator | None = None) -> Terms:
        """The sum of both losses; metrics are in the order of the units."""
        found: list[Terms] = []
        order: list[Tensor] = []
        for mine, loss, _ in self._parts(units):
            if bool(mine.any()):
                found.append(loss.terms(units[mine], logp[mine], entropy[mine], generator))
                order.append(torch.nonzero(mine).squeeze(-1))
        back = torch.argsort(torch.cat(order))
        metrics = {name: torch.cat([f.metrics[name] for f in found])[back] for name in found[0].metrics}
        return Terms(torch.stack([f.loss for f in found]).sum(), metrics)

    def _parts(self, units: Units) -> list[tuple[Tensor, Objective, float]]:
        mine = units.trajectory < self.fresh
        return [(mine, self.own, 1.0), (~mine, self.replayed, self.weight)]
