"""A team of language agents that is measured, not trained."""

from __future__ import annotations

from evolvent.core.folder import RunFolder
from evolvent.runs.agents.account import account
from evolvent.runs.kind import Choice, Kind


def _instead(folder: RunFolder) -> str:
    return f"the run is the measurement: {folder.path}/summary.json and report.html have what it came to"


KIND = Kind(
    "agents",
    "agents: a team of language agents is measured",
    account,
    instead=_instead,
    choices=(
        Choice(
            "a question that several agents may answer, and the wish to know how many it takes",
            "nothing: votes, pooled log-probabilities and debates of 1 to 16 agents, beside the best single one",
            "evolvent run agent_scaling",
            "llama",
            "15 (one core)",
            "no",
            "16 alike, by vote, 51 % right, one of them 56 %; two that differ, pooled, 100 %, as the best single one",
            "channels.md",
        ),
        Choice(
            "several agents that crash, hang and answer wrong, and work that must be done all the same",
            "whom to ask, from what came of it: a market with leases, accounts in whole units, pay by measured worth",
            "evolvent run holos",
            "llama",
            "20 to 40 (one core)",
            "no",
            "crashes and hangs cost what the closed form says; what is right beside one agent with everybody's lessons",
            "algos/holos.md",
            ("holos",),
        ),
        Choice(
            "a small language model and a large one, and the wish to know where in a workflow the large one is needed",
            "nothing: what the large one earns and costs as planner, reasoner, actor and reflector, over all 16 teams",
            "evolvent run shapley_flow --steps 2 --tasks 24",
            "llama",
            "about 20 (one core)",
            "no",
            "on sums a large planner earns .25, the others little; of a workflow of your own: `evolvent.worth`",
            "algos/shapley_flow.md",
            ("shapley_flow",),
        ),
    ),
)
