"""Lift of a real agent loop: an OpenAI-compatible endpoint (llama.cpp's server), questions in SQL, a holdout.

    python benchmarks/lift_endpoint.py

The agent is the loop of the README with the `openai` client; its questions are those of the analyst, each asked several
times in random order, and a simulated reviewer corrects it (one correction in five is wrong). By chance one attempt in
five gets nothing from the memory. Some twenty minutes on one core; needs the extras llama and serve.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import openai
import xllamacpp

from evolvent import Memory
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.envs import load
from evolvent.models import weights

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "lift_endpoint.json"


def main() -> None:
    """Run the loop, and keep what `evolvent memory lift` says of its store."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="gemma-3-270m")
    p.add_argument("--questions", type=int, default=48)
    p.add_argument("--times", type=int, default=6, help="how often each is asked")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--store", default=str(HERE / "runs" / "lift_endpoint.db"))
    p.add_argument("--out", default=str(RESULTS))
    a = p.parse_args()
    Path(a.store).parent.mkdir(parents=True, exist_ok=True)
    server = serving(str(weights.fetch(a.model)))
    client = openai.OpenAI(base_url=f"{server.listening_address}/v1", api_key="none")
    env = load("analyst:kinds=12,reviewer_wrong=0.2")
    tasks = env.tasks("train", a.questions, a.seed)
    order = np.random.default_rng(a.seed).permutation(np.repeat(np.arange(len(tasks)), a.times)).tolist()
    with Memory(a.store, holdout=True, seed=a.seed) as memory:
        done = memory.meta_get("done") or 0
        for number in range(done, len(order)):
            ok, held = attempt(client, a.model, memory, env, tasks[order[number]], number)
            print(f"{number + 1}/{len(order)} {'right' if ok else 'wrong'}{' (held out)' * held}", flush=True)
        found = memory.lift()
        print(found)
        measured = {"overall": found.to_dict(), "items": memory.lift("item").to_dict()["items"]}
    command = f"python benchmarks/lift_endpoint.py --model {a.model} --seed {a.seed}"
    write_atomic(Path(a.out), dump({"command": command, "seed": a.seed, **measured, **provenance()}, indent=1) + "\n")


def serving(path: str) -> xllamacpp.Server:
    """An OpenAI-compatible endpoint on a free port of this machine."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel, params.warmup, params.port = 4096, 1, False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def attempt(client, model, memory, env, task, number) -> tuple[bool, bool]:
    """One question, as an agent of one's own would do it."""
    question = env.reset(task, task.seed).observation
    recall = memory.recall(question, k=3, attempt=f"attempt {number}", task_id=task.id)
    notes = "".join(f"Q: {m.key}\nSQL: {m.body}\n\n" for m in reversed(recall.items))
    answer = client.completions.create(
        model=model,
        prompt=f"{env.instructions}{notes}Q: {question}\nSQL:",
        temperature=0.0,
        max_tokens=env.max_tokens,
        stop=list(env.stop),
    )
    turn = env.step(answer.choices[0].text)
    ok = bool(turn.success)
    correction = None if ok else env.review(task, number)
    with memory.transaction():
        memory.settle(recall, float(ok), source="tests", action=answer.choices[0].text.strip())
        if correction is not None:
            memory.remember(question, correction.body, source=correction.source)
        memory.meta_set("done", number + 1)
    return ok, recall.held_out


if __name__ == "__main__":
    main()
