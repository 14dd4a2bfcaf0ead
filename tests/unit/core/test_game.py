"""The record of a game: what each may know, chance, returns, and a player's own view of it."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.core.game import CHANCE, Game, decode_game, encode_game, episodes
from evolvent.core.ledger import Ledger
from evolvent.credit import step_gae, step_group_mean

THIRD = [(card, 1 / 3) for card in range(3)]


def kuhn(cards=(2, 0), bets=(1, 0), policy=(0.4, 0.6)) -> Game:
    """Kuhn poker: a card each of three, then pass (0) or bet (1); the first to bet against a pass wins the pot."""
    game = Game("kuhn_poker", ("ann", "bob"), seed=3, id="k")
    game.chance(cards[0], THIRD, text="deal")
    left = [card for card in range(3) if card != cards[0]]
    game.chance(cards[1], [(card, 1 / 2) for card in left])
    for ply, bet in enumerate(bets):
        player, history = ply % 2, "".join("pb"[b] for b in bets[:ply])
        game.act(player, bet, [0, 1], probs=policy, text=("pass", "bet")[bet], knows=f"{cards[player]}{history}")
    pot = 2.0 if bets.count(1) > 1 else 1.0
    ann = pot * (1 if cards[0] > cards[1] else -1)
    if bets in ((1, 0), (0, 1, 0)):
        ann = 1.0 if bets == (1, 0) else -1.0
    game.end((ann, -ann))
    return game


def test_a_player_sees_what_it_may_know_and_earns_its_return():
    game = kuhn()
    assert [ply.player for ply in game.plies] == [CHANCE, CHANCE, 0, 1] and game.returns == (1.0, -1.0)
    ann, bob = episodes(game)
    assert [n.text for n in ann.nodes] == ["2", "bet"] and [n.text for n in bob.nodes] == ["0b", "pass"]
    assert (ann.total_reward, bob.total_reward) == (1.0, -1.0) and ann.terminated and ann.agents_T == ["ann"]
    assert (
        ann.token_ids.tolist() == [1] and ann.logp[0] == pytest.approx(math.log(0.6)) and ann.choices(0) == [[0], [1]]
    )
    assert ann.turn_T.tolist() == [2] and bob.turn_T.tolist() == [3]


@given(st.permutations(range(3)), st.sampled_from([(0, 0), (0, 1, 0), (0, 1, 1), (1, 0), (1, 1)]), st.integers(0, 1))
def test_what_others_hold_is_not_in_a_players_view(cards, bets, player):
    """Two deals that differ in the other's card alone look alike to a player, but for what it earned."""
    hidden, other = list(cards[:2]), list(cards[:2])
    other[1 - player] = cards[2]
    one, two = (episodes(kuhn(tuple(deal), bets))[player] for deal in (hidden, other))
    assert [n.text for n in one.nodes] == [n.text for n in two.nodes]
    assert one.logp.tolist() == two.logp.tolist() and one.turn_T.tolist() == two.turn_T.tolist()


@st.composite
def games(draw):
    """Any sequence of choices: of chance, of players, at once or in turn, paid now and then or at the end."""
    n = draw(st.integers(1, 3))
    number = st.floats(-9, 9, width=32)
    game = Game(draw(st.text(max_size=5)), [f"p{i}" for i in range(n)], id="g", meta={"k": draw(st.floats())})
    paid = draw(st.booleans())
    for _ in range(draw(st.integers(0, 6))):
        legal = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
        action = draw(st.sampled_from(legal))
        if draw(st.integers(0, 3)) == 0:
            game.chance(action, [(a, 1 / len(legal)) for a in legal])
        else:
            player = draw(st.integers(0, n - 1))
            last = game.plies[-1].turn if game.plies else -1
            now = [ply.player for ply in game.plies if ply.turn == last]
            together = bool(now) and CHANCE not in now and player not in now and draw(st.booleans())
            tokens = draw(st.sampled_from([((), (), ()), ((1, 2), (3,), (-0.5,)), ((1,), (4, 5), ())]))
            probs = draw(st.sampled_from([(), [1 / len(legal)] * len(legal)]))
            game.act(
                player, action, legal, probs=probs, knows=draw(st.text(max_size=3)), tokens=tokens, together=together
            )
        if paid and draw(st.booleans()):
            game.reward(draw(st.lists(number, min_size=n, max_size=n)))
    if draw(st.integers(0, 4)):
        returns = None if paid else draw(st.lists(number, min_size=n, max_size=n))
        game.end(returns, truncated=draw(st.booleans()))
    return game


@settings(deadline=None)
@given(games())
def test_a_line_round_trips(game):
    again = decode_game(encode_game(game))
    assert again == game and again.plies == game.plies and again.returns == game.returns
    assert (again.players, again.terminated, again.truncated) == (game.players, game.terminated, game.truncated)


@settings(deadline=None)
@given(games())
def test_every_return_is_in_a_players_episode(game):
    if not game.ended:
        with pytest.raises(BadInput, match="has not ended"):
            episodes(game)
        return
    for player, ep in enumerate(episodes(game)):
        mine = [ply for ply in game.plies if ply.player == player]
        assert ep.n_steps == len(mine) and ep.meta["return"] == game.returns[player]
        assert not mine or ep.total_reward == pytest.approx(game.returns[player], abs=1e-5)
        assert ep.turn_T.tolist() == [ply.turn for ply in mine] and (ep.terminated, ep.truncated) == (
            game.terminated,
            game.truncated,
        )


def test_players_who_choose_at_once_share_a_turn():
    game = Game("rock, paper, scissors", ("a", "b"))
    for _ in range(2):
        game.act(0, 1, range(3))
        game.act(1, 2, range(3), together=True)
    assert [ply.turn for ply in game.plies] == [0, 0, 1, 1]
    with pytest.raises(BadInput, match="nobody else chose"):
        game.act(1, 2, range(3), together=True)
    assert len(game.plies) == 4


def test_a_reward_goes_to_the_choice_before_it_and_early_ones_to_the_first():
    game = Game("g", ("a", "b"))
    game.chance(0, [(0, 1.0)])
    game.reward((1.0, 2.0))
    game.act(0, 0, [0])
    game.reward((0.5, 0.0))
    game.act(1, 0, [0])
    game.reward((0.0, 4.0))
    game.act(0, 0, [0])
    game.end()
    assert game.returns == (1.5, 6.0)
    assert [ep.rewards_T.tolist() for ep in episodes(game)] == [[1.5, 0.0], [6.0]]


def test_credit_rules_read_the_view_of_a_player():
    played = [kuhn(cards, bets) for cards in ((2, 0), (0, 1)) for bets in ((1, 0), (0, 0))]
    mine = [episodes(game)[0] for game in played]
    returns = np.array([game.returns[0] for game in played])
    assert step_group_mean.assign(mine).values("step") == pytest.approx(returns - returns.mean())
    for ep in mine:
        ep.note("value", np.zeros(ep.n_tokens))
    assert isinstance(step_gae.assign(mine), Ledger)


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        (lambda g: g.act(2, 0, [0]), "no such player"),
        (lambda g: g.act(0, 3, [0, 1]), "not among the legal ones"),
        (lambda g: g.act(0, 0, [0, 0]), "not among the legal ones"),
        (lambda g: g.act(0, 0, [0, 1], probs=[0.0, 1.0]), "not probabilities"),
        (lambda g: g.act(0, 0, [0, 1], probs=[1.0]), "not probabilities"),
        (lambda g: g.act(0, 0, [0], tokens=((), (1, 2), (-1.0,))), "one log-probability a token"),
        (lambda g: g.act(0, 0, [0], together=True), "nobody else chose"),
        (lambda g: g.chance(0, [(0, 0.5), (1, 0.4)]), "not probabilities"),
        (lambda g: g.chance(0, []), "without outcomes"),
        (lambda g: g.reward((1.0, 2.0)), "nothing was done"),
        (lambda g: g.end((1.0,)), "finite number a player"),
        (lambda g: g.end((math.nan, 1.0)), "finite number a player"),
    ],
)
def test_refuses(verb, says):
    game = Game("g", ("a", "b"))
    with pytest.raises(BadInput, match=says):
        verb(game)
    assert not game.plies and not game.ended


def test_refuses_what_does_not_fit_the_end():
    game = kuhn()
    for verb in (lambda: game.act(0, 0, [0]), game.end):
        with pytest.raises(BadInput, match="end"):
            verb()
    game = Game("g", ("a", "b"))
    game.act(0, 0, [0])
    game.reward((1.0, 0.0))
    with pytest.raises(BadInput, match="not the sum of the rewards"):
        game.end((2.0, 0.0))
    with pytest.raises(BadInput, match="without players"):
        Game("g", ())


def test_lines_that_are_no_game_are_refused_by_name():
    record = json.loads(encode_game(kuhn()))
    for change, says in (
        ({"schema": 2}, "newer version of evolvent: schema 2, this one reads up to 1"),
        ({"kind": "rollout"}, "no game"),
        ({"plies": [{"player": 0}]}, "lacks a field"),
        ({"plies": [{**record["plies"][0], "more": 1}]}, "lacks a field"),
        ({"returns": [5.0, -5.0]}, "not the sum"),
    ):
        with pytest.raises(BadInput, match=says):
            decode_game(json.dumps(record | change))
    for line in ("{", "[]", json.dumps({k: v for k, v in record.items() if k != "players"})):
        with pytest.raises(BadInput):
            decode_game(line)
