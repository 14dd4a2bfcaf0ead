"""Every system for two updates, on small worlds with a fixed seed: did a change of structure move a number?

    python .ci/reference.py record DIR [NAME ...]     with the installed version, through its command line
    python .ci/reference.py compare BEFORE AFTER      of two such folders: metrics, weights, values

A fingerprint holds what must not move: the lines of the metrics but for the clock, the tensors of the newest
checkpoint, what a memory holds, and the summary. Compare only what one machine recorded: others round otherwise.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
MEMORY = "--model scripted:{script} --env analyst:kinds=5,reviewer_wrong=0.4 --train 8 --heldout 3 --passes 3"
LANGUAGE = (
    "--model {model} --env {env} --updates 2 --prompts 2 --group 4 --lr 0.01 --dtype float32 --eval-every 0 "
    "--eval-tasks 2 --threads 1"
)
ROOM, SUM = "microwave:step_limit=3", "arithmetic:addition,shots=2"
ENVS = dict.fromkeys(("kto", "evol_rl", "marft", "sft"), SUM)
OWN = {
    "etpo": "--critic-lr 0.05 --polyak 0.5 --minibatches 2 --act trie",
    "archer": "--warmup 1 --passes 2 --draws 5 --capacity 11",
    "marft": "--interval 1 --kl-stop 0",
    "g_ra": "--kinds process",
    "kto": "--wanted 2",
    "tgdpo": "--reward-updates 1",
    "twosome": "--act token",
    "ts_llm": "--rollouts 6 --simulations 3 --widths 9 --epochs 1",
}
SEARCH = "--model train:{model} --env {env} --search cot_sc mcts_rollout --tasks 3 --budget-tokens 60".replace(
    "{env}", "arithmetic:addition,shots=2"
)
TEAM = "--env {env} --steps 400 --envs 4 --horizon 25 --eval-episodes 4 --threads 1 --seed 3"
TEAMS = {
    "mat": "spread:n=3",
    "pmat": "spread:n=3",
    "happo": "spread:n=3",
    "hatrpo": "spread:n=3",
    "mappo": "spread:n=3",
    "ippo": "spread:n=3",
    "coma": "mpe:simple_spread,n=3",
}
MEMORIES = ("memlift", "memrl", "memq", "memp", "memento", "rag", "no_memory")
TRAD = "--model scripted:{script} --env household:food,swap=true --no-same-kind --train 2 --heldout 2 --embedder hash"
CLOCK = re.compile(r"^(t|seconds|started|finished|path|command|versions|machine|commit)$|_s$|^seconds|per_second")


def words_of(name: str, files: dict[str, str]) -> list[str]:
    """The command line of a system."""
    if name in MEMORIES:
        return MEMORY.format(**files).split()
    if name == "trad":
        return TRAD.format(**files).split()
    if name == "search":
        return SEARCH.format(**files).split()
    if name in TEAMS:
        return TEAM.format(env=TEAMS[name]).split()
    env = ENVS.get(name, ROOM)
    return [*LANGUAGE.format(env=env, **files).split(), *OWN.get(name, "").split()]


def record(out: Path, names: list[str]) -> None:
    """Run the systems and write ``out/NAME.json`` each."""
    import torch

    import tiny_language
    from evolvent import catalogue
    from evolvent.cli import run

    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    script = out / "replies.json"
    script.write_text(json.dumps({"replies": {"*": "SELECT COUNT(*) FROM flights WHERE carrier='UA'"}}))
    model = out / "model"
    if not model.exists():
        tiny_language.write(model, max_position_embeddings=1024)
    files = {"script": str(script), "model": str(model)}
    for name in names or [entry.name for entry in catalogue.entries("algos")]:
        folder = out / "runs" / name
        try:
            run.main([name, *words_of(name, files), "--out", str(folder), "--plain"])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what cannot run is told, the others go on
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        (out / f"{name}.json").write_text(json.dumps(fingerprint(folder, str(out)), indent=1, sort_keys=True))


def fingerprint(folder: Path, root: str) -> dict[str, object]:
    """What must not move in a run folder."""
    said: dict[str, object] = {}
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    said["metrics"] = [timeless(row, root) for row in rows]
    said["summary"] = timeless(json.loads((folder / "summary.json").read_text()), root)
    if saved := sorted((folder / "checkpoints").glob("step-*")):
        from safetensors.numpy import load_file

        tensors = load_file(saved[-1] / "tensors.safetensors")
        tensors.pop("replay.episodes", None)  # names of attempts are random
        said["weights"] = {k: hashlib.sha256(np.ascontiguousarray(v).tobytes()).hexdigest() for k, v in tensors.items()}
    if (folder / "memory.db").exists():
        from evolvent import Memory

        with Memory(folder / "memory.db") as memory:
            said["memory"] = [[i.id, i.key, i.body, repr(i.value), i.n, i.n_omitted] for i in memory.items()]
    return said


def timeless(value: object, root: str) -> object:
    """A JSON value without the clock and without where the run lies."""
    if isinstance(value, dict):
        return {k: timeless(v, root) for k, v in value.items() if not CLOCK.search(k)}
    if isinstance(value, list):
        return [timeless(v, root) for v in value]
    return value.replace(root, "…") if isinstance(value, str) else value


def compare(before: Path, after: Path) -> int:
    """Print what differs; the number of systems that do."""
    moved = 0
    for path in sorted(before.glob("*.json")):
        if path.name == "replies.json":
            continue
        other = after / path.name
        if not other.exists():
            print(f"{path.stem}: not recorded")
            continue
        told = [*differences(json.loads(path.read_text()), json.loads(other.read_text()))]
        moved += bool(told)
        print(f"{path.stem}: {'equal' if not told else f'{len(told)} differences'}")
        for line in told[:8]:
            print(f"    {line}")
    return moved


def differences(a: object, b: object, at: str = ""):
    """Where two JSON values differ; what only the second has is no difference."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a:
            yield from differences(a[key], b.get(key, "(absent)"), f"{at}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, f"{at}[{i}]")
    elif a != b:
        yield f"{at}: {str(a)[:60]} → {str(b)[:60]}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(Path(sys.argv[2]).resolve(), sys.argv[3:])
    elif sys.argv[1:2] == ["compare"]:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])) > 0)
    else:
        sys.exit(__doc__)
