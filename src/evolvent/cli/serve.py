"""`evolvent serve`, `evolvent tokens`: a memory over HTTP, and who may use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from evolvent.cli.listening import listen
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, optional
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.live import Live
from evolvent.memory.outcome import SOURCES
from evolvent.memory.there import store_path
from evolvent.serve import client
from evolvent.serve.attempts import attempts_of
from evolvent.serve.tokens import MAY, Token, Tokens

_WHERE = "evolvent serve"
Store = Annotated[str, Positional, arg(help="memory (file, or postgresql://…), or a run folder with one.")]
File = Annotated[Path | None, arg(help="file of the tokens; default: STORE.tokens.")]


def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    auth: bool = True,
    names: tuple[str, ...] = (),
    scope: str = "default",
    policy: str = "memlift",
    embedder: str | None = None,
    holdout: float = 0.0,
    tokens: File = None,
) -> None:
    """Serve a memory over HTTP and MCP, with a page for people (/ui); what is answered is on disk. One process a store.

    Example: evolvent serve agent.db

    Args:
        host: who can reach it: this machine alone, or those that reach this address.
        port: 0 = any that is free, which is printed.
        auth: every request needs a token; without, whoever reaches this machine's loopback may do all in the scope.
        names: further names that this machine is asked by, such as that of a proxy before it.
        scope: of the first token, which is made and printed where there is none yet.
        policy: of recalls.
        embedder: of a new store: all-MiniLM-L6-v2, hash, openai:MODEL@URL, a sentence-transformers model.
        holdout: share of attempts that get nothing, so that `lift` can say whether the memory helps.
    """
    for module in ("starlette", "uvicorn", "mcp"):
        optional(module, "server", _WHERE)
    from evolvent.serve import http
    from evolvent.serve.app import app

    here = host in http.LOOPBACK
    if not auth and not here:
        do = "leave --no-auth out, or serve 127.0.0.1"
        raise BadInput("whoever reaches this address could do everything", got=host, where=_WHERE, do=do)
    store = _path(store)
    kept = Tokens(tokens_file(store, tokens))
    with http.alone(store) as tell:
        listening, at = listen(host, port)
        tell(address := f"http://{at}")
        threads = http.threads(http.Settings(store, scope, policy, embedder, holdout), kept.key, attempts_of(kept.path))
        with Live(plain=True) as live:
            if auth and not kept.named:
                token = kept.new(Token("local", (scope,)))
                live.note(f"token (shown once): {token}")
                live.note(f"page, with the token in its address: {address}/ui#{token}")
            if not here:
                live.note(
                    f"{host} is not this machine alone: whoever reaches it and has a token reads and writes its "
                    "scopes, and what is sent is not encrypted; put a proxy with TLS before it"
                )
            live.note(f"{store} is served at {address}{'' if auth else ', to everybody on this machine'}")
        allowed = http.by_token(kept) if auth else http.everybody(scope)
        http.run(app(threads, allowed, {*http.LOOPBACK, host, *names}), listening)
    sys.stdout.write("stopped; all that was acknowledged is on disk\n")


def new(
    store: Store,
    name: Positional[str],
    *,
    scopes: tuple[str, ...] = ("default",),
    may: tuple[str, ...] = MAY,
    sources: tuple[str, ...] = SOURCES,
    here: bool = False,
    tokens: File = None,
) -> None:
    """Make a token, and print it: it is kept as a hash, and shown never again. A server that runs knows it at once.

    Example: evolvent tokens new agent.db ci --scopes team-2 --may outcome --sources tests

    Args:
        name: who has it; memories that it writes have it as their source.
        scopes: of the store, by name.
        may: recall, outcome, remember, read (memories, explain, lift).
        sources: of outcomes that it may claim: env, tests, judge, human, proxy.
        here: keep it for `evolvent watch`, the pytest plug-in and agents on this machine, instead of printing it.
    """
    kept = tokens_file(store, tokens)
    text = Tokens(kept).new(Token(name, scopes, may, sources))
    sys.stdout.write(f"{keep(store, text, scopes) if here else text}\n")


def keep(store: str, token: str, scopes: Sequence[str]) -> str:
    """Write where the server is and a token for it to the file of this machine's clients; says so."""
    serving = Path(f"{_path(store)}.serving")
    at = serving.read_text("utf-8").split(" ")[0] if serving.is_file() else ""
    path = Path(client.settings_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"server": at or "http://127.0.0.1:8765", "token": token, "scope": scopes[0] if len(scopes) == 1 else ""}
    write_atomic(path, json.dumps(said, indent=1) + "\n", mode=0o600)
    return f"kept in {path}, for the server at {said['server']}"


def list_(store: Store, *, tokens: File = None) -> None:
    """The tokens of a store: what each allows.

    Example: evolvent tokens list agent.db
    """
    rows = [
        [name, " ".join(one.scopes), " ".join(one.may), " ".join(one.sources)]
        for name, one in Tokens(tokens_file(store, tokens)).named.items()
    ]
    with Live(plain=True) as live:
        live.table("Tokens", ["name", "scopes", "may", "sources"], rows)


def revoke(store: Store, name: Positional[str], *, tokens: File = None) -> None:
    """Take a token back; a server that runs knows it at once.

    Example: evolvent tokens revoke agent.db ci
    """
    Tokens(tokens_file(store, tokens)).revoke(name)


def _path(store: str) -> str:
    """Where a store is, or will be."""
    if store == ":memory:":
        raise BadInput("nothing would be kept", got=store, expected="a file, or postgresql://…", where=_WHERE)
    return store_path(store, _WHERE) if Path(store).expanduser().is_dir() else str(store)


def tokens_file(store: str, tokens: Path | None) -> Path:
    """The file of a store's tokens."""
    if tokens is None and "://" in store:
        raise BadInput("where are the tokens?", got=store, expected="--tokens FILE", where=_WHERE)
    path = tokens or Path(f"{_path(store)}.tokens")
    if not path.parent.is_dir():
        do = "create it, or give another place"
        raise BadInput("there is no such folder", got=str(path.parent), where=_WHERE, do=do)
    return path


def _tokens(arguments: Sequence[str]) -> None:
    parsed({"new": new, "list": list_, "revoke": revoke}, arguments, "evolvent tokens")


def _serve(arguments: Sequence[str]) -> None:
    parsed(serve, arguments, _WHERE)


COMMANDS = {"serve": _serve, "tokens": _tokens}
