"""A stranger's LangGraph of four nodes, valued as it is: token shares against a server that knows them."""

from typing import TypedDict

import pytest

import evolvent
from evolvent.testing.chat import ChatServer, said

pytestmark = pytest.mark.frameworks

WORDS = {"plan": 40, "research": 100, "write": 25, "check": 60}
"""Words of each node's prompt, which the server counts as tokens; an answer counts one."""


class State(TypedDict):
    question: str
    notes: str
    answer: str


def graph(model, nodes):
    """The workflow: four nodes one after another, each a call; one that is left out passes the state on."""
    from langgraph.graph import END, START, StateGraph

    def node(name):
        def call(state):
            prompt = " ".join([name, state["question"], *["x"] * (WORDS[name] - 2)])
            text = model.invoke(prompt).content
            return {"answer": text} if name == "write" else {"notes": f"{state['notes']} {text}"}

        return call if nodes[name] else lambda state: {}

    built = StateGraph(State)
    names = list(WORDS)
    for name in names:
        built.add_node(name, node(name))
    for before, after in zip([START, *names], [*names, END], strict=True):
        built.add_edge(before, after)
    return built.compile()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_tokens_of_four_nodes(asynchronous, tmp_path):
    pytest.importorskip("langgraph")
    chat = pytest.importorskip("langchain_openai")

    def answer(request):
        asked = said(request["messages"][-1]).split()
        return "right" if asked[0] == "write" and int(asked[1]) % 2 else "noted"

    evolvent.spend()  # LangChain builds its client itself
    with ChatServer(answer) as server:
        model = chat.ChatOpenAI(model="m", base_url=server.base_url, api_key="x")

        def run(task, parts):
            built = graph(model, parts)
            state = {"question": str(task), "notes": "", "answer": ""}
            return built.ainvoke(state) if asynchronous else built.invoke(state)

        parts = dict.fromkeys(WORDS, (None, "on"))
        report = evolvent.worth(
            run, parts, range(6), lambda task, state: state["answer"] == "right", out=tmp_path, workers=2, verify=1 / 3
        )
    whole = sum(WORDS.values()) + len(WORDS)
    for name, one in report.parts.items():
        assert one.shares["tokens"] == pytest.approx((WORDS[name] + 1) / whole, abs=1e-9)
        assert one.takes["calls"].value == 1
    assert {name for name, one in report.parts.items() if one.shapley.value} == {"write"}
    assert len(server.requests) * 2 > report.runs and report.best == ("write",)
