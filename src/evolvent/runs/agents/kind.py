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
            "not measured yet",
            "no",
            "not measured yet; compare with the best single agent, which stands in every table",
            "channels.md",
        ),
        Choice(
            "a small language model and a large one, and the wish to know where in a workflow the large one is needed",
            "nothing: what the large one earns and costs as planner, reasoner, actor and reflector, over all 16 teams",
            "evolvent run shapley_flow --steps 2 --tasks 24",
            "llama",
            "not measured yet",
            "no",
            "not measured yet; the best team is tried on fresh tasks. For a workflow of your own: `evolvent.worth`",
            "algos/shapley_flow.md",
            ("shapley_flow",),
        ),
    ),
)
