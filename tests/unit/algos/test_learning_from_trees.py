"""A searched tree teaches: policy gradients over siblings, preferences among them, and pairs in words for others."""

import json

import numpy as np
import pytest

import letters_env
import tiny_language
from evolvent.cli import main
from evolvent.core.branches import graft, linear
from evolvent.core.codec import load_episodes
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.credit import step_search_siblings
from evolvent.models.language import model as language
from evolvent.runs.language.pairs import find_attempts, find_pairs, read_pairs, siblings
from evolvent.testing.exact import exact_gradient
from run_folders import stable

pytestmark = pytest.mark.usefixtures("one_thread")
ENV = f"{letters_env.__file__}:mixed"


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A tiny model that writes three lines of ``a`` or ``b`` at random: right once in eight."""
    folder = tiny_language.write(tmp_path_factory.mktemp("writer") / "model", max_position_embeddings=512)
    letters_env.teach(folder)
    return folder


@pytest.fixture(scope="module")
def searched(writer, tmp_path_factory):
    """Trees of training tasks, whose value is flat."""
    out = tmp_path_factory.mktemp("trees") / "run"
    main(
        [
            "run",
            "search",
            "--env",
            ENV,
            "--model",
            f"train:{writer}",
            "--split",
            "train",
            "--search",
            "cot_sc_tree",
            "--value",
            "flat",
            "--widths",
            "4",
            "--paths",
            "16",
            "--budget-tokens",
            "0",
            "--budget-calls",
            "200",
            "--tasks",
            "8",
            "--longest",
            "12",
            "--threads",
            "1",
            "--out",
            str(out),
            "--plain",
        ]
    )
    return out


def trained(writer, out, algo, *more):
    main(
        [
            "run",
            algo,
            "--env",
            ENV,
            "--model",
            writer,
            "--dtype",
            "float32",
            "--eval-every",
            "0",
            "--eval-tasks",
            "64",
            "--threads",
            "1",
            "--out",
            str(out),
            "--plain",
            *more,
        ]
    )
    return json.loads((out / "summary.json").read_text("utf-8")), [row for row in stable(out) if "update" in row]


def test_training_tasks_are_searched_where_that_is_asked_for(searched):
    summary = json.loads((searched / "summary.json").read_text("utf-8"))
    assert summary["score"]["name"] == "training success, cot_sc_tree"
    held_out = {task.id for task in letters_env.mixed().tasks("heldout", 200, 0)}
    assert held_out.isdisjoint(e.task_id for e in load_episodes(searched / "episodes.jsonl"))


@pytest.mark.parametrize("objective", ["rloo", "gspo"])
def test_a_policy_gradient_learns_from_recorded_trees(objective, writer, searched, tmp_path):
    """Twelve updates on trees of eight tasks; three lines drawn at random are right once in eight."""
    result, rows = trained(
        writer,
        tmp_path / "run",
        "policy_gradient",
        "--recorded",
        str(searched),
        "--rule",
        "step_search_siblings",
        "--objective",
        objective,
        "--lr",
        "0.01",
        "--updates",
        "12",
        "--prompts",
        "8",
    )
    assert result["before"]["success_mean"] == 0.0 and result["sampled"]["success_mean"] > 0.5
    assert len(rows) == 12 and rows[0]["return"] == rows[-1]["return"]  # the same attempts, none of its own


def test_preferences_among_siblings_are_learned(writer, searched, tmp_path):
    result, rows = trained(
        writer,
        tmp_path / "run",
        "dpo",
        "--pairs",
        str(searched),
        "--compare",
        "siblings",
        "--beta",
        "1",
        "--lr",
        "0.005",
        "--updates",
        "24",
        "--prompts",
        "20",
    )
    assert rows[0]["margin"] == pytest.approx(0.0, abs=1e-5) and rows[-1]["margin"] > 1.0
    assert result["before"]["success_mean"] == 0.0 and result["sampled"]["success_mean"] > 0.5


def test_pairs_in_words_are_the_same_pairs(writer, searched, tmp_path, capsys):
    out = tmp_path / "pairs.jsonl"
    main(["export", "pairs", str(searched), "--out", str(out), "--plain"])
    pairs = len(out.read_text().splitlines())
    assert pairs > 10 and f"{pairs} pairs of" in capsys.readouterr().out
    direct, words = find_pairs(str(searched), "siblings"), find_pairs(str(out))
    assert direct is not None and words is not None
    model = language.load(writer, dtype="float32")
    read = read_pairs(words, model, chat=False)
    for mine, theirs in zip(direct.groups, read, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one.context_ids(0).tolist() == other.context_ids(0).tolist()
            assert one.token_ids.tolist() == other.token_ids.tolist() and one.total_reward == other.total_reward


def _attempts(*given):
    out = list[Episode]()
    for words, reward in given:
        out.append(Episode("t", group="g"))
        for t, word in enumerate(words):
            out[-1].observe(f"see {t}", token_ids=[t])
            out[-1].act(word, token_ids=[ord(word)])
        out[-1].add_reward(reward)
        out[-1].end(terminated=True)
    return out


def test_siblings_are_distinguished_by_what_followed_them():
    """At the task two went a (one was right), one b; behind a they parted."""
    attempts = _attempts(("ax", 1.0), ("ay", 0.0), ("bx", 0.0))
    pairs = [[(list(one.nodes)[-1].text, one.total_reward) for one in pair] for pair in siblings([attempts])]
    assert pairs == [[("a", 1.0), ("b", 0.0)], [("x", 1.0), ("y", 0.0)]]
    assert siblings([attempts])[1][0].context_ids(0).tolist() == [0, ord("a"), 1]


def test_credit_of_a_recorded_tree_is_exact_for_independent_attempts():
    """Attempts that share beginnings are packed into trees and read again, as a search writes and a learner reads."""

    def through_the_record(episodes):
        trees, place = list[Episode](), list[tuple[int, int]]()
        for episode in episodes:
            at = next((i for i, t in enumerate(trees) if t.group == episode.group and _shares(t, episode)), -1)
            if at < 0:
                trees.append(Episode.from_dict(episode.to_dict()))
                place.append((len(trees) - 1, 0))
            else:
                place.append((at, graft(trees[at], episode, of=0, steps=1)))
        read = [linear([Episode.from_dict(json.loads(json.dumps(tree.to_dict())))]) for tree in trees]
        ledger = step_search_siblings.assign([read[i][k] for i, k in place])
        out = step_search_siblings.assign(episodes)
        out.set("step", ledger.values("step"))
        packed.append(len(trees) < len(episodes))
        return out

    packed: list[bool] = []
    report = exact_gradient(through_the_record, "step", seed=0, group_size=2)
    assert report.relative_error < 1e-9 and any(packed)


def _shares(tree, episode):
    first = linear([tree])[0]
    steps = min(first.n_steps, episode.n_steps)
    return steps > 1 and np.array_equal(first.step_tokens(0), episode.step_tokens(0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("policy_gradient", "--recorded", "nowhere"), "no such file"),
        (("policy_gradient", "--recorded", "{pairs}"), "pairs in words"),
        (("policy_gradient", "--recorded", "{trees}", "--agents", "a", "b"), "those of one agent"),
        (("dpo", "--compare", "siblings"), "no --pairs"),
        (("dpo", "--pairs", "{pairs}", "--compare", "siblings"), "compared as they are"),
        (("dpo", "--pairs", "{alone}", "--compare", "siblings"), "went apart in one state"),
    ],
)
def test_what_cannot_be_learned_from_is_said(arguments, message, writer, searched, tmp_path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n', encoding="utf-8")
    alone = tmp_path / "alone.jsonl"
    alone.write_text(json.dumps(_attempts(("ax", 1.0))[0].to_dict()) + "\n", encoding="utf-8")
    arguments = [word.format(pairs=pairs, trees=searched, alone=alone) for word in arguments]
    with pytest.raises(SystemExit) as stopped:
        main(["run", *arguments, "--env", ENV, "--model", writer, "--out", str(tmp_path / "run"), "--plain"])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_all_recorded_attempts_are_found(searched):
    found = find_attempts(str(searched))
    assert found is not None and len(found.groups) == 8
    assert sum(map(len, found.groups)) == len(linear(load_episodes(searched / "episodes.jsonl")))
    with pytest.raises(BadInput, match="no such file"):
        find_attempts(str(searched / "nothing"))
