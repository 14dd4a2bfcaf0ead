"""`evolvent check game`: games of the library, and one in a file."""

from command import evolvent

MINE = """
from evolvent.envs.games.kuhn import Kuhn

class Cheating(Kuhn):
    def _show(self, reward_BP):
        frame = super()._show(reward_BP)
        frame.info_BPD[:, :, 5:] = 0  # what was done so far
        return frame

def make_game(n_envs: int, honest: bool = False):
    return Kuhn(n_envs) if honest else Cheating(n_envs)
"""


def test_a_game_is_checked(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    for name in ("leduc", "openspiel:leduc_poker", "mine.py:make_game,honest=true"):
        out, _ = evolvent("check", "game", name, cwd=tmp_path)
        assert f"{name} keeps its promises" in out and "perfect recall" in out
    _, error = evolvent("check", "game", "mine.py", cwd=tmp_path, code=2)
    assert "what a player knows forgets its past" in error
    assert "evolvent check game" in evolvent("check", "env", "kuhn", cwd=tmp_path, code=2)[1]
    assert "kuhn is a game in turns" in evolvent("run", "mat", "--env", "kuhn", cwd=tmp_path, code=2)[1]
