"""Texts to unit vectors, by name: MiniLM in numpy, hashing for tests, served models, sentence-transformers."""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from evolvent.core.errors import BadInput, ModelError, closest, missing_extra
from evolvent.core.protocols import Embedder
from evolvent.memory import minilm
from evolvent.memory.text import finite

DEFAULT = minilm.NAME
GATE = 0.25  # of an embedder that has no ``gate`` of its own
# nothing to do with each other
UNRELATED = (
    "How do I reset my password?",
    "Remove red wine stains from a carpet",
    "Child with fever above 39 degrees",
    "java.lang.NullPointerException in Label.print",
    "Who composed the opera about a barber?",
    "SELECT country, COUNT(*) FROM visits GROUP BY country",
    "Cheapest day of the week to book a flight",
    "Translate this poem into Finnish",
    "The customer has not paid the second invoice",
    "Why do leaves change colour in autumn?",
    "Request parental leave for next spring",
    "How many strings has a harp?",
    "Sharpen a kitchen knife at home",
    "Send money to a bank account abroad",
    "What is the capital of Mongolia?",
    "Go north, take the lamp and open the chest",
    "Merge two branches with conflicts",
    "Grow tomatoes on a balcony",
    "Prove that the square root of two is irrational",
    "Book a meeting room for ten people",
    "My suitcase never showed up after landing",
    "Summarise the report on last year's rainfall",
    "Exercises after a torn ligament",
    "Which opening should White play against the Sicilian?",
)
_WORD = re.compile(r"\w+|[^\w\s]")


def load(name: str = DEFAULT, *, progress: Callable[[int, int, str], None] | None = None) -> Embedder:
    """An embedder by name. Weights are loaded (and fetched) at its first ``embed``, not here.

    - ``"all-MiniLM-L6-v2"``: the default, in numpy, 384 numbers
    - ``"hash"`` or ``"hash:512"``: words hashed to that many numbers; for unit tests, it knows no meaning
    - ``"openai:MODEL@BASE_URL"``: an OpenAI-compatible embeddings endpoint; key from ``OPENAI_API_KEY``
    - any other name with a dash or a folder in it: a sentence-transformers model (extra ``lm``)

    Raises:
        BadInput: a malformed name, or none of these.
    """
    if not isinstance(name, str) or not name.strip():
        raise BadInput(
            "not the name of an embedder",
            got=name,
            expected="e.g. 'all-MiniLM-L6-v2'",
            where="embedders.load",
            code="unknown_embedder",
        )
    if name == minilm.NAME:
        return minilm.MiniLM(progress)
    if name == "hash" or name.startswith("hash:"):
        size = name[5:] or "256"
        if not size.isdigit() or not 8 <= int(size) <= 65536:
            raise BadInput(
                "not a dimension",
                got=name,
                expected="hash:8 to hash:65536",
                where="embedders.load",
                code="unknown_embedder",
            )
        return Hashing(int(size))
    if name.startswith("openai:"):
        model, at, url = name[len("openai:") :].partition("@")
        if not model or not at or not url.startswith(("http://", "https://")):
            raise BadInput(
                "malformed endpoint",
                got=name,
                expected="openai:MODEL@http(s)://host/v1",
                where="embedders.load",
                code="unknown_embedder",
            )
        return cast(Embedder, Endpoint(model, url))
    if "-" not in name and "/" not in name and not os.path.isdir(name):
        raise BadInput(
            "no such embedder",
            got=name,
            expected=closest(name, ["hash", minilm.NAME, "openai:MODEL@URL"]),
            where="embedder",
            code="unknown_embedder",
            do="or give the name or folder of a sentence-transformers model",
        )
    return cast(Embedder, SentenceTransformer(name))


def ready(name: str, *, progress: Callable[[int, int, str], None] | None = None) -> Embedder:
    """As ``load``, and it has embedded a word: what is missing is missed before anything else is loaded or done.

    Raises:
        BadInput: as ``load``.
        MissingExtra: a package that it needs is not installed.
        ModelError: no such model, or no server that answers.
    """
    embedder = load(name, progress=progress)
    embedder.embed(["one"])
    return embedder


def gate_of(embedder: Embedder) -> float:
    """The cosine above which two texts may have to do with each other: ``embedder.gate`` where it has one, else .25.

    Endpoints, functions and sentence-transformers are measured at the first call, and then have one.
    """
    if getattr(embedder, "gate", GATE) is None and isinstance(embedder, Function | SentenceTransformer):
        embedder.gate = measured_gate(cast(Embedder, embedder))
    return finite(getattr(embedder, "gate", GATE), what="the gate", where=f"embedder {embedder.id!r}")


def measured_gate(embedder: Embedder) -> float:
    """The highest cosine among 24 texts that have nothing to do with each other, rounded to hundredths.

    Cosines of one model mean nothing under another: unrelated texts lie below .25 for all-MiniLM-L6-v2, near .8 for
    others. In ``benchmarks/recall.py`` such a gate loses hardly any answer and keeps most of what fits nothing out.
    """
    vec_ND = embedder.embed(UNRELATED)
    return round(float((vec_ND @ vec_ND.T)[np.triu_indices(len(vec_ND), 1)].max()), 2)


def as_vectors(given: Any, where: str) -> np.ndarray:
    """What an embedder gave as float32; ``BadInput`` where it is no array of real numbers."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is reported as that
            array = np.asarray(given)
            if np.iscomplexobj(array):
                raise TypeError("complex numbers")
            return array.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        got, expected = f"{type(given).__name__} ({error})", "an array of numbers [texts, D]"
        raise BadInput(
            "the embedder gave no vectors", got=got, expected=expected, where=where, code="bad_vectors"
        ) from error


class Hashing:
    """Bag of words and word pairs, hashed with signs into ``dim`` numbers: fast, deterministic, blind to meaning."""

    def __init__(self, dim: int = 256) -> None:
        self.id, self.dim, self.gate = f"hash:{dim}", dim, 0.3

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, dim]``."""
        out_ND = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(out_ND, texts, strict=True):
            words = _WORD.findall(text.lower())
            pairs = [f"{a} {b}" for a, b in itertools.pairwise(words)]
            for feature, weight in [(w, 1.0) for w in words] + [(p, 0.5) for p in pairs] + [(text, 0.1)]:
                h = zlib.crc32(feature.encode("utf-8"))
                row[(h >> 1) % self.dim] += weight if h & 1 else -weight
            length = float(np.linalg.norm(row))
            if length < 1e-6:  # all signs cancelled
                row[zlib.crc32(text.encode("utf-8")) % self.dim] = length = 1.0
            row /= length
        return out_ND


class Function:
    """Any function from texts to vectors as an embedder: ``Function("my-model", lambda texts: model.encode(texts))``.

    Args:
        id: the model's name, which a store remembers; another model needs another one.
        function: list of texts to an array ``[N, D]``, or a sequence of N vectors; of any length but zero.
    """

    gate: float | None = None

    def __init__(self, id: str, function: Callable[[list[str]], Any]) -> None:
        self.id, self._function, self._dim = id, function, 0

    @property
    def dim(self) -> int:
        """Length of its vectors; embeds a word once."""
        if not self._dim:
            self.embed(["dimension"])
        return self._dim

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, dim]``."""
        out_ND = as_vectors(self._function(list(texts)), self.id)
        if out_ND.ndim != 2 or len(out_ND) != len(texts):
            expected = (len(texts), "D")
            raise BadInput(
                "the function gave the wrong shape",
                got=out_ND.shape,
                expected=expected,
                where=self.id,
                code="bad_vectors",
            )
        self._dim = out_ND.shape[1]
        with np.errstate(invalid="ignore", over="ignore"):  # infinite ones are reported by whoever asked
            return out_ND / np.maximum(np.linalg.norm(out_ND, axis=1, keepdims=True), 1e-12)


class Endpoint(Function):
    """A served embeddings model (OpenAI protocol) through the ``openai`` client, 64 texts a request."""

    def __init__(self, model: str, base_url: str, *, timeout_s: float = 60.0, retries: int = 4) -> None:
        super().__init__(f"openai:{model}@{base_url}", self._ask)
        self._model, self._base_url, self._timeout_s, self._retries = model, base_url, timeout_s, retries
        self._client: Any = None

    def _ask(self, texts: list[str]) -> list[np.ndarray]:
        try:
            import openai
        except ImportError as error:
            raise missing_extra("openai", "openai", self.id) from error
        if self._client is None:
            key = os.environ.get("OPENAI_API_KEY", "none")
            self._client = openai.OpenAI(
                base_url=self._base_url, api_key=key, timeout=self._timeout_s, max_retries=self._retries
            )
        rows: list[np.ndarray] = []
        for start in range(0, len(texts), 64):
            part = texts[start : start + 64]
            try:
                reply = self._client.embeddings.create(model=self._model, input=part, encoding_format="float")
                rows += list(np.array([d.embedding for d in sorted(reply.data, key=lambda d: d.index)], np.float32))
            except openai.OpenAIError as error:
                do = "check that the server runs and serves this model, and OPENAI_API_KEY"
                raise ModelError(
                    "the embeddings endpoint failed", got=str(error), where=self.id, do=do, code="embedder_failed"
                ) from error
            except (AttributeError, TypeError, ValueError) as error:  # a web page, another service
                do = "check the URL; it usually ends with /v1"
                raise ModelError(
                    "no reply of an embeddings endpoint", got=str(error), where=self.id, do=do, code="embedder_failed"
                ) from error
        if len(rows) != len(texts):
            raise ModelError(
                "the endpoint gave another number of vectors",
                got=len(rows),
                expected=len(texts),
                where=self.id,
                code="embedder_failed",
            )
        return rows


class SentenceTransformer:
    """A sentence-transformers model by name or folder."""

    gate: float | None = None

    def __init__(self, name: str) -> None:
        self.id = name
        self._model: Any = None

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer as Model
            except ImportError as error:
                raise missing_extra("sentence-transformers", "lm", f"embedder {self.id!r}") from error
            try:
                self._model = Model(self.id)
            except (OSError, ValueError) as error:
                raise ModelError(
                    "no such embedder",
                    got=f"{self.id}: {str(error).partition(chr(10))[0]}",
                    expected=f"{DEFAULT}, hash, openai:MODEL@URL, or a model of sentence-transformers",
                    where="embedder",
                    do="check the name, and that it is in the cache or can be fetched",
                    code="embedder_failed",
                ) from error
        return self._model

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        return int(self._loaded().get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, dim]``."""
        model = self._loaded()
        return np.asarray(model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False), np.float32)
