"""Arithmetic chains: lines by hand, the first wrong one, splits that share nothing."""

from evolvent.envs.text import chain

ASKED = "34+72-07+25"


def test_lines_and_their_first_error():
    assert chain.worked(ASKED).split() == ["34+72=06", "06-07=99", "99+25=24"]
    right = chain.worked(ASKED).split()
    assert chain.first_wrong(ASKED, right) == 3
    assert chain.first_wrong(ASKED, [right[0], "06-07=98", "98+25=23"]) == 1
    assert chain.first_wrong(ASKED, right[:2]) == 2  # nothing said is nothing wrong
    assert chain.worked("3+7-8").split() == ["3+7=0", "0-8=2"]  # of one digit, modulo 10
    env = chain.make(3)
    task = env.tasks("train", 1, 0)[0]
    for answer, reward, legal in (
        (chain.worked(task.text), 1.0, 3),
        ("", 0.0, 0),
        (chain.worked(task.text)[:-1], 0.0, 2),
    ):
        env.reset(task)
        turn = env.step(answer)
        assert (turn.reward, turn.info["legal"], turn.done) == (reward, legal, True)


def test_splits_share_no_chain():
    assert len(chain.make(4, digits=1).tasks("train", 1, 0)[0].text) == 9
    env = chain.make(1)  # few chains: they would meet
    train, held = ({t.text for t in env.tasks(split, 3000, 1)} for split in ("train", "heldout"))
    assert len(train) > 2000 and not train & held
