"""What a team's policy is shown of a frame: observations as they came, or normalised."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from evolvent.core.team import Frame, TeamSpec
from evolvent.learn.team.batch import View
from evolvent.learn.team.obs_norm import ObsNorm


class Views:
    """Makes views of frames on a device; what sizes the networks of a team.

    Attributes:
        team: shape of the team.
        ids: whether networks tell agents apart by their numbers.
        state_dim: numbers of the shared state, or of all observations in a row where there is none.
        norms: statistics by name, empty until ``normalise`` is called.
        memory: numbers that each agent's policy remembers within an attempt; 0 = it has no memory.
    """

    def __init__(self, team: TeamSpec, *, ids: bool, device: torch.device) -> None:
        self.team, self.ids, self.device = team, ids, device
        self.state_dim = team.state_dim or team.n_agents * team.obs_dim
        self.norms: dict[str, ObsNorm] = {}
        self.memory = 0

    def normalise(self) -> dict[str, ObsNorm]:
        """From now on views are normalised; the statistics by name, as parts of a checkpoint.

        Each agent has its own where its number tells it apart; else all share one, which fits any team.
        """
        states = self.team.state_dim
        self.norms = {"obs_norm": ObsNorm(self.team.obs_dim, self.team.n_agents if self.ids else 1)}
        self.norms |= {"state_norm": ObsNorm(states)} if states else {}
        return self.norms

    def of(self, frame: Frame) -> View:
        """A frame as a view with its own memory."""
        columns = (frame.obs_BAD, frame.state_BS, frame.available_BAN, frame.active_BA)
        return self._of(*(None if column is None else column.copy() for column in columns))

    def cut_off(self, frame: Frame) -> tuple[Tensor, View]:
        """Which copies were cut off, and what they saw last."""
        rows = np.flatnonzero(frame.truncated_B)
        columns = (frame.final_obs_BAD, frame.final_state_BS, frame.final_available_BAN, frame.final_active_BA)
        view = self._of(*(None if column is None else column[rows] for column in columns))
        return torch.from_numpy(rows).to(self.device), view

    def shown(self, obs: Tensor, state: Tensor, available: Tensor | None, active: Tensor | None) -> View:
        """Columns as a view, normalised where that is asked for; where there is no state, all observations in a row."""
        if self.norms:
            obs = self.norms["obs_norm"](obs)
            if "state_norm" in self.norms:
                state = self.norms["state_norm"](state.unsqueeze(-2)).squeeze(-2)
            else:
                state = obs.flatten(-2)
        return View(obs, state, available, active)

    def state(self, obs_BAD: np.ndarray, state_BS: np.ndarray | None) -> Tensor:
        """What a critic of the team sees: the state, or all observations in a row."""
        return torch.from_numpy(obs_BAD.reshape(len(obs_BAD), -1) if state_BS is None else state_BS)

    def available(self, available_BAN: np.ndarray | None, n: int) -> Tensor | None:
        """Choices open in ``n`` copies, or ``None`` where every agent has all of them."""
        if available_BAN is not None:
            return torch.from_numpy(available_BAN).to(self.device)
        if not (self.team.unequal and self.team.choices):
            return None
        own_AN = torch.from_numpy(self.team.choice_mask()).to(self.device)
        return own_AN.expand(n, -1, -1).clone()

    def _of(
        self,
        obs_BAD: np.ndarray | None,
        state_BS: np.ndarray | None,
        available_BAN: np.ndarray | None,
        active_BA: np.ndarray | None,
    ) -> View:
        """Columns that are nobody else's as a view."""
        assert obs_BAD is not None
        return self.shown(
            torch.from_numpy(obs_BAD).to(self.device),
            self.state(obs_BAD, state_BS).to(self.device),
            self.available(available_BAN, len(obs_BAD)),
            None if active_BA is None else torch.from_numpy(active_BA).to(self.device),
        )
