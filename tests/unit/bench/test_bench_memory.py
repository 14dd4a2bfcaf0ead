"""The benchmark of the memory measures what it says, small."""

from speed import memory as bench


def test_runs_small_and_compares_the_same_work(monkeypatch):
    monkeypatch.setattr(bench, "LOOP_SIZES", (200,))
    lines = []
    result = bench.run(seed=1, sizes=(300, 600), repeats=4, progress=lines.append)
    assert result["recall_at_10"] == {"search_300": 1.0, "search_600": 1.0}
    assert result["ratios"]["loop_over_search_200"] > 5
    for size in (300, 600):
        assert result["bytes_per_memory"][f"auto_{size}"] > 4 * bench.DIM
        for name in ("product", "exact", "search", "recall_memrl", "recall_memlift"):
            assert (
                0 < result["milliseconds"][f"{name}_{size}"]["p50"] <= result["milliseconds"][f"{name}_{size}"]["p99"]
            )
    assert result["per_second"]["values_settled_in_one_transaction_full"] > 0
    assert result["checks"]["recall_at_10_of_98"] and any("600 of 600" in line for line in lines)
