"""A parallel environment of the PettingZoo kind whose agents die one by one, with masks and a picture to see."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Dwindling:
    """Agent i leaves after step i + 2; the last one to leave is cut off at step 5."""

    possible_agents = ("one", "two", "three")
    unwrapped = None

    def __init__(self, max_cycles=5, render_mode=None):
        self.max_cycles, self.unwrapped, self.agents = max_cycles, self, []

    def observation_space(self, agent):
        return Dict({"observation": Box(0, 255, (2, 2), np.uint8), "action_mask": Box(0, 1, (3,), np.int8)})

    def action_space(self, agent):
        return Discrete(3, start=10)

    def reset(self, seed=None, options=None):
        self._random, self._age, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        assert all(10 <= action <= 12 and action != 10 + self._age % 3 for action in actions.values())
        self._age += 1
        seen, before = self._seen(), self.agents
        over = {agent: self._age >= self.possible_agents.index(agent) + 2 for agent in before}
        cut = dict.fromkeys(before, self._age >= self.max_cycles)
        over["three"], reward = False, {agent: float(action) for agent, action in actions.items()}
        self.agents = [agent for agent in before if not (over[agent] or cut[agent])]
        return seen, reward, over, cut, {agent: {} for agent in before}

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)

    def close(self):
        pass

    def _seen(self):
        mask = np.arange(3) != self._age % 3
        picture = self._random.integers(0, 256, (2, 2), np.uint8)
        return {agent: {"observation": picture, "action_mask": mask.astype(np.int8)} for agent in self.agents}


parallel_env = Dwindling
