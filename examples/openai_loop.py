"""The memory beside a plain loop over the OpenAI client."""

import json

import house
import openai

from evolvent import Memory

TOOL = {
    "type": "function",
    "function": {
        "name": "count",
        "description": "How many customers meet an SQL condition.",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]},
    },
}


def ask(client: openai.OpenAI, model: str, messages: list) -> list[str]:
    """Let the model call the tool until it answers: the conditions that it ran."""
    ran: list[str] = []
    for _ in range(4):
        with client.chat.completions.stream(model=model, messages=messages, tools=[TOOL]) as stream:
            reply = stream.get_final_completion().choices[0].message
        messages.append(reply.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            ran.append(json.loads(call.function.arguments).get("where", ""))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": house.count(ran[-1])})
    return ran


def attempt(client: openai.OpenAI, model: str, memory: Memory, question: str) -> bool:
    recall = memory.recall(question, k=3)
    system = house.PROMPT + house.notes(recall.items)
    try:
        ran = ask(client, model, [{"role": "system", "content": system}, {"role": "user", "content": question}])
    except openai.APIError:
        memory.settle(recall, None, valid=False)  # the server failed: that says nothing about the notes
        raise
    ok = house.right(question, ran)
    memory.shown(recall, recall.ids)  # all of them were in the prompt
    memory.settle(recall, float(ok), source="tests", action="; ".join(ran))
    if not ok:
        memory.remember(question, house.review(question), source="reviewer", parents=recall)
    return ok


if __name__ == "__main__":
    with house.settings() as s, Memory(s.store, policy=s.policy) as memory:
        client = openai.OpenAI(base_url=s.base_url, api_key=s.api_key)
        for name, questions in house.PASSES.items():
            print(f"{name}: {sum(attempt(client, s.model, memory, q) for q in questions)} of {len(questions)} right")
