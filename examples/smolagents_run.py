"""The memory beside a smolagents agent: notes in the instructions of each run, credit from its steps after it."""

import house
from smolagents import ActionStep, LogLevel, OpenAIModel, ToolCallingAgent, tool

from evolvent import Memory


@tool
def count(where: str) -> str:
    """How many customers meet an SQL condition.

    Args:
        where: the SQL condition.
    """
    return house.count(where)


def attempt(model: OpenAIModel, memory: Memory, question: str) -> bool:
    recall = memory.recall(question, k=3)
    agent = ToolCallingAgent(
        tools=[count],
        model=model,
        instructions=house.PROMPT + house.notes(recall.items),
        max_steps=4,
        verbosity_level=LogLevel.OFF,
    )
    agent.run(question)
    calls = [c for s in agent.memory.steps if isinstance(s, ActionStep) for c in s.tool_calls or ()]
    ran = [str(c.arguments.get("where", "")) for c in calls if c.name == "count" and isinstance(c.arguments, dict)]
    ok = house.right(question, ran)
    memory.shown(recall, recall.ids)  # all of them were in the instructions
    memory.settle(recall, float(ok), source="tests", action="; ".join(ran))
    if not ok:
        memory.remember(question, house.review(question), source="reviewer", parents=recall)
    return ok


if __name__ == "__main__":
    with house.settings() as s, Memory(s.store, policy=s.policy) as memory:
        model = OpenAIModel(s.model, api_base=s.base_url, api_key=s.api_key)
        for name, questions in house.PASSES.items():
            print(f"{name}: {sum(attempt(model, memory, q) for q in questions)} of {len(questions)} right")
