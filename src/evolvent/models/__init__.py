"""What acts: language models in this process, behind an endpoint, or scripted. ``load`` finds one by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolvent.core import outside
from evolvent.core.errors import BadInput, closest
from evolvent.core.threads import threads_sleep

if TYPE_CHECKING:
    from evolvent.core.protocols import Model


def load(
    spec: str,
    *,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Model:
    """The model that ``spec`` names.

    Args:
        spec: ``smollm2-135m``, ``gemma-3-270m`` or ``qwen2.5-coder-1.5b`` (fetched into the cache if missing) or
            ``PATH.gguf``, each with ``,n_ctx=8192`` after it where prompts are long; ``remote:MODEL@BASE_URL``,
            ``train:MODEL`` (in torch, with weights that can be trained: ``models.language.model``),
            ``scripted:FILE.json``, a function of yours from prompt to reply (``file.py:answer`` or
            ``package.module:answer``), or ``none`` (scores uniformly, cannot generate).
        progress: called as ``progress(bytes_done, bytes_total, text)`` while weights are fetched.
        **options: for the model, such as ``n_ctx`` and ``n_threads`` (local) or ``timeout_s`` (remote).

    Raises:
        BadInput: no such model; the message lists what there is.
        MissingExtra: the package it needs is not installed.
        ModelError, EvolventError: it cannot be fetched or loaded.
    """
    from evolvent.models import weights

    kind, _, rest = spec.partition(":")
    if (at := outside.pointer(spec)) is not None:
        from evolvent.models.served.scripted import Scripted

        return Scripted(_answering(at, spec), name=spec)
    if kind == "remote":
        from evolvent.models.served.remote import Remote

        model, at, base_url = rest.partition("@http")
        if not at or not model:
            raise BadInput("not a remote model", got=spec, expected="remote:MODEL@http(s)://HOST/v1", where="--model")
        return Remote(model, f"http{base_url}", **options)
    if kind == "scripted" or spec == "none":
        from evolvent.models.served.scripted import Scripted

        if options:
            raise BadInput("a scripted model takes no options", got=sorted(options), where=spec)
        return Scripted(name="none") if spec == "none" else Scripted.from_file(rest)
    if kind == "train":
        with threads_sleep():  # torch brings its own OpenMP
            from evolvent.models.language import model as language

        return language.load(rest, progress=progress, **options)
    spec, _, room = spec.partition(",n_ctx=")
    if room:
        if not room.isdecimal():
            raise BadInput("not a number of tokens", got=room, expected="NAME,n_ctx=8192", where="--model")
        options = {"n_ctx": int(room), **options}
    if spec.endswith(".gguf"):
        from evolvent.models.served.llama import Llama

        return Llama(Path(spec).expanduser(), **options)
    names = [entry.name for entry in weights.CATALOGUE]
    if spec not in names:
        forms = "PATH.gguf, remote:MODEL@BASE_URL, train:MODEL, file.py:FUNCTION, scripted:FILE.json, none"
        raise BadInput("no such model", got=spec, expected=f"{closest(spec.lower(), names)}; {forms}", where="--model")
    from evolvent.models.served.llama import Llama

    return Llama(weights.fetch(spec, progress), name=spec, **options)


def _answering(at: outside.Pointer, spec: str) -> Callable[[str], str]:
    """The user's function from prompt to reply; what goes wrong is reported with its line and the end of the prompt."""
    function: Any = outside.load(at, "a model", ("answer",))[2]
    expected = "a function from the prompt to the reply, both text"
    if not callable(function):
        raise BadInput("not a model", got=type(function).__name__, expected=expected, where=spec)

    def answer(prompt: str) -> str:
        asked = f"asked {prompt[-80:]!r}"
        do = "mend it; where a server failed and not the agent, raise EnvError: a run of a memory goes on without it"
        with outside.own_faults(str(at.file or at.home), f"the agent {spec} failed", where=asked, do=do):
            reply = function(prompt)
        if not isinstance(reply, str):
            where = f"{spec}; {asked}"
            raise BadInput("the agent's reply is not a text", got=repr(reply), expected=expected, where=where)
        return reply

    return answer


def cached_models() -> list[dict[str, Any]]:
    """Rows for ``evolvent list models``: name, size in MB, licence, use, whether it is cached, and where."""
    from evolvent.models import weights

    rows: list[dict[str, Any]] = []
    for entry in weights.CATALOGUE:
        row = {"name": entry.name, "mb": round(entry.size / 1e6), "licence": entry.licence, "use": entry.use}
        rows.append(row | {"cached": weights.cached(entry), "path": str(weights.path(entry))})
    return rows
