"""Groups of attempts that teach something."""

from evolvent.formulas.curricula import teaching, widest_groups


def test_groups_that_teach():
    ret, group = [1, 1, 0, 1, 0.2, 0.8], ["a", "a", "b", "b", "c", "c"]
    assert teaching(ret, group).tolist() == [False, False, True, True, True, True]
    assert widest_groups(ret, group, share=0.3).tolist() == [False, False, True, True, False, False]
    assert widest_groups(ret, group, share=0.6).tolist() == [False, False, True, True, True, True]
    assert widest_groups([1.0, 1.0], ["x", "x"], share=0.75).tolist() == [True, True]
