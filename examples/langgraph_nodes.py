"""The memory as two nodes of a LangGraph graph: recall before the model, learn after the check.
The state carries the receipt's id, a string that goes through any checkpointer; the memory comes in by the context.
"""

from dataclasses import dataclass

import house
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from evolvent import Memory


@dataclass(frozen=True)
class Context:
    memory: Memory
    model: ChatOpenAI


class State(MessagesState):
    question: str
    receipt: str
    ok: bool


def recall(state: State, runtime: Runtime[Context]) -> dict:
    found = runtime.context.memory.recall(state["question"], k=3)
    system = SystemMessage(house.PROMPT + house.notes(found.items))
    return {"receipt": found.id, "messages": [system, HumanMessage(state["question"])]}


def act(state: State, runtime: Runtime[Context]) -> dict:
    return {"messages": [runtime.context.model.bind_tools([house.count]).invoke(state["messages"])]}


def learn(state: State, runtime: Runtime[Context]) -> dict:
    memory, receipt = runtime.context.memory, state["receipt"]
    ran = [call["args"].get("where", "") for m in state["messages"] for call in getattr(m, "tool_calls", ())]
    ok = house.right(state["question"], ran)
    memory.shown(receipt)  # all that was recalled was in the prompt
    memory.settle(receipt, float(ok), source="tests", action="; ".join(ran))
    if not ok:
        memory.remember(state["question"], house.review(state["question"]), source="reviewer", parents=receipt)
    return {"ok": ok}


if __name__ == "__main__":
    graph = StateGraph(State, context_schema=Context).add_sequence([recall, act]).add_edge(START, "recall")
    graph.add_node("tools", ToolNode([house.count])).add_edge("tools", "act").add_node(learn).add_edge("learn", END)
    run = graph.add_conditional_edges(  # at most four calls of the model
        "act", lambda s: "tools" if s["messages"][-1].tool_calls and len(s["messages"]) < 9 else "learn"
    ).compile()
    with house.settings() as s, Memory(s.store, policy=s.policy) as memory:
        context = Context(memory, ChatOpenAI(model=s.model, base_url=s.base_url, api_key=s.api_key))
        for name, questions in house.PASSES.items():
            right = sum(run.invoke({"question": q}, context=context)["ok"] for q in questions)
            print(f"{name}: {right} of {len(questions)} right")
