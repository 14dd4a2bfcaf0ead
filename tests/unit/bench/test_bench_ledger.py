"""The benchmark compares two ledgers that agree, and the arrays win where there is work to do."""

import pytest
from speed import ledger


@pytest.mark.slow
def test_runs_small_and_both_ledgers_agree(monkeypatch):
    monkeypatch.setattr(ledger, "EPISODES", 100)
    result = ledger.run(seed=1)
    assert result["tokens"] == 200_000 and result["checks"]["agree"] and result["checks"]["memory"]
    assert result["ratios"]["speed_vs_dict"] > 3 and result["ratios"]["memory_vs_dict"] > 3
