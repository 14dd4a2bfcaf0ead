"""The bench of the sandbox measures every mechanism of this machine against the plain start."""

from speed import sandbox


def test_it_measures_each_mechanism(monkeypatch):
    for name, value in (("ROUNDS", 4), ("COLD_ROUNDS", 1), ("CALLS", 5)):
        monkeypatch.setattr(sandbox, name, value)
    result = sandbox.run(0)
    works = set(result["call_us"])
    assert works
    for kind in ("cold", "fresh", "warm", "at_once"):
        assert all(result["ratios"][f"{kind} {name}"] > 0 for name in works)
