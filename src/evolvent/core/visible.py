"""Text of programs and models for a terminal: nothing in it moves a cursor, changes a colour or turns text around."""

from __future__ import annotations


def visible(text: str) -> str:
    """``text`` with escapes for all that does not print, as Python writes them; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text.replace("\r\n", "\n"))
