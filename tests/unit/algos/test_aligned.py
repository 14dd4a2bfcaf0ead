"""What is shown of an expert's steps: the prompt to the letter, one step a trajectory, receipts, room."""

import numpy as np
import pytest

from evolvent.algos.trad.aligned import STEP, TEAM, WHOLE, Aligned, Alignment, Hit, asked, first_of_each, library_of
from evolvent.core.episode import Episode
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.attempt import play
from evolvent.play.experience import Use
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.together import run_players

TASK = Task("new", "fetch the jar", "fetch", "heldout")


class Rooms(TextEnv):
    """Three rooms in a row, and a door at the end."""

    name, instructions, labels, stop, max_tokens = "rooms", "Walk.\n\n", ("Situation", "Command"), ("\n",), 8
    reward_range = (0.0, 1.0)

    def tasks(self, split, n, seed):
        return [TASK][:n]

    def close(self):
        pass

    def reset(self, task, seed=0):
        self.room = 1
        return Turn("In room 1.", ("go", "wait"))

    def step(self, action):
        self.room += action == "go"
        done = self.room == 4
        return Turn(f"In room {self.room}.", ("go", "wait"), float(done), terminated=done, success=done)


class Angles:
    """Texts that end in a number are vectors at so many degrees: cosines are known."""

    id, dim = "angles", 2

    def embed(self, texts):
        degrees = np.array([float(text.rstrip(".").split()[-1]) for text in texts])
        return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], 1).astype(np.float32)


def degrees(cosine):
    return f"thought {float(np.degrees(np.arccos(cosine))):.6f}"


def kept(trajectories, embedder=None, kinds=None):
    """A memory of trajectories: name to the thoughts of its steps, "" for none."""
    memory = Memory(policy=preset("rag", k=2, pool=2), embedder=embedder or Angles(), reward_range=(0.0, 1.0))
    for name, thoughts in trajectories.items():
        kind = (kinds or {}).get(name, "fetch")
        for i, thought in enumerate(thoughts):
            about = {
                "trajectory": name,
                "kind": kind,
                "step": i,
                "situation": f"{name} at {i}.",
                "thought": bool(thought),
                "found": bool(thought) and i < len(thoughts) - 1,
            }
            memory.remember(thought or "do 0", f"do {name}{i}", kind=STEP, metadata=about, merge=None)
        memory.remember(
            "task 0", f"task of {name}", kind=WHOLE, metadata={"trajectory": name, "kind": kind}, merge=None
        )
    return memory


def attempted(memory, thoughts, task=TASK, budget=Budget(), scores=None, **how):
    """An attempt in which the thoughts are written down, and its prompts: of the thinker and of who acts, in turn."""
    library = {} if memory is None else library_of(memory)
    experience = Aligned(Rooms(), task, memory, Use(), 0, False, library, Alignment(**how))
    prompts, left = [], list(thoughts)
    model = Scripted(lambda prompt: left.pop(0), scores=scores or (lambda prompt, command: float("go" in command)))

    def engine(requests):
        prompts.extend(request.prompt for request in requests)
        return Served(model)(requests)

    player = play(Rooms(), task, AttemptSettings(Text(), TEAM, budget), seed=0, experience=experience)
    (episode,) = run_players([player], engine)
    assert isinstance(episode, Episode)
    experience.reflect(episode, engine, Text())
    experience.learn()
    return episode, prompts[::2], prompts[1::2], experience


def found_by(experience):
    recall = experience.steps[0].recall
    assert recall is not None
    return recall.items


TOLD = {"a": ["thought 0", "thought 10", "thought 20", "thought 30"], "b": ["thought 40", "thought 50", ""]}


def test_the_prompt_of_a_decision_to_the_letter():
    with kept(TOLD) as memory:
        _, thinks, acts, _ = attempted(memory, ["I look 12.", "I look 41", "I look 41"])
    assert acts[0] == (
        "Walk.\n\n"
        "Example. Task: task of b\n"
        "[step 0] Situation: b at 0.\nThought: thought 40\nCommand: do b0\n"
        "[step +1] Situation: b at 1.\nThought: thought 50\nCommand: do b1\n"
        "[step +2] Situation: b at 2.\nCommand: do b2\n"
        "\n"
        "Example. Task: task of a\n"
        "[step -1] Situation: a at 0.\nThought: thought 0\nCommand: do a0\n"
        "[step 0] Situation: a at 1.\nThought: thought 10\nCommand: do a1\n"
        "[step +1] Situation: a at 2.\nThought: thought 20\nCommand: do a2\n"
        "[step +2] Situation: a at 3.\nThought: thought 30\nCommand: do a3\n"
        "\n"
        "Now. Task: fetch the jar\n"
        "[step 0] Situation: In room 1.\nThought: I look 12.\nCommand:"
    )
    assert acts[2].endswith(
        "Now. Task: fetch the jar\n"
        "[step -2] Situation: In room 1.\nThought: I look 12.\nCommand: go\n"
        "[step -1] Situation: In room 2.\nThought: I look 41\nCommand: go\n"
        "[step 0] Situation: In room 3.\nThought: I look 41\nCommand:"
    )
    assert thinks[0].startswith(
        "Say in one short sentence what to do next and why.\n\nWalk.\n\nExample. Task: task of "
    )
    assert thinks[0].endswith("Now. Task: fetch the jar\nSituation: In room 1.\nThought:") and "[step" not in thinks[0]
    assert "do a0" in thinks[0] and "do b2" in thinks[0], "whole trajectories"


def test_marks_history_and_neighbours_can_be_left_out():
    with kept(TOLD) as memory:
        *_, acts, _ = attempted(memory, ["12", "12", "12"], marks=False, history=0, back=0, forward=0, k=1)
    assert acts[2] == (
        "Walk.\n\nExample. Task: task of a\nSituation: a at 1.\nThought: thought 10\nCommand: do a1\n\n"
        "Now. Task: fetch the jar\nSituation: In room 3.\nThought: 12\nCommand:"
    )


def test_without_neighbours_the_own_last_steps_are_shown_as_with_them():
    with kept(TOLD) as memory:
        *_, acts, _ = attempted(memory, ["12", "12", "12"], back=0, forward=0, k=1)
    assert acts[2].count("Thought: 12\nCommand: ") == 2 and acts[2].count("Thought: thought") == 1


def test_whole_trajectories_by_the_words_of_the_task_are_the_control():
    with kept(TOLD) as memory:
        _, thinks, acts, _ = attempted(memory, ["I look 12.", "12", "12"], by="trajectory")
        assert not any(item.kind == STEP for item in memory.items() if memory.explain(item.id).to_dict()["history"])
    _, _, rest = thinks[0].partition("Walk.\n\n")
    assert acts[0] == "Walk.\n\n" + rest.removesuffix("Thought:") + "Thought: I look 12.\nCommand:"


def test_one_step_of_each_trajectory_the_same_as_the_pick_over_all_hits():
    rng = np.random.default_rng(0)
    for _ in range(8):
        angles = {name: rng.permutation(80)[: rng.integers(2, 7)].tolist() for name in "abcd"}
        with kept({name: [f"thought {x}" for x in xs] for name, xs in angles.items()}) as memory:
            *_, experience = attempted(memory, ["33"] * 3, k=3)
            hits = [
                Hit(name, i, float(np.cos(np.radians(x - 33))))
                for name, xs in angles.items()
                for i, x in enumerate(xs[:-1])
            ]
            found = {(m.metadata["trajectory"], m.metadata["step"]) for m in found_by(experience)}
            assert found == {hit[:2] for hit in first_of_each(hits, 3)}


def test_the_vector_of_the_paper_through_the_memory():
    cosines = {"t1": [0, 0, 0, 0, 0.91, 0.90, 0], "t2": [0.80, 0, 0.88, 0], "t3": [0] * 7 + [0.86, 0]}
    with kept({name: [degrees(c) for c in cs] for name, cs in cosines.items()}) as memory:
        *_, acts, _ = attempted(memory, ["0"] * 3, k=3, back=0, forward=0)
    found = [line for line in acts[0].splitlines() if line.startswith("[step 0] Situation: t")]
    assert found == [f"[step 0] Situation: {t} at {i}." for t, i in (("t2", 2), ("t1", 4), ("t3", 7))]


def test_other_kinds_of_task_are_another_index():
    with kept(TOLD, kinds={"b": "other"}) as memory:
        _, thinks, acts, _ = attempted(memory, ["12"] * 3)
        assert "task of b" not in "".join(thinks + acts) and "task of a" in acts[0]
        _, thinks, acts, _ = attempted(memory, ["12"] * 3, same_kind=False)
        assert "task of b" in acts[0] and "task of b" in thinks[0]


def test_receipts_say_what_was_shown_and_what_came_of_it_and_no_value_moves():
    with kept(TOLD) as memory:
        before = [(item.id, item.value, item.n) for item in memory.items()]
        episode, _, acts, experience = attempted(memory, ["12", "", "12"])
        assert episode.success and [node.agent for node in episode.nodes if node.kind == "action"] == [
            "Thought",
            "agent",
            "Thought",
            "agent",
            "Thought",
            "agent",
        ]
        uses = {(use.receipt, use.id) for use in episode.memory_uses if use.shown}
        # trajectories once, two steps at the first and at the last decision; nothing was thought at the second
        assert len(uses) == 2 + 2 + 2 and "Example" not in acts[1]
        for receipt, id_ in uses:
            explained = memory.explain(receipt).to_dict()
            assert id_ in [item["id"] for item in explained["pool"] if item["shown"]]
            assert [outcome["reward"] for outcome in explained["outcomes"]] == [1.0] and not explained["changes"]
        assert before == [(item.id, item.value, item.n) for item in memory.items()]
        assert experience.steps[0].shown == tuple(item.id for item in found_by(experience))


def test_what_does_not_fit_is_neither_shown_nor_on_record():
    with kept(TOLD) as memory:
        episode, thinks, acts, experience = attempted(memory, ["12"] * 3, chars=230, back=0, forward=2)
        assert "task of a" in acts[0] and "task of b" not in acts[0], "the nearer one stays"
        assert len(experience.steps[0].shown) == 1 and len(found_by(experience)) == 2
        assert all(text.count("Example") <= 2 for text in thinks + acts)
        names = {use.id for use in episode.memory_uses if use.shown}
        assert not names & {
            item.id for item in memory.items() if item.metadata.get("trajectory") == "b" and item.kind == STEP
        }


@pytest.mark.parametrize(
    ("chars", "steps"),
    [(409, (4, 3)), (408, (4, 2)), (325, (4, 1)), (300, (4, 0)), (241, (4, 0)), (240, (3, 0)), (30, (0, 0))],
)
def test_a_trajectory_that_does_not_fit_is_shown_from_its_beginning(chars, steps):
    with kept(TOLD) as memory:
        episode, thinks, _, _ = attempted(memory, ["12"] * 3, chars=chars)
        whole = thinks[0].partition("Now.")[0].partition("Walk.\n\n")[2]
        assert len(whole) <= chars
        assert [whole.count(f"Command: do {name}") for name in "ab"] == list(steps)
        assert all(f"{name} at {i}." in whole for name, n in zip("ab", steps, strict=True) for i in range(n))
        wholes = {item.id: item.body[-1] for item in memory.items() if item.kind == WHOLE}
        shown = {wholes[use.id] for use in episode.memory_uses if use.shown and use.id in wholes}
        assert shown == {name for name, n in zip("ab", steps, strict=True) if n}


def test_without_a_memory_thought_and_own_steps_are_left():
    episode, thinks, acts, _ = attempted(None, ["12"] * 3)
    assert episode.success and "Example" not in "".join(thinks + acts)
    assert "[step -1] Situation: In room 2.\nThought: 12\nCommand: go\n" in acts[2]


@pytest.mark.parametrize(("said", "decisions"), [("wait", 3), ("turns", 6)])
def test_equal_commands_or_pairs_of_them_end_an_attempt(said, decisions):
    turn = iter(range(100))

    def scores(prompt, command):
        wanted = "wait" if said == "wait" else ("go", "wait")[(calls[0] // 2) % 2]
        calls[0] += 1
        return float(wanted in command)

    calls = [0]

    class Back(Rooms):
        def step(self, action):
            next(turn)
            return Turn("In room 1.", ("go", "wait"))

    how = Alignment(history=0)
    task, model = TASK, Scripted(lambda prompt: "12", scores=scores)
    experience = Aligned(Back(), task, None, Use(), 0, False, {}, how)
    player = play(Back(), task, AttemptSettings(Text(), TEAM, Budget(repeats=3)), seed=0, experience=experience)
    (episode,) = run_players([player], Served(model))
    assert isinstance(episode, Episode)
    assert next(turn) == decisions and episode.truncated and episode.stop == "repeats" and not episode.success
    assert len(experience.steps) == decisions and all(step.at >= 0 for step in experience.steps)


def test_commands_are_the_likeliest_or_drawn():
    scores = lambda prompt, command: 0.3 * ("go" in command)  # noqa: E731
    episode, *_ = attempted(None, ["12"] * 3, scores=scores)
    assert episode.n_steps == 6, "greedy: go, go, go"
    drawn, *_ = attempted(None, ["12"] * 60, scores=scores, greedy=False, budget=Budget(turns=25))
    assert "wait" in [node.text for node in drawn.nodes if node.kind == "action"]


def test_only_whole_trajectories_are_in_the_library():
    with kept(TOLD) as memory:
        memory.remember(
            "thought 5",
            "do c0",
            kind=STEP,
            merge=None,
            metadata={
                "trajectory": "c",
                "kind": "fetch",
                "step": 0,
                "situation": "c at 0.",
                "thought": True,
                "found": True,
            },
        )
        library = library_of(memory)
        assert list(library) == ["a", "b"] and [step.action for step in library["b"].steps] == [
            "do b0",
            "do b1",
            "do b2",
        ]
        assert library["b"].steps[2].thought == "" and library["a"].task == "task of a"
        _, _, acts, _ = attempted(memory, ["5"] * 3)
        assert "do c0" not in acts[0]
    assert asked(TASK, "In room 1.") == "fetch the jar In room 1."
