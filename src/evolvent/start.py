"""From what you have to what to use: ``evolvent list`` and docs/start.md say the same."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent import catalogue

WORKFLOW = ("marft", "flow_grpo")
"""Systems that train a workflow; the other ones of their kind train one agent."""


@dataclass(frozen=True)
class Choice:
    """One thing that a person may have, and what there is for it."""

    have: str
    """What you have."""
    use: str
    """What learns, in a few words."""
    command: str
    """The first thing to run."""
    extra: str
    """What to install for that command; "" = nothing."""
    minutes: str
    """How long it takes, with what it was measured on."""
    gpu: str
    """Whether it needs one."""
    expect: str
    """What comes of it, honestly."""
    page: str
    """Where to read on, under docs/."""
    kind: str = ""
    """``KIND`` of its systems (``catalogue.KINDS``), or "workflow"."""


CHOICES = (
    Choice(
        "an agent, and you can tell how it went: right or wrong, a score",
        "a memory with measured values; the model stays as it is",
        "evolvent run memlift",
        "llama",
        "29 min on two cores",
        "no",
        "large gains where tasks of one kind come again and somebody corrects the agent; over recall by similarity it "
        "adds most where notes can be wrong, and nothing at all on some tasks",
        "beside-your-agent.md",
        "memory",
    ),
    Choice(
        "a language model that may be trained",
        "its weights (LoRA, or all of them), with credit down to the token",
        "evolvent run grpo --env arithmetic:largest --lr 5e-4 --kl 0 --updates 20",
        "train",
        "1 min on one core",
        "not for 135M; for larger ones, yes",
        "a small model learns small tasks; what is published here is of a model of 135M parameters",
        "algos/README.md",
        "language",
    ),
    Choice(
        "a model that writes programs, and a way to run and judge them",
        "a memory of programs and lessons with a value for each stage; the model stays as it is",
        "evolvent run evokernel",
        "llama",
        "not measured yet",
        "no",
        "compiler, tests and clock judge, in a sandbox; a 1.5B model could use one plain lesson and not an intricate "
        "one; whether the values help has not been measured",
        "kernels.md",
        "programs",
    ),
    Choice(
        "a model that writes pages, and a browser",
        "lineages of small games, and a memory of ideas, mechanics and failures; the model stays as it is",
        "evolvent run creative_game",
        "llama",
        "not measured yet",
        "no",
        "a real browser judges, in a sandbox; a small model is asked for mechanics of a few lines, templates stand in; "
        "how often its pages play, and whether the values help, has not been measured",
        "algos/creative_game.md",
        "games",
    ),
    Choice(
        "a team of controlled bodies",
        "a joint policy, or one for each agent",
        "evolvent run mat --env spread:n=3 --steps 200000",
        "marl",
        "8 min for 500,000 steps of simple_spread",
        "no",
        "it learns the games, robots and navigation that were measured (few seeds); random actions are on each curve",
        "results/marl.md",
        "team",
    ),
    Choice(
        "recorded attempts",
        "their credit under any rule, as a page or as a file to train on elsewhere",
        "evolvent credit DIR --rule NAME",
        "",
        "seconds",
        "no",
        "who earned what, and a file that verl trains on; what was recorded with a model in torch teaches it here: "
        "policy_gradient --recorded, dpo --pairs",
        "verl.md",
    ),
    Choice(
        "a workflow of language agents",
        "one adapter each, or the planner alone",
        "evolvent run marft --env arithmetic:largest --agents solver checker",
        "train",
        "not measured apart",
        "not for 135M; for larger ones, yes",
        "a pair learns what one of them could; that more agents help is not shown here",
        "algos/marft.md",
        "workflow",
    ),
    Choice(
        "a frozen model that may think longer",
        "a search over its answers, at a budget of tokens",
        "evolvent run search --env game24:shots=4 --model train:smollm2-135m --tasks 24",
        "train",
        "not measured yet",
        "not for 135M; for larger ones, yes",
        "what it finds is only as good as the value that judges it; compare with best_of_n at the same budget",
        "search.md",
        "search",
    ),
)


def systems(choice: Choice) -> dict[str, list[str]]:
    """The systems of a choice by their status, the better tested ones first."""
    found: dict[str, list[str]] = {}
    for entry in catalogue.entries("algos"):
        kind = "workflow" if entry.name in WORKFLOW else getattr(catalogue.settings_of(entry.name), "KIND", None)
        if kind == choice.kind:
            found.setdefault(entry.constants.get("STATUS", "untested"), []).append(entry.name)
    return dict(sorted(found.items(), key=lambda one: one[0] != "tested"))


def told(choice: Choice) -> str:
    """A choice as text for a terminal."""
    names = "; ".join(f"{status}: {', '.join(group)}" for status, group in systems(choice).items())
    facts = [f"extra {choice.extra}" if choice.extra else "no extra", choice.minutes, f"GPU: {choice.gpu}"]
    lines = [f"\nYou have {choice.have}", f"  learns:  {choice.use}", f"  run:     {choice.command}"]
    lines += [f"  needs:   {' · '.join(facts)}", f"  expect:  {choice.expect}"]
    return "\n".join([*lines, *([f"  systems: {names}"] if names else []), f"  read:    docs/{choice.page}"])
