"""From what you have to what to use: ``evolvent list`` and docs/start.md say the same."""

from __future__ import annotations

from evolvent import catalogue
from evolvent.runs.kind import Choice

BESIDE = Choice(
    "an agent of your own, and you can tell how it went: right or wrong, a score",
    "a memory beside it: six lines around your agent; the model stays as it is",
    "evolvent demo",
    "memory",
    "two minutes",
    "no",
    "`evolvent memory lift` says whether it helps, from attempts that by chance got nothing, and `memory blame` which "
    "note caused a failure",
    "beside-your-agent.md",
)
RECORDED = Choice(
    "recorded attempts, of Evolvent or of another harness (evolvent import)",
    "their credit under any rule, as a page or as a file to train on elsewhere",
    "evolvent credit DIR --rule NAME",
    "",
    "seconds",
    "no",
    "who earned what, and a file that verl trains on; what was recorded with a model in torch teaches it here: "
    "policy_gradient --recorded, dpo --pairs",
    "verl.md",
)
CALLS = Choice(
    "tools, and logs of an agent that calls them",
    "nothing yet: the logs become rows that tell how often it calls the right tool rightly, and how often it refuses",
    "evolvent data functions tools.json calls.jsonl --irrelevant .1 --out fc/",
    "",
    "seconds",
    "no",
    "`evolvent check functions fc/ --baselines` says what picking a tool is worth without training; a memory "
    "(`evolvent run memlift --env functions:fc/`) or an adapter (`sft`) learns from the same rows",
    "functions.md",
)
PARTS = Choice(
    "a workflow of several agents, prompts, tools or models that runs, and its bill",
    "nothing: what each part earns and costs, by running the workflow with each part weak and strong",
    "python examples/worth.py",
    "openai",
    "seconds with the scripted model",
    "no",
    "in words which part to keep and which to leave out, with intervals; the best configuration is tried on tasks that "
    "did not choose it. From answers alone: `evolvent teams channels FILE`",
    "worth.md",
)
"""No kinds of run: what is there already."""


def choices() -> list[Choice]:
    """All there is: a memory beside an agent, what each kind of run is for, and what is no run."""
    kinds = (choice for kind in catalogue.kinds().values() for choice in kind.choices)
    return [BESIDE, *kinds, PARTS, CALLS, RECORDED]


def systems(choice: Choice) -> dict[str, list[str]]:
    """The systems of a choice by their status, the better tested ones first."""
    kind = next((one for one in catalogue.kinds().values() if choice in one.choices), None)
    if kind is None:
        return {}
    others = {name for one in kind.choices if one is not choice for name in one.systems}
    found: dict[str, list[str]] = {}
    for entry in catalogue.entries("algos"):
        of_kind = getattr(catalogue.settings_of(entry.name), "KIND", None) == kind.name
        if entry.name in choice.systems or (of_kind and not choice.systems and entry.name not in others):
            found.setdefault(entry.constants.get("STATUS", "untested"), []).append(entry.name)
    return dict(sorted(found.items(), key=lambda one: one[0] != "tested"))


def described(choice: Choice) -> str:
    """A choice as text for a terminal."""
    names = "; ".join(f"{status}: {', '.join(group)}" for status, group in systems(choice).items())
    facts = [f"extra {choice.extra}" if choice.extra else "no extra", choice.minutes, f"GPU: {choice.gpu}"]
    lines = [f"\nYou have {choice.have}", f"  learns:  {choice.use}", f"  run:     {choice.command}"]
    lines += [f"  needs:   {' · '.join(facts)}", f"  expect:  {choice.expect}"]
    return "\n".join([*lines, *([f"  systems: {names}"] if names else []), f"  read:    docs/{choice.page}"])
