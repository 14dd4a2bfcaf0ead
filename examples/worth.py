"""What is each part of a workflow worth? A planner, a critic and the model itself, each weak and strong.

Without ``--base-url`` a scripted server answers: it adds numbers, the small model only two of them unless there is a
plan, and its critic agrees with everything.
"""

import argparse
import os
import random

from openai import OpenAI

import evolvent
from evolvent.testing.chat import ChatServer, said

DRAW = random.Random(0)
TASKS = [{"numbers": [DRAW.randint(1, 99) for _ in range(DRAW.choice((2, 2, 3, 4)))]} for _ in range(60)]


def plan(ask, question):
    return ask(f"Split the sum into steps.\n{question}")


def critique(ask, question, answer):
    return ask(f"Question: {question}\nAnswer: {answer}\nSay the answer again, corrected where it is wrong.")


def solve(client, task, parts):
    """The workflow: what a part is comes in from outside, ``None`` leaves it out."""

    def ask(prompt):
        messages = [{"role": "user", "content": prompt}]
        return client.chat.completions.create(model=parts["llm"], messages=messages).choices[0].message.content

    question = " + ".join(map(str, task["numbers"]))
    steps = parts["planner"](ask, question) if parts["planner"] else ""
    answer = ask(f"{steps}\nAnswer with a number: {question}")
    return parts["critic"](ask, question, answer) if parts["critic"] else answer


def script(request):
    """The scripted model."""
    text = said(request["messages"][0])
    if text.startswith("Split"):
        return "Step by step: add the first two, then each of the others."
    if text.startswith("Question"):
        return text.split("Answer: ")[1].split("\n")[0]
    numbers = [int(word) for word in text.rpartition(": ")[2].split(" + ")]
    able = request["model"] == "large" or "Step by step" in text
    return str(sum(numbers if able else numbers[:2]))


def main(base_url, small, large, out):
    client = evolvent.spend(OpenAI(base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY", "none")))
    report = evolvent.worth(
        run=lambda task, parts: solve(client, task, parts),
        parts={"planner": (None, plan), "critic": (None, critique), "llm": (small, large)},
        tasks=TASKS,
        score=lambda task, answer: answer.strip() == str(sum(task["numbers"])),
        out=out,
    )
    print(report)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", help="an OpenAI-compatible server, e.g. http://127.0.0.1:8080/v1")
    parser.add_argument("--small", default="small")
    parser.add_argument("--large", default="large")
    parser.add_argument("--out", default="worth")
    given = parser.parse_args()
    if given.base_url:
        main(given.base_url, given.small, given.large, given.out)
    else:
        with ChatServer(script) as server:
            main(server.base_url, given.small, given.large, given.out)
