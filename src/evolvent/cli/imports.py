"""`evolvent import`: attempts that another harness recorded, as a run folder that every other command reads."""

from __future__ import annotations

import json as json_text
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from tyro.conf import OmitArgPrefixes, Positional, arg

from evolvent.cli import say
from evolvent.core.arguments import parsed
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, mask_secrets, write_atomic
from evolvent.evaluate.live import Live, count
from evolvent.traces.build import build
from evolvent.traces.events import MAX_ATTEMPTS, Attempt, Repairs, json_lines
from evolvent.traces.outcome import Flags, Options

_WHERE = "evolvent import"
ALGO = "import"
"""The system that ``config.json`` of such a folder names."""
Format = Literal["atif", "otel", "openai", "inspect", "verifiers"]
_READERS = {name: f"evolvent.traces.{name}" for name in ("atif", "otel", "inspect", "verifiers")} | {
    "openai": "evolvent.traces.chat"
}


_SIGNS = {
    b"PK\x03\x04": "inspect",
    b'"ATIF-v': "atif",
    b'"resourceSpans"': "otel",
    b'"resourceLogs"': "otel",
    b'"sampled"': "verifiers",
    b'"eval"': "inspect",
    b'"messages"': "openai",
    b'"completion"': "openai",
}
"""What tells a format in the beginning of a file; the first one that is there counts."""


def imported(
    files: Annotated[tuple[Path, ...], Positional],
    *,
    out: Path,
    from_: Annotated[Format | None, arg(name="from")] = None,
    read: OmitArgPrefixes[Flags] = Flags(),
    outcomes: Path | None = None,
    replace: bool = False,
    strict: bool = False,
    json: bool = False,
    plain: bool = False,
) -> None:
    """Attempts that another harness recorded become a run folder for `credit`, `runs`, `export` and `memory learn`.

    Example: evolvent import trials/ --from atif --out runs/imported

    Importing a file again adds nothing. What is mended or left out is counted in the table.

    Args:
        files: trajectories, logs or folders of trials.
        out: run folder; a new one is made, one made by an import grows.
        from_: format: atif (Harbor), otel (spans of OpenTelemetry or OpenInference as OTLP JSON), openai (messages as
            JSON lines, also Responses and Anthropic), inspect (logs of inspect_ai), verifiers; default: seen from the
            files.
        read: how they are read.
        outcomes: JSON lines of {"id", "reward", "success"} for attempts whose files do not hold an outcome.
        replace: an attempt that is known with another content is replaced.
        strict: refuse what would be mended.
        json: print the counts as JSON.
        plain: plain text output even on a terminal.
    """
    if not files:
        raise BadInput("no file", expected="FILE…", where=_WHERE)
    repairs = Repairs(strict=strict)
    options = Options(**vars(read), outcomes=_outcomes(outcomes, repairs))
    if read.success:
        options.succeeded(0.0)
    new, folder = not (out / "config.json").exists(), _folder(out, files)
    with folder, folder.alone(), Live(plain=True if plain or json else None) as live:
        into = _Import(folder, replace)
        try:
            for attempt in _attempts(files, from_, repairs):
                into.add(attempt, options, repairs)
            if not into.counts:
                raise BadInput(
                    "no attempt could be read",
                    got=", ".join(f"{what} ({n})" for what, n in repairs.counts.items()) or "nothing in these files",
                    expected="recorded attempts: for openai one object with messages a line",
                    where=", ".join(dict.fromkeys(repairs.first.values())) or str(files[0]),
                )
        except EvolventError:
            if new and not into.counts["new"]:
                folder.remove()
            raise
        into.finish([path.name for path in files])
        if json:
            data = {"run": str(out), **into.counts, "agents": len(into.agents), "repairs": dict(repairs.counts)}
            say(dump({**data, "differ": into.differ}))
            return
        _tell(live, into, repairs, f"{count(len(files), 'file')} → {out}")
        if strange := len(options.outcomes.keys() - into.keys):
            live.note(f"! {count(strange, 'outcome')} of attempts that are not in these files (--outcomes)")
        if into.counts["attempts with an outcome"]:
            live.note(f"next: evolvent credit {shlex.quote(str(out))} --rule step_leave_one_out")
        else:
            live.note("! no attempt has an outcome, so none earns credit: tell them with --outcomes FILE.jsonl")


# --------------------------------------------------------------------------------------------------------- reading
def _attempts(files: Sequence[Path], given: str | None, repairs: Repairs) -> Iterator[Attempt]:
    by_format: dict[str, list[Path]] = {}
    for path in files:
        by_format.setdefault(given or _format_of(path), []).append(path)
    for name, paths in by_format.items():
        reader = import_module(_READERS[name])
        together = hasattr(reader, "read_all")  # what belongs together may stand in several files
        for found in [reader.read_all(paths, repairs)] if together else [reader.read(path, repairs) for path in paths]:
            yield from islice(found, MAX_ATTEMPTS)
            if (more := next(found, None)) is not None:
                repairs.add(f"attempts after the first {MAX_ATTEMPTS:,} left out", more.where)


def _format_of(path: Path) -> str:
    """The format, seen from the beginning of the file."""
    if path.is_dir():
        return "atif"
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise BadInput("cannot be read", got=error.strerror, expected="a file", where=str(path)) from error
    if not head.strip():
        raise BadInput("the file is empty", got=str(path), expected="recorded attempts", where=_WHERE)
    found = next((name for sign, name in _SIGNS.items() if sign in head), "")
    if not found:
        do = f"say it: --from {'|'.join(get_args(Format))}"
        raise BadInput("the format is not seen from the file", got=str(path), where=_WHERE, do=do)
    return found


def _outcomes(path: Path | None, repairs: Repairs) -> dict[str, Any]:
    rows = [] if path is None else [row for _, _, row in json_lines(path, repairs) if isinstance(row, dict)]
    return {str(row["id"]): row for row in rows if "id" in row}


# --------------------------------------------------------------------------------------------------------- writing
def _folder(out: Path, files: Sequence[Path]) -> RunFolder:
    if not (out / "config.json").exists():
        config = {"files": [path.name for path in files]}
        command = f"evolvent import {shlex.join(path.name for path in files)}"
        return RunFolder.create(out, algo=ALGO, config=config, env="imported", seed=0, command=command)
    folder = RunFolder.open(out)
    if folder.manifest()["algo"] != ALGO:
        expected = "a new folder, or one made by an import"
        raise BadInput("a run is in this folder", got=folder.manifest()["algo"], expected=expected, where="--out")
    return folder


class _Import:
    """The folder that grows, and what was counted.

    Attributes:
        counts: attempts by what became of them, and what they hold.
        differ: names of those that are known with another content, which was left.
        keys: by which outcomes can name those that were read.
    """

    def __init__(self, folder: RunFolder, replace: bool) -> None:
        self.folder, self.replace = folder, replace
        self.counts, self.differ = Counter[str](), list[str]()
        self.keys, self.agents = set[str](), set[str]()
        self._known = {row["id"]: row["meta"]["source"]["sha256"] for row in folder.read_episodes()}
        self._changed: dict[str, dict[str, Any]] = {}

    def add(self, attempt: Attempt, options: Options, repairs: Repairs) -> None:
        """Write an attempt that is new, or differs from what is known where that is to be replaced."""
        try:
            episode = build(attempt, options)
        except BadInput as error:
            if repairs.strict:
                raise
            repairs.add(f"attempts left out: {error.what}", error.where or attempt.where)
            return
        self.keys |= {attempt.key, episode.id}
        what = self._write(attempt, episode)
        self.counts[what] += 1
        self.differ += [f"{attempt.where} ({attempt.key})"] if what == "differ" else []
        self.agents.update(episode.agents_T)
        actions = [bool(node.text) for node in episode.nodes if node.step is not None]
        logp = episode.token_step[episode.logp == episode.logp]
        self.counts["decisions"] += len(actions)
        self.counts["decisions with text"] += sum(actions)
        self.counts["decisions with token ids"] += int((episode.tokens_per_step_T > 0).sum())
        self.counts["decisions with log-probabilities"] += len(set(logp.tolist()))
        self.counts["attempts with an outcome"] += episode.valid
        self.counts["tools"] += sum(node.kind == "tool" for node in episode.nodes)

    def _write(self, attempt: Attempt, episode: Episode) -> str:
        before = self._known.get(episode.id)
        if before is not None and not self.replace:
            return "known" if before == attempt.sha256 else "differ"
        if attempt.original:
            place = self.folder.path / "source"
            place.mkdir(exist_ok=True)
            write_atomic(place / f"{attempt.sha256}.json", mask_secrets(attempt.original.decode("utf-8", "replace")))
        self._known[episode.id] = attempt.sha256
        if before is None:
            self.folder.episode(episode, step=len(self._known) - 1)
            return "new"
        self._changed[episode.id] = json_text.loads(dump(episode.to_dict()))
        return "replaced"

    def finish(self, files: Sequence[str]) -> None:
        """What was replaced, a line for an import that changed something, and the summary: what the folder holds."""
        folder, counts = self.folder, self.counts
        if self._changed:
            folder.close()
            rows, changed = list(folder.read_episodes()), 0
            for i, row in enumerate(rows):
                ours = {"step": row["step"], **self._changed.get(row["id"], row)}
                changed += ours != row
                rows[i] = ours
            counts["known"] += counts["replaced"] - changed  # with the same content
            counts["replaced"] = changed
            if changed:
                write_atomic(folder.path / "episodes.jsonl", "".join(dump(row) + "\n" for row in rows))
        if counts["new"] or counts["replaced"]:
            folder.log(folder.step + 1, new=counts["new"], replaced=counts["replaced"])
        ends = [row["ends"][0]["success"] for row in folder.read_episodes()]
        told = [success for success in ends if success is not None]
        before = folder.summary().get("files", []) if folder.finished else []
        added = files if not before or counts["new"] or counts["replaced"] else []
        summary = {"attempts": len(ends), "with_outcome": len(told), "files": list(dict.fromkeys([*before, *added]))}
        if told:
            summary["score"] = {"name": "success", "value": sum(told) / len(told), "higher_is_better": True}
        if not folder.finished or folder.summary() != summary:
            folder.write_summary(summary)


# --------------------------------------------------------------------------------------------------------- telling
def _tell(live: Live, into: _Import, repairs: Repairs, title: str) -> None:
    counts, words = into.counts, ("new", "known", "replaced", "differ")
    rows: list[list[object]] = [["attempts", ", ".join(f"{counts[w]} {w}" for w in words if counts[w] or w == "new")]]
    rows += [[name, n] for name, n in counts.items() if name not in words]
    live.table(title, ["", "value"], [*rows, ["agents", len(into.agents)]])
    if repairs.counts:
        found = [[what, n, repairs.first[what]] for what, n in repairs.counts.items()]
        live.table("mended, left out or missing", ["what", "times", "first"], found)
    if steps := counts["decisions"]:
        if not counts["decisions with token ids"]:
            live.note(f"! 0 of {steps} decisions have token ids: credit by step works, by token it does not")
        if not counts["decisions with text"]:
            live.note(f"! 0 of {steps} decisions have text: credit by step works, `memory learn` has nothing to learn")
    for name in into.differ[:10]:
        live.note(f"! {name} is known with another content: left as it is (--replace)")


def _main(arguments: Sequence[str]) -> None:
    parsed(imported, arguments, _WHERE)


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {"import": _main}
