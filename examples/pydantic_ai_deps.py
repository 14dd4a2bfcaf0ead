"""The memory beside a pydantic-ai agent: recalled before the run, given to it as a dependency, settled after it.

Not inside ``instructions``: that function runs again for every request to the model, and each would be a receipt.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import house
from pydantic_ai import Agent, RunContext, UnexpectedModelBehavior, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from evolvent import AsyncMemory, Memory


@dataclass
class Attempt:
    notes: str
    ran: list[str] = field(default_factory=list)


def instructions(ctx: RunContext[Attempt]) -> str:
    return house.PROMPT + ctx.deps.notes


def count(ctx: RunContext[Attempt], where: str) -> str:
    """How many customers meet an SQL condition."""
    ctx.deps.ran.append(where)
    return house.count(where)


async def attempt(agent: Agent[Attempt, int], memory: AsyncMemory, question: str) -> bool:
    recall = await memory.recall(question, k=3)
    deps = Attempt(house.notes(recall.items))
    with suppress(UnexpectedModelBehavior, UsageLimitExceeded):  # no answer: what it ran is judged all the same
        await agent.run(question, deps=deps, usage_limits=UsageLimits(request_limit=4))
    ok = house.right(question, deps.ran)
    await memory.shown(recall, recall.ids)
    await memory.settle(recall, float(ok), source="tests", action="; ".join(deps.ran))
    if not ok:
        await memory.remember(question, house.review(question), source="reviewer", parents=recall)
    return ok


async def main(s: house.Settings) -> None:
    model = OpenAIChatModel(s.model, provider=OpenAIProvider(base_url=s.base_url, api_key=s.api_key))
    agent = Agent(model, deps_type=Attempt, output_type=int, instructions=instructions, tools=[count])
    async with AsyncMemory(Memory(s.store, policy=s.policy)) as memory:
        for name, questions in house.PASSES.items():
            right = sum([await attempt(agent, memory, q) for q in questions])
            print(f"{name}: {right} of {len(questions)} right")


if __name__ == "__main__":
    with house.settings() as given:
        asyncio.run(main(given))
