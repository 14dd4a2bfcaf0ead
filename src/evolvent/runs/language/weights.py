"""The trained weights of a language model as a part of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evolvent.models.language.model import LanguageModel


@dataclass(frozen=True)
class Weights:
    """One adapter of a model (or all its weights) as a part of a checkpoint."""

    model: LanguageModel
    adapter: str

    def state_dict(self) -> dict[str, Any]:
        """The trained tensors."""
        return dict(self.model.state_dict(self.adapter))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put them back in place."""
        self.model.load_state_dict(state, self.adapter)
