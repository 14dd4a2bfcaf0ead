"""Hammer: what each epoch draws, that a killed run draws the same, what is learned, what is refused."""

import json
from dataclasses import replace

import pytest
import torch

import tiny_language
from evolvent.algos import hammer, sft
from evolvent.core.errors import BadInput
from evolvent.data.calls import written
from evolvent.data.masking import unmask
from evolvent.data.rows import Row
from evolvent.evaluate.live import Live
from evolvent.runs.account.calls import COLUMNS
from evolvent.runs.language.config import Plan
from run_folders import Killed, begin, stable, weights

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=2048, hidden_size=64, intermediate_size=96)
SAID = {"ring": "Make a noise.", "halt": "Stop all.", "lamp": "Give light."}
N = 24


def tool(name):
    about = {"type": "integer", "description": "How often, 2 if unsaid", "default": 2}
    return {"name": name, "description": SAID[name], "parameters": {"properties": {"times": about}}}


def row(i, split="train", name="ring", kind="call"):
    times = 2 + i % 3
    gold = () if kind != "call" else ({"name": name, "arguments": {"times": times}},)
    asked = ({"role": "user", "content": f"Case {i}: {name} {times} times"},)
    listed = tuple(tool(one) for one in SAID if kind == "call" or one != name)
    return Row(f"{split}-{kind}-{i}", f"c{i}", asked, listed, gold, kind=kind, split=split, because="test")


ROWS = [
    *(row(i) for i in range(N)),
    *(row(i, kind="irrelevant") for i in range(100, 104)),
    *(row(i, split) for split in ("heldout", "unseen") for i in range(200, 203)),
    row(203, "heldout", kind="irrelevant"),
]
TOOLS = [tool(name) for name in SAID]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("fc")
    (path / "rows.jsonl").write_text("".join(f"{json.dumps(one.to_dict())}\n" for one in ROWS))
    return path


def settings(model, data, *, plan=(), **more):
    plan = Plan(**{"dtype": "float32", "eval_every": 0, "eval_tasks": 7, "answer": 60, "lora_rank": 0, **dict(plan)})
    return hammer.Config(**{"model": model, "env": f"functions:{data}", "lr": 0.01, "seed": 1, **more}, plan=plan)


def run(config, path, *, resume=False):
    with begin(path, "hammer", config, resume=resume) as folder, Live(plain=True) as live:
        return hammer.run(config, folder, live, resume=resume)


# ------------------------------------------------------------------------------------------------ what is drawn
def test_two_epochs_differ_in_their_names_and_each_can_be_undone():
    config = hammer.Config(mask=1.0, irrelevant=0.0, seed=3)
    defaults = 0
    for one in ROWS[:N]:
        a, b = (hammer.varied(one, epoch, config, TOOLS) for epoch in (0, 1))
        assert a == hammer.varied(one, 0, config, TOOLS) != hammer.varied(one, 0, replace(config, seed=4), TOOLS)
        assert {t["name"] for t in a.tools}.isdisjoint({t["name"] for t in b.tools} | set(SAID))
        assert a.gold[0]["name"] != b.gold[0]["name"] and set(a.gold[0]["arguments"]) != set(b.gold[0]["arguments"])
        for masked in (a, b):
            assert unmask(masked).to_dict() == replace(one, id=masked.id).to_dict()
            assert masked.gold[0]["name"] in {t["name"] for t in masked.tools}
        defaults += bool(a.mask["defaults"])
        if a.mask["defaults"]:
            (value,) = a.gold[0]["arguments"].values()
            assert value != 2 and f" {value} times" in a.request and one.gold[0]["arguments"] == {"times": 2}
    assert defaults == N / 3, "every row whose answer is the default has another one"


def test_the_shares_are_those_asked_for_and_do_not_shift_one_another():
    some = [replace(ROWS[i % N], id=f"r{i}") for i in range(600)]

    def drawn(mask, irrelevant):
        return [hammer.varied(one, 0, hammer.Config(mask=mask, irrelevant=irrelevant), TOOLS) for one in some]

    both, masked, gone, neither = drawn(0.67, 0.3), drawn(0.67, 0.0), drawn(0.0, 0.3), drawn(0.0, 0.0)
    assert [replace(one, id=old.id) for one, old in zip(neither, some, strict=True)] == some
    assert 0.6 < sum(bool(one.mask) for one in both) / 600 < 0.74
    assert 0.25 < sum(not one.gold for one in both) / 600 < 0.35
    for a, b, c in zip(both, masked, gone, strict=True):
        assert bool(a.mask) == bool(b.mask) and bool(a.gold) == bool(c.gold)
    for one in gone:
        assert one.gold or (one.kind == "irrelevant" and one.tools and "ring" not in {t["name"] for t in one.tools})


# ------------------------------------------------------------------------------------------------ runs
def test_what_is_learned_is_what_was_drawn_and_the_summary_says_both_sides(folder, data, tmp_path, monkeypatch):
    seen, learn = [], hammer.imitate
    monkeypatch.setattr(hammer, "imitate", lambda run, ledger, **how: seen.append(ledger) or learn(run, ledger, **how))
    config = settings(folder, data, mask=1.0, irrelevant=0.4, epochs=2, prompts=8)
    found = run(config, tmp_path / "run")
    assert found["examples"] == N and found["updates"] == 6, "rows that lost their tools before are not learned"
    drawn = {
        (e.task_id.rpartition("/")[0], e.task_id.rpartition("/")[2]): e for ledger in seen for e in ledger.episodes
    }
    assert len(drawn) == 2 * N == found["steps"]
    rows = {one.id: one for one in ROWS}
    for (id, epoch), episode in drawn.items():
        now = hammer.varied(rows[id.removesuffix("/irrelevant")], int(epoch), config, TOOLS)
        asked, said = list(episode.nodes)[:2]
        assert said.text == written(now.gold) and all(one["name"] in asked.text for one in now.tools)
    log = [line for line in stable(tmp_path / "run") if "update" in line]
    assert {line["masked"] for line in log} == {1.0}
    assert sum(8 * line["irrelevant"] for line in log) == sum("irrelevant" in id for id, _ in drawn) > 0
    for part in (found["calls_before"], found["calls"]):
        assert set(part) == {"own", "random"}
        for held in part.values():
            assert {name: held["seen"][name]["n"] for name in COLUMNS} == dict(
                zip(COLUMNS, (3, 3, 3, 1, 4), strict=True)
            )
            assert held["unseen"]["refusals right"] == {"value": None, "ci95": None, "n": 0}


def test_a_killed_run_goes_on_with_the_same_names(folder, data, tmp_path, monkeypatch):
    config = settings(folder, data, epochs=2, prompts=8, plan={"lora_rank": 4})
    want, learn = run(config, tmp_path / "whole"), hammer.imitate

    def killed(run, ledger, **how):
        if run.update == 4:
            raise Killed
        return learn(run, ledger, **how)

    with monkeypatch.context() as during, pytest.raises(Killed):
        during.setattr(hammer, "imitate", killed)
        run(config, tmp_path / "cut")
    torch.manual_seed(1)
    found = run(config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_calls_are_learned_within_a_budget(folder, tmp_path):
    """One function, called in one way: a model of a few kilobytes says it after 48 updates, with its own name."""
    path = tmp_path / "fc"
    path.mkdir()
    some = [
        replace(row(3 * i, split), tools=(tool("ring"),))
        for split, n in (("train", 48), ("heldout", 4))
        for i in range(n)
    ]
    (path / "rows.jsonl").write_text("".join(f"{json.dumps(one.to_dict())}\n" for one in some))
    found = run(settings(folder, path, mask=0.0, irrelevant=0.0, epochs=8, prompts=8), tmp_path / "run")
    before, after = found["calls_before"]["own"]["seen"], found["calls"]["own"]["seen"]
    assert before["calls right"]["value"] == 0.0 and after["calls right"]["value"] == 1.0
    assert after["functions right"]["value"] == after["call rate"]["value"] == 1.0
    assert found["calls"]["random"]["seen"]["functions right"]["value"] == 0.0, "who learned a name does not read"
    assert found["heldout_loss"]["value"] < found["heldout_loss_before"]["value"] / 10


def test_sft_says_the_same_of_its_calls_and_what_does_not_fit_is_left_out(folder, tmp_path, capsys):
    path = tmp_path / "fc"
    path.mkdir()
    long = replace(row(7), messages=({"role": "user", "content": "x" * 4000},))
    some = [*(row(i) for i in range(4)), long, row(9, "heldout")]
    (path / "rows.jsonl").write_text("".join(f"{json.dumps(one.to_dict())}\n" for one in some))
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=1, answer=4, lora_rank=0)
    config = sft.Config(model=folder, env=f"functions:{path}", prompts=4, epochs=1, plan=plan)
    with begin(tmp_path / "run", "sft", config) as place, Live(plain=True) as live:
        found = sft.run(config, place, live)
    assert found["examples"] == 4 and "1 of 5 examples left out" in capsys.readouterr().out
    assert found["calls"]["own"]["seen"]["call rate"]["n"] == 1 and set(found["calls_before"]) == {"own", "random"}


@pytest.mark.parametrize("env", ["", "arithmetic:addition", "functions:{},names=random"])
def test_other_worlds_are_refused(env, folder, data, tmp_path):
    with pytest.raises(BadInput, match="Hammer masks rows of calls"):
        run(replace(settings(folder, data), env=env.format(data)), tmp_path / "run")


def test_settings_that_mean_nothing_are_refused(folder, data, tmp_path):
    for wrong in ({"mask": 67}, {"irrelevant": -0.1}, {"plan": {"memory": "memlift"}}):
        with pytest.raises(BadInput):
            run(settings(folder, data, **wrong), tmp_path / str(len(str(wrong))))
