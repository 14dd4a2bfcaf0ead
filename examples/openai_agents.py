"""The memory beside the OpenAI Agents SDK: recalled before the run, in the run's context, settled after it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import house
from agents import Agent, MaxTurnsExceeded, RunConfig, RunContextWrapper, Runner, function_tool
from agents import OpenAIChatCompletionsModel as ChatModel
from openai import AsyncOpenAI

from evolvent import AsyncMemory, Memory


@dataclass
class Attempt:
    notes: str
    ran: list[str] = field(default_factory=list)


@function_tool
def count(ctx: RunContextWrapper[Attempt], where: str) -> str:
    """How many customers meet an SQL condition."""
    ctx.context.ran.append(where)
    return house.count(where)


def instructions(ctx: RunContextWrapper[Attempt], agent: Agent[Attempt]) -> str:
    return house.PROMPT + ctx.context.notes


async def attempt(agent: Agent[Attempt], memory: AsyncMemory, question: str) -> bool:
    recall = await memory.recall(question, k=3)
    context = Attempt(house.notes(recall.items))
    here = RunConfig(tracing_disabled=True)  # tracing would send the run to a server
    with suppress(MaxTurnsExceeded):  # no answer in time: what it ran is judged all the same
        run = Runner.run_streamed(agent, question, context=context, run_config=here, max_turns=4)
        async for _ in run.stream_events():
            pass  # a user interface would show these
    ok = house.right(question, context.ran)
    await memory.shown(recall, recall.ids)
    await memory.settle(recall, float(ok), source="tests", action="; ".join(context.ran))
    if not ok:
        await memory.remember(question, house.review(question), source="reviewer", parents=recall)
    return ok


async def main(s: house.Settings) -> None:
    model = ChatModel(s.model, AsyncOpenAI(base_url=s.base_url, api_key=s.api_key))
    agent = Agent[Attempt]("counter", instructions=instructions, model=model, tools=[count])
    async with AsyncMemory(Memory(s.store, policy=s.policy)) as memory:
        for name, questions in house.PASSES.items():
            right = sum([await attempt(agent, memory, q) for q in questions])
            print(f"{name}: {right} of {len(questions)} right")


if __name__ == "__main__":
    with house.settings() as given:
        asyncio.run(main(given))
