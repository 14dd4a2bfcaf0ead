"""SE-Agent: what attempts at a task had right goes into plans for the next; each task has a pool of its own."""

import re
from pathlib import Path

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Completion
from evolvent.core.reward_kinds import reward_total, rewards_of
from evolvent.envs.text import chain, microwave
from evolvent.evaluate.pages.draw import draw
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.account.trees import trees
from evolvent.runs.search.drawing import drawn
from evolvent.runs.search.grow import Grower
from evolvent.search import best_of_n, se_agent
from search_toy import Written, search_of

ENV = chain.make(4, digits=1)
TASKS = ENV.tasks("heldout", 12, 0)
NONE = np.zeros(0, np.float32)


def shown(tree):
    """A tree as the page of its run has it."""
    return draw(trees([tree]), Path())


def writer(asked, skill=0.3, reads=True):
    """Gets a line right by luck, or because the plan says it, which repeats what attempts had right."""

    def engine(requests):
        out = []
        for request in requests:
            asked.append(request.prompt)
            want = chain.worked(next(task.text for task in TASKS if task.text in request.prompt)).split()
            luck = np.random.default_rng(request.seed).random(len(want))
            plan = request.prompt.partition("Plan: ")[2].partition("\n")[0] if reads else ""
            if request.prompt.endswith("Plan:"):
                said = " ".join(line for line in want if line in request.prompt) or "none"
            else:
                said = "\n".join(
                    line if line in plan or u < skill else f"0+0={i}"
                    for i, (line, u) in enumerate(zip(want, luck, strict=True))
                )
            out.append(Completion(said, NONE, NONE, finish="stop", stopped="\n\n"))
        return out

    return engine


def share(states):
    """What attempts are worth: the share of their lines that is right."""
    return [right(s.question, s.steps[-1]) for s in states]


def right(question, said):
    return np.mean([line in said for line in chain.worked(question).split()])


def grown(by, config, tasks=TASKS, **how):
    asked = []
    worlds = [chain.make(4, digits=1) for _ in tasks]
    grower = Grower(worlds, AttemptSettings(Text()), writer(asked, **how), widths=(1,), longest=60, unit="answer")
    search, space = grower.grow(tasks, lambda s: by.run(s, config), seed=0, verifier=share)
    return search, space, asked


def attempts(search, space, task=0):
    found = [space.episode(path.leaf) for path in search.of(task)]
    return [episode for episode in found if episode is not None]


def solved(search, space):
    return sum(any(e.success for e in attempts(search, space, t)) for t in range(len(TASKS)))


def test_a_pool_finds_what_as_many_attempts_without_plans_do_not():
    search, space, _ = grown(se_agent, se_agent.Config())
    alone = solved(*grown(best_of_n, best_of_n.Config(paths=16))[:2])
    deaf = solved(*grown(se_agent, se_agent.Config(), reads=False)[:2])  # plans are written and not read
    assert solved(search, space) >= 10
    assert max(alone, deaf) <= 5
    assert {len(search.of(t)) for t in range(len(TASKS))} == {16}


def test_plans_read_their_own_pool_the_best_two_are_joined_and_the_record_has_the_plan():
    search, space, asked = grown(se_agent, se_agent.Config(), TASKS[:2])
    found, one = [prompt for prompt in asked if prompt.endswith("Plan:")], TASKS[0].text
    assert not any(one in prompt and TASKS[1].text in prompt for prompt in found)
    first, *_ = (prompt for prompt in found if "Two attempts" in prompt and one in prompt)
    before = {list(e.nodes)[-1].text for e in attempts(search, space)[:10]}  # five first ones, five revised
    joined = first.partition("1. ")[2].partition("\nPlan another")[0].split("\n2. ")
    assert set(joined) <= before
    assert [right(one, said) for said in joined] == sorted((right(one, said) for said in before), reverse=True)[:2]
    plain, planned = attempts(search, space)[:6:5]
    assert (plain.n_steps, planned.n_steps) == (1, 2)
    ask, _, question, _ = (node.text for node in planned.nodes)
    assert "may have failed" in ask and question == one
    assert rewards_of(planned, "lines")[0] == 0.0 and reward_total(planned, "lines") > 0
    assert planned.total_reward == float(bool(planned.success))


def test_the_report_says_what_each_attempt_is_and_what_it_came_to():
    search, space, _ = grown(se_agent, se_agent.Config(), TASKS[:1])
    tree = drawn(search, space, 0, search.of(0)[0], "se_agent")
    said = [node["text"] for node in tree["nodes"] if node["parent"] < 0 and node["text"]]
    kinds = ["fresh attempt"] * 5 + ["revision of"] * 5 + ["recombination of"] * 5 + ["refinement of"]
    found = [text.partition(". ") for text in said]
    assert [int(number) for number, *_ in found] == list(range(1, len(said) + 1))
    assert len(said) == 16 and {kind for kind in kinds if not any(kind in text for text in said)} == set()
    for number, _, what in found:  # parents come before what was made of them
        assert all(int(parent) < int(number) for parent in re.findall(r"\d+", what))
    page = shown(tree)
    assert ">start<" not in page
    verdicts = re.findall(r"<strong>(\d+)\. .*?(✓|✗)", page)
    assert [(int(number), mark == "✓") for number, mark in verdicts] == [
        (i + 1, bool(episode.success)) for i, episode in enumerate(attempts(search, space))
    ]
    search, space, _ = grown(best_of_n, best_of_n.Config(paths=3), TASKS[:1])
    alone = drawn(search, space, 0, search.of(0)[0], "best_of_n")
    assert "3. attempt" in shown(alone) and ">start<" not in shown(alone)


def test_worlds_of_several_actions_keep_the_plan_in_every_prompt():
    asked, world = [], microwave.make(step_limit=3)

    def engine(requests):
        asked.extend(requests)
        return [
            Completion(
                r.choices[0].strip() if r.choices else "open it",
                NONE,
                NONE,
                choice=0 if r.choices else -1,
                scores_N=np.zeros(len(r.choices)) if r.choices else None,
            )
            for r in requests
        ]

    grower = Grower([world], AttemptSettings(Text()), engine, widths=(1,), unit="answer")
    config = se_agent.Config(paths=3, population=1)
    search, space = grower.grow(world.tasks("train", 1, 0), lambda s: se_agent.run(s, config), seed=0)
    first, second, *_ = attempts(search, space)
    assert second.n_steps == first.n_steps + 1
    assert rewards_of(second, "process").tolist() == [0.0, *rewards_of(first, "process")]
    later = asked[first.n_steps + 1 :]
    assert all("Plan: open it" in r.prompt for r in later[: first.n_steps])
    assert str(first.answer) in asked[first.n_steps].prompt  # what was done stands in the plan's question


def test_nothing_to_plan_is_said():
    with pytest.raises(BadInput, match="plans attempts"):
        se_agent.run(search_of(Written({"root": {"a": (1.0, 0.0)}})))
