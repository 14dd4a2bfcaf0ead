"""What divergence is measured from: the weights that training starts from, or, where that is asked for, the base."""

import json

import pytest

import tiny_language
from evolvent.models.language import model as language
from language_runs import rows, settings, start

folder = tiny_language.fixture(max_position_embeddings=512)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def adapter(folder, tmp_path_factory):
    """An adapter that says other things than its base."""
    place = tmp_path_factory.mktemp("adapter")
    tiny_language.stir(language.load(folder, dtype="float32"), 0.5).save(place, "policy")
    return str(place)


def first(name, model, path, **plan):
    result, _, _ = start(name, settings(name, model, updates=1, lr=1e-6, plan=plan), path)
    return rows(result)[0]


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce"])
def test_a_loaded_adapter_is_its_own_reference_unless_the_base_is_asked_for(name, folder, adapter, tmp_path):
    assert first(name, adapter, tmp_path / "start")["kl_ref"] == pytest.approx(0.0, abs=1e-4)
    assert first(name, adapter, tmp_path / "base", reference="base")["kl_ref"] > 0.003
    assert first(name, folder, tmp_path / "none")["kl_ref"] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("name", ["dpo", "tgdpo"])
def test_the_margin_of_preferences_begins_at_nothing(name, adapter, tmp_path):
    lines = [{"prompt": f"{i} + {i} =", "chosen": f" {2 * i}", "rejected": f" {i}"} for i in range(4)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    pairs, margins = str(tmp_path / "pairs.jsonl"), {}
    for reference in ("start", "base"):
        config = settings(
            name,
            adapter,
            updates=2,
            lr=1e-6,
            pairs=pairs,
            plan={"reference": reference},
            **({"reward_from": adapter} if name == "tgdpo" else {}),
        )
        margins[reference] = rows(start(name, config, tmp_path / reference)[0])[0]["margin"]
    assert margins["start"] == pytest.approx(0.0, abs=1e-4) and abs(margins["base"]) > 1e-3


def test_a_run_of_an_earlier_version_goes_on_with_the_base(adapter, tmp_path):
    config = settings("grpo", adapter, updates=2, lr=1e-6)
    result, _, _ = start("grpo", config, tmp_path / "run", break_at=None)
    assert rows(result)[1]["kl_ref"] == pytest.approx(0.0, abs=1e-4)
    manifest = json.loads((tmp_path / "run" / "config.json").read_text())
    del manifest["config"]["plan"]["reference"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(manifest))
    (tmp_path / "run" / "summary.json").unlink(missing_ok=True)
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "run" / "other")
    again, _, _ = start("grpo", config, tmp_path / "run", resume=True)
    assert rows(again)[0]["kl_ref"] > 0.003
