"""Any model with any part of an attempt, through the command line: a served workflow, a memory of a model in torch."""

import json
import re
from functools import partial

import command
import pytest

import tiny_language
from evolvent import Memory
from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_return_to_go
from evolvent.testing.chat import ChatServer, said

evolvent = partial(command.evolvent, trains=True)

model = tiny_language.fixture(max_position_embeddings=1024)
TASK = '''
"""Two numbers to add."""
NAME, INSTRUCTIONS, LABELS = "sums", "Add.\\n", ("Q", "A")
def prompts():
    return [{"prompt": f"{a} + 1", "answer": str(a + 1), "split": "heldout" if a > 6 else "train"} for a in range(2, 9)]
def reward(completion, prompt, answer, **rest):
    return float(completion.strip() == answer)
'''


def attempts(folder):
    return [Episode.from_dict(json.loads(line)) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_a_served_model_in_a_workflow_of_two_with_a_memory(tmp_path):
    """The planner is asked first, the solver reads it and acts; both are recorded, and credited."""
    (tmp_path / "sums.py").write_text(TASK)

    def answer(body):
        prompt = "\n".join(said(message) for message in body["messages"])
        question = prompt.split("Q: ")[-1]
        if "planner:" not in question:
            return "add one to the first number"
        assert "add one" in question
        return str(int(question.split(" +")[0]) + 1)

    arguments = ("--env", "graded:sums.py", "--agents", "planner: Say how.", "solver", "--turns", 2)
    with ChatServer(answer) as chat:
        out, _ = evolvent(
            "run",
            "memlift",
            "--model",
            f"remote:any@{chat.base_url}",
            *arguments,
            "--train",
            4,
            "--heldout",
            2,
            "--passes",
            1,
            "--no-control",
            "--out",
            "run",
            "--plain",
            cwd=tmp_path,
        )
    assert re.search(r"\nafter: the same held-out tasks +2 +2 +100 %", out)
    episodes = attempts(tmp_path / "run")
    assert all(episode.agents_T == ["planner", "solver"] and episode.success for episode in episodes)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", step_return_to_go.assign(episodes).values("step"))
    by_agent = ledger.project("step", "agent")
    assert len(by_agent) == 2 * len(episodes) and by_agent.sum() == pytest.approx(ledger.total("step"))
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert len(memory.items()) == 4 and {item.source for item in memory.items()} == {"self"}
    assert any(episode.shown_memories for episode in episodes)


def test_memlift_with_a_model_in_torch(tmp_path, model):
    """Free text and choices, in tokens: what was sampled is what is recorded."""
    (tmp_path / "sums.py").write_text(TASK)
    arguments = ("run", "memlift", "--heldout", 1, "--passes", 2, "--plain", "--model", f"train:{model}", "--train", 4)
    evolvent(*arguments, "--env", "microwave:step_limit=3", "--use", "both", "--out", "a", cwd=tmp_path)
    free = ("--env", "graded:sums.py", "--lessons", "failures", "--temperature", 1)
    evolvent(*arguments, *free, "--out", "b", cwd=tmp_path)
    for name in "ab":
        recalled = [e for e in attempts(tmp_path / name) if e.shown_memories]
        assert recalled and all(len(e.context_ids(0)) for e in recalled)
    assert all(len(e.token_ids) for e in recalled)


def test_weights_and_memory_in_one_run(tmp_path, model):
    evolvent(
        "run",
        "grpo",
        "--memory",
        "memlift",
        "--env",
        "microwave:step_limit=3",
        "--model",
        model,
        "--updates",
        2,
        "--prompts",
        2,
        "--group",
        4,
        "--dtype",
        "float32",
        "--eval-every",
        0,
        "--eval-tasks",
        2,
        "--threads",
        1,
        "--out",
        "run",
        "--plain",
        cwd=tmp_path,
    )
    # what the two earned is a matter of luck: an untrained model is seldom right
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["health"]["items"] > 0 and summary["health"]["settled"] > 0, summary["health"]
    assert summary["policy_updates"] > 0, summary
    evolvent("eval", "run", "--plain", cwd=tmp_path)
