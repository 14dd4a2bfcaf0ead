"""`evolvent data functions`: your tools and your logged calls, as rows to train on and to be judged by.

`evolvent data make|inspect|convert` (``cli/recorded.py``) are of attempts in environments.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional

from evolvent.cli import recorded
from evolvent.cli.export.messages import messages
from evolvent.core.arguments import parsed
from evolvent.core.branches import linear
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.data.calls import Conversation, conversation, read_log
from evolvent.data.gather import Gathered, complete, gather, judge_of
from evolvent.data.masking import mask as masked
from evolvent.data.renaming import Alphabet, Scrub
from evolvent.data.rows import SPLITS, Row, training
from evolvent.data.schemas import LEGAL, Tool, read_tools
from evolvent.evaluate.live import Live, count
from evolvent.traces import chat
from evolvent.traces.events import Repairs

_WHERE = "evolvent data functions"
_RECORDED = ("make", "inspect", "convert")
_EXPECTED = """\
evolvent data functions TOOLS LOG ... --out DIR          your tools and logged calls, as rows
evolvent data make --env ENV --quality Q --out DIR       attempts of random play or of a policy, to learn from
evolvent data inspect DIR                                what recorded attempts hold, and what to expect of them
evolvent data convert DIR --minari NAME                  as a dataset of Minari; --from-minari NAME --out DIR back"""
_MANY = 20
"""Tools in a row from which a prompt is long for small models."""


@dataclass(frozen=True)
class Said:
    """Whose word makes a call right; a field ``outcome`` in a line always counts."""

    accept: bool = False
    """A call whose result is no error is right, where nothing else is said."""
    judge: str = ""
    """FILE:FN, a function of {"messages", "tools", "calls", "said", "results", "fields"} that returns True, False or
    None."""


@dataclass(frozen=True)
class Shares:
    """What is made of the rows."""

    mask: float = 0.0
    """Share of the rows for training that get random names (published: .67)."""
    irrelevant: float = 0.0
    """Share of all rows whose tool is taken away (published: .1)."""
    unseen: float = 0.2
    """Share of the functions that are kept out of training."""
    heldout: float = 0.2
    """Share of the other conversations that are."""
    copies: int = 1
    """Copies of each row for training, each masked anew (published: 3)."""
    candidates: int = 0
    """Tools listed in a row, those that are called among them; 0 = all."""
    scrub: Scrub = "marked"
    """Names in descriptions of masked rows: those written as names go, all words that are one, or none."""
    alphabet: Alphabet = "own"
    """Letters of new names: legal everywhere, or as published."""


def functions(
    files: Annotated[tuple[Path, ...], Positional],
    *,
    out: Path,
    said: OmitArgPrefixes[Said] = Said(),
    shares: OmitArgPrefixes[Shares] = Shares(),
    form: Literal["chat", "text"] = "chat",
    seed: int = 0,
    plain: bool = False,
) -> None:
    """Tools and logged calls become rows: what was asked, which tools there were, and the calls that were right.

    Example: evolvent data functions tools.json calls.jsonl --mask .67 --irrelevant .1 --out fc/

    Args:
        files: the tools (JSON of OpenAI, Anthropic, MCP or xLAM), then logs: JSON lines of messages or of xLAM, or the
            run folder of `evolvent import`. A log alone must bring its tools, as a field of each line.
        out: folder for rows.jsonl, train.jsonl and data.json; one that this command made is replaced.
        said: whose word makes a call right.
        shares: what is made of the rows.
        form: of train.jsonl: messages and tools as chat endpoints have them, or the text that `functions:` asks for.
        seed: of the splits, the names and what else is drawn.
        plain: plain text output even on a terminal.
    """
    _check(files, out, shares)
    repairs = Repairs()
    with Live(plain=True if plain else None) as live:
        live.status("reading")
        tools = read_tools(files[0], repairs) if len(files) > 1 else []
        judge = judge_of(said.judge, "--judge") if said.judge else None
        log, few = _conversations(files[1:] or files, repairs), shares.candidates
        found = gather(log, tools, repairs, accept=said.accept, judge=judge, candidates=few, seed=seed)
        if not found.rows:
            raise _nothing(files, repairs)
        rows = complete(
            found.rows, irrelevance=shares.irrelevant, unseen=shares.unseen, heldout=shares.heldout, seed=seed
        )
        train = _training(rows, shares, form, seed, live)
        _write(out, rows, train, {"files": [path.name for path in files], "seed": seed, "form": form}, said, shares)
        _tell(live, out, rows, train, found, repairs, shares.irrelevant)


# ------------------------------------------------------------------------------------------------------- reading
def _check(files: Sequence[Path], out: Path, shares: Shares) -> None:
    if not files:
        raise BadInput("no file", expected="tools.json calls.jsonl", where=_WHERE)
    for name in ("mask", "irrelevant", "unseen", "heldout"):
        value = getattr(shares, name)
        if not 0 <= value <= (1 if name == "mask" else 0.9):
            expected = "0 to 1" if name == "mask" else "0 to 0.9"
            raise BadInput("not a share", got=value, expected=expected, where=f"--{name}")
    if shares.copies < 1 or shares.candidates < 0:
        got, expected = (shares.copies, shares.candidates), "copies of at least 1, candidates of at least 0"
        raise BadInput("a number out of range", got=got, expected=expected, where=_WHERE)
    if out.exists() and not (out.is_dir() and ((out / "data.json").is_file() or not any(out.iterdir()))):
        expected = "a new folder, or one that this command made"
        raise BadInput("something else is there", got=str(out), expected=expected, where="--out")


def _conversations(files: Sequence[Path], repairs: Repairs) -> Iterator[Conversation]:
    for path in files:
        if path.is_dir():
            yield from _recorded(path, repairs)
        elif path.is_file() and not path.stat().st_size:
            raise BadInput("the log is empty", got=str(path), expected="a conversation a line", where=_WHERE)
        else:
            yield from read_log(path, repairs)


def _recorded(folder: Path, repairs: Repairs) -> Iterator[Conversation]:
    """The attempts in a run folder; whether they succeeded is their outcome."""
    for number, record in enumerate(RunFolder.open(folder).read_episodes(), 1):
        for episode in linear([Episode.from_dict(record)]):
            nodes, where = list(episode.nodes), f"{folder.name}/episodes.jsonl:{number}"
            said = [
                {
                    **one,
                    "is_error": nodes[at].kind == "tool" and nodes[at].data.get("outcome") not in ("ok", "cut", None),
                }
                for at, one in messages(episode).items()
            ]
            fields = {"id": episode.id, "messages": said, "outcome": episode.success}
            events = chat.attempt(where, dump(fields).encode(), episode.id, fields, repairs.part()).events
            found = conversation(events, fields, where, repairs)
            if found.decisions:
                yield found
            else:
                repairs.add("attempts without a decision that calls, left out", where)


def _nothing(files: Sequence[Path], repairs: Repairs) -> BadInput:
    seen = [f"{what} ({n}, first {repairs.first[what]})" for what, n in repairs.counts.items()]
    return BadInput(
        "no decision could be read",
        got="; ".join(seen) or "nothing in these files",
        expected="JSON lines of messages with calls, or of query, tools and answers",
        where=", ".join(map(str, files[1:] or files)),
        do="other formats: evolvent import FILE --out runs/x, then that folder in place of the log",
    )


# ------------------------------------------------------------------------------------------------------- writing
def _training(rows: Sequence[Row], shares: Shares, form: str, seed: int, live: Live) -> list[dict[str, Any]]:
    mine = [row for row in rows if row.split == "train" and row.because]
    tell, made = (
        live.advancing(f"writing {count(len(mine) * shares.copies, 'row')} to train on"),
        list[dict[str, Any]](),
    )
    for copy in range(shares.copies):
        for row in mine:
            draw = random.Random(f"{seed}/{copy}/{row.id}")
            hidden = draw.random() < shares.mask
            one = masked(row, draw, scrub=shares.scrub, alphabet=shares.alphabet) if hidden else row
            made.append(training(one, form))
            tell(len(made) / (len(mine) * shares.copies))
    random.Random(f"{seed}/order").shuffle(made)
    return made


def _write(
    out: Path, rows: Sequence[Row], train: Sequence[Any], facts: dict[str, Any], said: Said, shares: Shares
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "rows.jsonl", "".join(json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows))
    write_atomic(out / "train.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in train))
    about = {**facts, **asdict(said), **asdict(shares), "rows": len(rows), "train": len(train)}
    write_atomic(out / "data.json", dump(about, indent=2) + "\n")


# ------------------------------------------------------------------------------------------------------- telling
def _tell(
    live: Live,
    out: Path,
    rows: Sequence[Row],
    train: Sequence[Any],
    found: Gathered,
    repairs: Repairs,
    irrelevant: float,
) -> None:
    right = [row for row in rows if row.because]
    live.table(f"{count(len(found.rows), 'decision')} → {out}", ["verdict", "decisions"], found.verdicts.most_common())
    if right:
        columns = ["split", "calls right", "no call right", "functions", "right call not known"]
        live.table("rows", columns, [_split_line(name, rows) for name in SPLITS])
    if repairs.counts:
        seen = [[what, n, repairs.first[what]] for what, n in repairs.counts.items()]
        live.table("left out or mended", ["what", "times", "first"], seen)
    hidden = sum(one["mask"] is not None for one in train)
    live.note(f"{out / 'train.jsonl'}: {count(len(train), 'row')} to train on, {hidden} of them with random names")
    for warning in _warnings(rows, right, irrelevant):
        live.note(f"! {warning}")
    quoted = shlex.quote(str(out))
    if right:
        live.note(f"next: evolvent check functions {quoted} --baselines")
        live.note(f"      evolvent run memlift --env functions:{quoted}")
        return
    live.note(
        "! nobody says which calls were right, so there is nothing to train on and no gold. Say it: a field outcome in "
        "each line, --accept (a result that is no error), or --judge FILE:FN. Until then these are tasks for memory or "
        f"reinforcement learning, paid by your judge: evolvent run memlift --env functions:{quoted},judge=FILE:FN"
    )


def _split_line(name: str, rows: Iterable[Row]) -> list[object]:
    mine = [row for row in rows if row.split == name]
    calls = [row for row in mine if row.because and row.gold]
    none = [row for row in mine if row.because and not row.gold]
    functions = {call["name"] for row in calls for call in row.gold}
    return [name, len(calls), len(none), len(functions), len(mine) - len(calls) - len(none)]


def _warnings(rows: Sequence[Row], right: Sequence[Row], irrelevant: float) -> Iterator[str]:
    known: dict[str, Tool] = {tool["name"]: tool for row in rows for tool in row.tools}
    if odd := sorted(name for name in known if not LEGAL.fullmatch(name)):
        shown = ", ".join(odd[:5])
        yield f"{count(len(odd), 'name')} that endpoints refuse (they take letters, digits, _ and -): {shown}"
    most = max(len(row.tools) for row in rows)
    if most > _MANY:
        size = max(len(json.dumps(row.tools)) for row in rows)
        yield f"a row lists up to {most} tools, about {size // 4:,} tokens: --candidates 8 lists fewer"
    if right and not any(not row.gold for row in right):
        yield "no row has it right to call nothing, so over-calling cannot be seen or learned" + (
            ": no tool could be taken away, as there is no other, or others do much the same"
            if irrelevant
            else ": --irrelevant .1"
        )
    for name in SPLITS:
        if right and not any(row.split == name for row in right):
            yield f"no row is {name}: too few conversations or functions, or the share is 0"


def _main(arguments: Sequence[str]) -> None:
    named = arguments[0] if arguments else "none"
    if named in ("-h", "--help"):
        sys.stdout.write("for example: evolvent data functions tools.json calls.jsonl --out fc/\n\n")
        sys.stdout.write(f"{_EXPECTED}\nSettings: evolvent data functions --help\n")
    elif named == "functions":
        parsed(functions, arguments[1:], _WHERE)
    elif named in _RECORDED:
        parsed(getattr(recorded, named), arguments[1:], f"evolvent data {named}")
    else:
        raise BadInput("unknown kind of data", got=named, expected=_EXPECTED, where="evolvent data")


COMMANDS = {"data": _main}
