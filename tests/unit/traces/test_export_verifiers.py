"""`evolvent export verifiers`: what the package's own loader makes of it, where it is installed, and our reader."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evolvent.cli import main
from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.credit import step_return_to_go
from evolvent.traces import verifiers
from evolvent.traces.build import build
from evolvent.traces.events import Repairs

FIXTURES = Path(__file__).parent / "fixtures"


def run(*words):
    main([str(word) for word in words])


def exported(tmp_path, file, *, rule="step_return_to_go"):
    run("import", file, "--out", tmp_path / "run")
    run("export", "verifiers", tmp_path / "run", "--rule", rule, "--out", tmp_path / "traces.jsonl")
    return [json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines()]


def recorded(folder):
    return [Episode.from_dict(row) for row in RunFolder.open(folder).read_episodes()]


def test_a_trace_an_agent_with_its_tokens_and_their_advantages(tmp_path):
    (row,) = exported(tmp_path, FIXTURES / "trial")
    planner, scout = row["traces"]
    assert (planner["agent"]["name"], scout["agent"]["name"]) == ("planner", "scout")
    sampled = [node for node in planner["nodes"] if node["sampled"]]
    tokens = [[t for t, mine in zip(n["token_ids"], n["mask"], strict=True) if mine] for n in sampled]
    assert tokens == [[10, 11, 12], [20, 21], [30]] and [n["advantages"] for n in sampled] == [
        [1.0] * 3,
        [1.0] * 2,
        [1.0],
    ]
    assert [n["logprobs"] for n in sampled] == [[-0.5, -0.25, -0.125], [-1.0, -0.5], [-0.0625]]
    (episode,) = recorded(tmp_path / "run")
    way, at = [], planner["nodes"].index(sampled[-1])
    while at is not None:
        way, at = planner["nodes"][at]["token_ids"] + way, planner["nodes"][at]["parent"]
    assert way == [*episode.context_ids(3).tolist(), 30]  # the results of tools are in it, not sampled
    assert not any(node["sampled"] for node in planner["nodes"] if node["message"]["role"] == "tool")


def nodes(episode):
    """What a decision took is not exported."""
    return [replace(node, data={k: v for k, v in node.data.items() if k != "usage"}) for node in episode.nodes]


def test_what_was_exported_is_read_again(tmp_path):
    exported(tmp_path, FIXTURES / "verifiers.jsonl")
    (before,) = recorded(tmp_path / "run")
    (after,) = (build(one) for one in verifiers.read(tmp_path / "traces.jsonl", Repairs()))
    assert nodes(after) == nodes(before) and after.total_reward == before.total_reward == 1.25
    assert after.token_ids.tolist() == before.token_ids.tolist() and after.logp.tolist() == before.logp.tolist()
    assert [after.context_ids(t).tolist() for t in range(3)] == [before.context_ids(t).tolist() for t in range(3)]
    credit = step_return_to_go.assign([before]).values("step").tolist()
    noted = [after.meta["source"]["nodes"][str(node)] for node in after.step_nodes_T]
    assert [one["advantages"][0] for one in noted] == credit


def test_decisions_without_tokens_and_without_an_outcome(tmp_path):
    ask = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    rows = [{"id": "a", "messages": ask, "reward": 1}, {"id": "b", "messages": ask}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    paid, unpaid = (row["traces"][0] for row in exported(tmp_path, tmp_path / "t.jsonl"))
    assert paid["info"]["evolvent"]["credit"] == {"1": 1.0} and "advantages" not in paid["nodes"][1]
    assert unpaid["info"]["evolvent"]["credit"] == {"1": None} and unpaid["rewards"] == {} and not unpaid["ok"]


def test_the_packages_own_loader_takes_it(tmp_path):
    pytest.importorskip("verifiers", reason="its extra does not live beside the others")
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import read_episodes

    exported(tmp_path, FIXTURES / "trial")
    (episode,) = read_episodes(tmp_path, WireTrace)
    assert set(episode.by_agent) == {"planner", "scout"} and episode.ok and episode.group is not None
    planner = episode.by_agent["planner"][0]
    assert planner.reward == 1.0 and planner.task.key == "fruit-prices"
    (branch,) = planner.branches
    paid = [(t, a) for t, a, mine in zip(branch.token_ids, branch.advantages, branch.sampled_mask, strict=True) if mine]
    assert paid == [(t, 1.0) for t in (10, 11, 12, 20, 21, 30)]
    assert sum(a for a, mine in zip(branch.advantages, branch.sampled_mask, strict=True) if not mine) == 0.0
    assert [n for n in branch.logprobs if n] == [-0.5, -0.25, -0.125, -1.0, -0.5, -0.0625]


def test_a_file_that_the_package_wrote_is_read(tmp_path):
    pytest.importorskip("verifiers", reason="its extra does not live beside the others")
    from verifiers.v1.episode import WireEpisode
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import write_episode

    trace = WireTrace.model_validate_json((FIXTURES / "verifiers.jsonl").read_text())
    write_episode(tmp_path, WireEpisode(task=trace.task, traces=[trace, trace.model_copy(update={"id": "trace-2"})]))
    made = [build(one) for one in verifiers.read(tmp_path / "traces.jsonl", Repairs())]
    alone = build(next(iter(verifiers.read(FIXTURES / "verifiers.jsonl", Repairs()))))
    assert len(made) == 2 and list(made[0].nodes) == list(alone.nodes) and made[0].total_reward == 1.25
