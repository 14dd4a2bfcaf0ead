"""A team of which one member is a tool of an MCP server: the planner writes the sum, the tool works it out.

pip install 'evolvent[protocols]' && python examples/team_over_mcp.py
evolvent teams serve examples/team_over_mcp.py:calculate --as mcp       # the tool alone, for any MCP client
"""

import os
import re
import sys

from evolvent import envs
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.models.served.several import Several
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from evolvent.play.workflow import Member, Workflow
from evolvent.teams.members import Wired, caller


def calculate(request: str) -> str:
    """Work out the last sum of two numbers in a text."""
    first, second = re.findall(r"(\d+) \+ (\d+)", request)[-1]
    return str(int(first) + int(second))


def plan(prompt: str) -> str:
    """Stands for a language model: repeats the question."""
    return prompt.rpartition("Sum: ")[2].partition("\n")[0]


if __name__ == "__main__":
    server = f"mcp:{sys.executable} -m evolvent teams serve {__file__}:calculate --as mcp"
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # a server gets no more of the environment than it is given
    tool = Wired(caller(server, timeout_s=300, env=env))
    engine = Several({"planner": Served(Scripted(plan)), "calculator": tool})
    team = Workflow((Member("planner"), Member("calculator", reads=("planner",), kind="mcp")))
    settings = AttemptSettings(Text(), team=team, accounts=True)
    world = "arithmetic:addition2"
    tasks = envs.load(world).tasks("heldout", 5, seed=0)
    episodes = run_players([play(envs.load(world), task, settings, seed=0) for task in tasks], engine)
    tool.close()
    print(f"right: {sum(e.success for e in episodes)} of {len(episodes)}")
    for node in episodes[-1].nodes:
        if node.kind == "action":
            print(f"{node.agent}: {node.text}")
    print("ran:", episodes[-1].implementations)
