"""Ways to give the turns of an attempt credit, as plain functions on arrays in the form of verl's estimators.

    evolvent check advantage examples/advantages.py:leave_one_out

Each takes the rewards of tokens [B, T], the mask of the policy's tokens [B, T] and the prompt of each attempt [B] (here
one), and gives advantages [B, T]. Which of them are biased: docs/advantage.md.
"""

import numpy as np

Array = np.ndarray


def total(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """Its return, at every token, without a baseline."""
    return token_level_rewards.sum(1, keepdims=True) * response_mask


def leave_one_out(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """Its return less the mean of the others'."""
    returns = token_level_rewards.sum(1)
    return (returns - others(returns))[:, None] * response_mask


def group_mean(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """Its return less the mean of the group, which holds it."""
    returns = token_level_rewards.sum(1)
    return (returns - returns.mean())[:, None] * response_mask


def standardised(token_level_rewards: Array, response_mask: Array, index: Array, epsilon: float = 1e-6) -> Array:
    """The same over the group's standard deviation."""
    returns = token_level_rewards.sum(1)
    return ((returns - returns.mean()) / (returns.std(ddof=1) + epsilon))[:, None] * response_mask


def togo_leave_one_out(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """From each turn on, less the mean of the others' from that turn on; attempts that had ended count 0."""
    turn, reward_BS, _ = turns_of(token_level_rewards, response_mask)
    ahead = togo(reward_BS)
    return at_tokens(ahead - others(ahead), turn)


def togo_mean_of_those_there(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """From each turn on, less the mean of the attempts that reached that turn."""
    turn, reward_BS, there_BS = turns_of(token_level_rewards, response_mask)
    ahead = togo(reward_BS)
    mean = (ahead * there_BS).sum(0) / there_BS.sum(0)
    return at_tokens((ahead - mean) * there_BS, turn)


def togo_others_there(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """From each turn on, less the mean of the others that reached that turn; nothing is taken off where none did."""
    turn, reward_BS, there_BS = turns_of(token_level_rewards, response_mask)
    ahead = togo(reward_BS) * there_BS
    count = there_BS.sum(0) - there_BS
    mean = np.where(count > 0, (ahead.sum(0) - ahead) / np.maximum(count, 1), 0.0)
    return at_tokens((ahead - mean) * there_BS, turn)


def togo_pooled(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """From each turn on, less one mean over all turns of the group."""
    turn, reward_BS, there_BS = turns_of(token_level_rewards, response_mask)
    ahead = togo(reward_BS)
    return at_tokens((ahead - (ahead * there_BS).sum() / there_BS.sum()) * there_BS, turn)


def baseline_by_turns(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """Its return less a mean in which an attempt counts as often as it has turns."""
    _, _, there_BS = turns_of(token_level_rewards, response_mask)
    returns, length = token_level_rewards.sum(1), there_BS.sum(1)
    return (returns - (returns * length).sum() / length.sum())[:, None] * response_mask


def smeared(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """Its return, less the mean of the others', in equal parts over its turns; from each turn on."""
    turn, _, there_BS = turns_of(token_level_rewards, response_mask)
    returns = token_level_rewards.sum(1)
    part = ((returns - others(returns)) / there_BS.sum(1))[:, None] * there_BS
    return at_tokens(togo(part), turn)


def own_turn(token_level_rewards: Array, response_mask: Array, index: Array) -> Array:
    """What the turn itself earned less the mean of the others' at that turn, ended ones count 0."""
    turn, reward_BS, _ = turns_of(token_level_rewards, response_mask)
    return at_tokens(reward_BS - others(reward_BS), turn)


def others(x: Array) -> Array:
    """Mean over the other attempts, ``[B, …]``."""
    return (x.sum(0) - x) / (len(x) - 1)


def togo(reward_BS: Array) -> Array:
    """Sum from each turn on."""
    return reward_BS[:, ::-1].cumsum(1)[:, ::-1]


def turns_of(rewards_BT: Array, mask_BT: Array) -> tuple[Array, Array, Array]:
    """The turn of each token (-1: not the policy's), the reward of each turn, and whether there was one."""
    begins = (mask_BT == 1) & (np.pad(mask_BT, ((0, 0), (1, 0)))[:, :-1] == 0)
    turn_BT = np.where(mask_BT == 1, np.cumsum(begins, axis=1) - 1, -1)
    here_BST = turn_BT[:, None, :] == np.arange(turn_BT.max() + 1)[None, :, None]
    return turn_BT, (here_BST * rewards_BT[:, None, :]).sum(2), here_BST.any(2).astype(float)


def at_tokens(adv_BS: Array, turn_BT: Array) -> Array:
    """The advantage of its turn at every token, 0 where the environment spoke."""
    return np.where(turn_BT >= 0, np.take_along_axis(adv_BS, np.maximum(turn_BT, 0), axis=1), 0.0)
