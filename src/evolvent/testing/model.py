"""Conformance of a model: whatever completes texts proves itself here."""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import EvolventError, ModelError
from evolvent.core.protocols import Completion, Model

PROMPT = "The days of the week are Monday, Tuesday,"


def check_model(model: Model, *, scores: bool = True, samples: bool = True, tolerance: float = 0.05) -> None:
    """Check a ``core.protocols.Model``; raises ``AssertionError`` naming the first rule that is broken.

    Args:
        model: it answers some twenty short calls, and is left open.
        scores: whether it scores given continuations; if not, ``score`` must raise ``ModelError``.
        samples: whether ``temperature`` and ``seed`` have an effect (a scripted model has none).
        tolerance: allowed difference per token, in nats, between log-probabilities from ``generate`` and ``score``
            (engines with 8-bit activations round differently for one token and for many).
    """
    assert isinstance(model, Model), "it lacks name, generate, score or close"
    assert model.name, "its name is empty"
    first = model.generate(PROMPT, max_tokens=8)
    _check_completion(first, 8)
    again = model.generate(PROMPT, max_tokens=8)
    if samples:
        assert again.text == first.text, "greedy generation differs between two calls"
        _check_sampling(model)
    if first.text:
        stop = first.text[len(first.text) // 2]
        stopped = model.generate(PROMPT, max_tokens=8, stop=[stop])
        assert stop not in stopped.text, "the text goes on after a stop string"
        assert stopped.finish == "stop", f"a stop string ended the text, finish says {stopped.finish!r}"
    if scores:
        _check_scores(model, first, tolerance)
    else:
        try:
            model.score(PROMPT, [" Wednesday"])
        except ModelError:
            return
        raise AssertionError("score must raise ModelError where it is not offered")


def _check_completion(c: Completion, limit: int) -> None:
    assert c.token_ids.dtype == np.int32 and c.logp.dtype == np.float32, "token_ids are int32 and logp float32"
    assert c.token_ids.shape == c.logp.shape and c.logp.ndim == 1, "token_ids and logp have one shape [K]"
    assert len(c.token_ids) <= limit, "more tokens than max_tokens"
    assert np.isfinite(c.logp).all() and (c.logp <= 1e-6).all(), "a log-probability is above 0 or not finite"
    assert c.finish in ("stop", "length"), f"finish is {c.finish!r}"
    assert c.prompt_tokens >= c.cached_tokens >= 0, "more cached tokens than tokens"
    assert c.seconds >= 0.0, "seconds are negative"


def _check_sampling(model: Model) -> None:
    drawn = [model.generate(PROMPT, max_tokens=6, temperature=1.5, seed=s) for s in range(5)]
    assert len({c.text for c in drawn}) > 1, "five seeds at temperature 1.5 gave one text"
    same = model.generate(PROMPT, max_tokens=6, temperature=1.5, seed=3)
    assert same.text == drawn[3].text, "the same seed gave another text"
    for bad in ({"temperature": -1.0}, {"top_p": 0.0}, {"max_tokens": 0}):
        try:
            model.generate(PROMPT, **bad)  # pyright: ignore[reportArgumentType]
        except EvolventError:
            continue
        raise AssertionError(f"{bad} was accepted")


def _check_scores(model: Model, generated: Completion, tolerance: float) -> None:
    options = [" Wednesday", " Wednesday evening", " seven", " Wednesday"]
    scored = model.score(PROMPT, options)
    assert scored.shape == (4,) and scored.dtype == np.float64, "score gives float64 [N]"
    assert (scored <= 1e-6).all() and np.isfinite(scored).all(), "a log-probability is above 0 or not finite"
    assert scored[0] == scored[3], "equal continuations score differently"
    assert scored[1] <= scored[0] + tolerance, "a longer continuation is more likely than its beginning"
    assert len(model.score(PROMPT, [])) == 0, "no continuations, no scores"
    if len(generated.logp):
        n = len(generated.logp)
        score = float(model.score(PROMPT, [generated.text])[0])
        gap = abs(score - float(generated.logp.sum()))
        assert gap <= tolerance * n, f"score and generation differ by {gap:.4f} nats over {n} tokens"
