"""Any model with an on-disk cache of its answers, keyed by the model's identity and every argument.

Experiments repeat themselves: arms that differ only in memory share the prompts where nothing was recalled. A cached
completion keeps the tokens, counts and seconds of its first computation, so accounts stay honest. Sampling with a
temperature is cached too: the seed is part of the key.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.protocols import Completion, Model

_TABLE = (
    "CREATE TABLE IF NOT EXISTS answer(key TEXT PRIMARY KEY, head TEXT NOT NULL, arrays BLOB NOT NULL) WITHOUT ROWID"
)


class Cached:
    """``model`` behind a cache in the SQLite file ``path``; several processes may share the file."""

    def __init__(self, model: Model, path: str | Path) -> None:
        self._model = model
        self.name = model.name
        self.identity = str(getattr(model, "identity", "") or model.name)
        self.hits = self.misses = 0
        if tokenize := getattr(model, "tokenize", None):  # what is read for a score is counted by it
            self.tokenize = tokenize
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=60.0, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(_TABLE)

    def generate(
        self,
        prompt: str,
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        grammar: str | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """As the model's own; greedy answers do not depend on the seed."""
        settings = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "seed": seed if temperature else 0,
            "stop": list(stop),
            "grammar": grammar,
            "json_schema": json_schema,
        }
        key = self._key("generate", prompt, settings)
        found = self._find(key)
        if found is not None:
            head, arrays = found
            return Completion(token_ids=arrays["token_ids"], logp=arrays["logp"], **head)
        done = self._model.generate(
            prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            stop=stop,
            grammar=grammar,
            json_schema=json_schema,
        )
        head = {
            "text": done.text,
            "prompt_tokens": done.prompt_tokens,
            "cached_tokens": done.cached_tokens,
            "seconds": done.seconds,
            "finish": done.finish,
        }
        if done.finish != "error":
            self._keep(key, head, {"token_ids": done.token_ids, "logp": done.logp})
        return done

    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """As the model's own."""
        key = self._key("score", prompt, {"continuations": list(continuations)})
        found = self._find(key)
        if found is not None:
            return found[1]["logp"]
        logp = self._model.score(prompt, continuations)
        self._keep(key, {}, {"logp": logp})
        return logp

    def close(self) -> None:
        """Close the cache; the model stays open, it belongs to the caller."""
        self._db.close()

    def _key(self, verb: str, prompt: str, settings: Mapping[str, Any]) -> str:
        text = json.dumps([self.identity, verb, prompt, settings], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _find(self, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        with self._lock:
            row = self._db.execute("SELECT head, arrays FROM answer WHERE key=?", (key,)).fetchone()
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        with np.load(io.BytesIO(row[1]), allow_pickle=False) as stored:
            return json.loads(row[0]), {name: stored[name] for name in stored.files}

    def _keep(self, key: str, head: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **dict(arrays))  # pyright: ignore[reportArgumentType]
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO answer VALUES(?,?,?)", (key, json.dumps(head), buffer.getvalue()))
