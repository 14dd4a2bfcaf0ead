"""``/ui``: one page for a person, of three files of our own. It asks over REST with the token that its reader has.

The token is in the fragment of the link or typed in, and stays in the tab. It is in no cookie: those of this machine
are sent to whatever listens on another port of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent / "page"
_KINDS = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def routes() -> list[Route]:
    """The files of the page; they say nothing of any memory, so that no token is needed for them."""
    return [
        Route("/ui" if name == "index.html" else f"/ui/{name}", _file(name, kind), methods=["GET"])
        for name, kind in _KINDS.items()
    ]


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    body = (_FOLDER / name).read_bytes()

    async def endpoint(_: Request) -> Response:
        return Response(body, headers=_HEADERS, media_type=f"{kind}; charset=utf-8")

    return endpoint
