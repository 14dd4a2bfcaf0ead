"""`evolvent import`: attempts that another harness recorded, as a run folder that every other command reads."""

from __future__ import annotations

import dataclasses
import json as json_text
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from tyro.conf import Positional, arg

from evolvent.cli import say
from evolvent.core.arguments import parsed
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, mask_secrets, write_atomic
from evolvent.evaluate.live import Live, count
from evolvent.traces.build import Options, build
from evolvent.traces.events import Attempt, Repairs, json_lines

_WHERE = "evolvent import"
ALGO = "import"
"""The system that ``config.json`` of such a folder names."""
Format = Literal["atif", "otel", "openai", "inspect", "verifiers"]
_READERS = {name: f"evolvent.traces.{name}" for name in ("atif", "otel", "inspect", "verifiers")} | {
    "openai": "evolvent.traces.chat"
}


@dataclasses.dataclass(frozen=True)
class _Known:
    """What stands in the folder already."""

    sha256: dict[str, str]
    lines: dict[str, dict[str, Any]]
    replaced: set[str] = dataclasses.field(default_factory=set[str])


def imported(
    files: Annotated[tuple[Path, ...], Positional],
    *,
    out: Path,
    from_: Annotated[Format | None, arg(name="from")] = None,
    task_key: str = "",
    reward: str = "",
    success: str = "",
    outcomes: Path | None = None,
    group: Literal["policy", "task"] = "policy",
    reasoning: bool = False,
    replace: bool = False,
    strict: bool = False,
    json: bool = False,
    plain: bool = False,
) -> None:
    """Attempts that another harness recorded become a run folder for `credit`, `runs`, `export` and `memory learn`.

    Importing a file again adds nothing. What is mended or left out is counted in the table.

    Args:
        files: trajectories, logs or folders of trials.
        out: run folder; a new one is made, one made by an import grows.
        from_: format: atif (Harbor), otel (spans of OpenTelemetry or OpenInference as OTLP JSON), openai (messages as
            JSON lines, also Responses and Anthropic), inspect (logs of inspect_ai), verifiers; default: seen from the
            files.
        task_key: where in a document the name of its task stands, e.g. metadata.task.
        reward: name of the score that pays, where there are several.
        success: when an attempt succeeded, e.g. ">=0.5"; default: as the file says, or a reward of 0 or 1.
        outcomes: JSON lines of {"id", "reward", "success"} for attempts whose files do not hold an outcome.
        group: which attempts at a task are compared: those of one policy, or all.
        reasoning: put what the model thought into the text of its actions.
        replace: an attempt that is known with another content is replaced.
        strict: refuse what would be mended.
        json: print the counts as JSON.
        plain: plain text output even on a terminal.
    """
    if not files:
        raise BadInput("no file", expected="FILE…", where=_WHERE)
    repairs = Repairs(strict=strict)
    options = Options(reward, success, task_key, group, reasoning, _outcomes(outcomes, repairs))
    if success:
        options.succeeded(0.0)
    new, folder = not (out / "config.json").exists(), _folder(out, files)
    counts = Counter[str]()
    names: list[str] = []
    agents, keys = set[str](), set[str]()
    with folder, folder.alone(), Live(plain=True if plain or json else None) as live:
        known = _known(folder, keep=replace)
        try:
            for attempt in _attempts(files, from_, repairs):
                episode = build(attempt, options)
                keys |= {attempt.key, episode.id}
                where = _add(folder, attempt, episode, known, replace)
                counts[where] += 1
                names += [f"{attempt.where} ({attempt.key})"] if where == "differ" else []
                _count(counts, episode)
                agents.update(episode.agents_T)
            if not counts:
                raise BadInput(
                    "no attempt could be read",
                    got=", ".join(f"{what} ({n})" for what, n in repairs.counts.items()) or "nothing in these files",
                    expected="recorded attempts: for openai one object with messages a line",
                    where=", ".join(dict.fromkeys(repairs.first.values())) or str(files[0]),
                )
        except EvolventError:
            if new and not counts["new"]:
                folder.remove()
            raise
        counts["agents"] = len(agents)
        _finish(folder, counts, known, [path.name for path in files])
        if json:
            data = {"run": str(out), **counts, "repairs": dict(repairs.counts), "differ": names}
            say(dump(data))
            return
        _tell(live, counts, repairs, names, f"{count(len(files), 'file')} → {out}")
        _tell_outcomes(live, counts, len(options.outcomes.keys() - keys), out)


# --------------------------------------------------------------------------------------------------------- reading
def _attempts(files: Sequence[Path], given: str | None, repairs: Repairs) -> Iterator[Attempt]:
    by_format: dict[str, list[Path]] = {}
    for path in files:
        by_format.setdefault(given or _format_of(path), []).append(path)
    for name, paths in by_format.items():
        reader = import_module(_READERS[name])
        if hasattr(reader, "read_all"):  # what belongs together may stand in several files
            yield from reader.read_all(paths, repairs)
        else:
            for path in paths:
                yield from reader.read(path, repairs)


def _format_of(path: Path) -> str:
    """The format, seen from the beginning of the file."""
    if path.is_dir():
        return "atif"
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise BadInput("cannot be read", got=error.strerror, expected="a file", where=str(path)) from error
    signs = (
        ("inspect", b"PK\x03\x04"),
        ("atif", b'"ATIF-v'),
        ("otel", b'"resourceSpans"'),
        ("otel", b'"resourceLogs"'),
    )
    signs += (
        ("verifiers", b'"sampled"'),
        ("inspect", b'"eval"'),
        ("openai", b'"messages"'),
        ("openai", b'"completion"'),
    )
    found = next((name for name, sign in signs if sign in head), "")
    if not found:
        do = f"say it: --from {'|'.join(get_args(Format))}"
        if not head.strip():
            raise BadInput("the file is empty", got=str(path), expected="recorded attempts", where=_WHERE)
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


def _known(folder: RunFolder, *, keep: bool) -> _Known:
    """What was imported before: content by attempt; ``keep`` its line, too, to be replaced."""
    sha256: dict[str, str] = {}
    lines: dict[str, dict[str, Any]] = {}
    for row in folder.read_episodes():
        sha256[row["id"]] = row["meta"]["source"]["sha256"]
        if keep:
            lines[row["id"]] = row
    return _Known(sha256, lines)


def _add(folder: RunFolder, attempt: Attempt, episode: Episode, known: _Known, replace: bool) -> str:
    """Write a new attempt; says whether it was new, known, differs, or replaced another content."""
    before = known.sha256.get(episode.id)
    old = known.lines.get(episode.id)
    if before is not None and (not replace or old is None):
        return "known" if before == attempt.sha256 else "differ"
    if old is not None:
        line: dict[str, Any] = json_text.loads(dump({"step": old["step"], **episode.to_dict()}))
        if line == old:
            return "known"
        known.lines[episode.id] = line
        known.replaced.add(episode.id)
    if attempt.original:
        place = folder.path / "source"
        place.mkdir(exist_ok=True)
        write_atomic(place / f"{attempt.sha256}.json", mask_secrets(attempt.original.decode("utf-8", "replace")))
    known.sha256[episode.id] = attempt.sha256
    if old is None:
        folder.episode(episode, step=len(known.sha256) - 1)
    return "new" if old is None else "replaced"


def _finish(folder: RunFolder, counts: Counter[str], known: _Known, files: Sequence[str]) -> None:
    """What was replaced, a line for an import that changed something, and the summary: what the folder holds."""
    if known.replaced:
        folder.close()
        rows = [known.lines[row["id"]] if row["id"] in known.replaced else row for row in folder.read_episodes()]
        write_atomic(folder.path / "episodes.jsonl", "".join(dump(row) + "\n" for row in rows))
    if counts["new"] or counts["replaced"]:
        folder.log(folder.step + 1, new=counts["new"], replaced=counts["replaced"])
    ends = [row["ends"][0]["success"] for row in folder.read_episodes()]
    told = [success for success in ends if success is not None]
    score = {"name": "success", "value": sum(told) / len(told), "higher_is_better": True} if told else None
    before = folder.summary().get("files", []) if folder.finished else []
    added = files if not before or counts["new"] or counts["replaced"] else []
    summary = {"attempts": len(ends), "with_outcome": len(told), "files": list(dict.fromkeys([*before, *added]))}
    summary |= {"score": score} if score else {}
    if not folder.finished or folder.summary() != summary:
        folder.write_summary(summary)


# --------------------------------------------------------------------------------------------------------- telling
def _count(counts: Counter[str], episode: Episode) -> None:
    steps, ids = episode.n_steps, episode.tokens_per_step_T
    counts["decisions"] += steps
    counts["decisions with text"] += sum(bool(node.text) for node in episode.nodes if node.step is not None)
    counts["decisions with token ids"] += int((ids > 0).sum())
    logp = episode.logp == episode.logp
    counts["decisions with log-probabilities"] += len(set(episode.token_step[logp].tolist()))
    counts["attempts with an outcome"] += episode.valid
    counts["tools"] += sum(node.kind == "tool" for node in episode.nodes)


def _tell(live: Live, counts: Counter[str], repairs: Repairs, names: Sequence[str], title: str) -> None:
    words = ("new", "known", "replaced", "differ")
    rows: list[list[object]] = [["attempts", ", ".join(f"{counts[w]} {w}" for w in words if counts[w] or w == "new")]]
    rows += [[name, n] for name, n in counts.items() if name not in words]
    live.table(title, ["", "value"], rows)
    if repairs.counts:
        found = [[what, n, repairs.first[what]] for what, n in repairs.counts.items()]
        live.table("mended, left out or missing", ["what", "times", "first"], found)
    if steps := counts["decisions"]:
        if not counts["decisions with token ids"]:
            live.note(f"! 0 of {steps} decisions have token ids: credit by step works, by token it does not")
        if not counts["decisions with text"]:
            live.note(f"! 0 of {steps} decisions have text: credit by step works, `memory learn` has nothing to learn")
    for name in names[:10]:
        live.note(f"! {name} is known with another content: left as it is (--replace)")


def _tell_outcomes(live: Live, counts: Counter[str], strange: int, out: Path) -> None:
    if strange:
        live.note(f"! {count(strange, 'outcome')} of attempts that are not in these files (--outcomes)")
    if counts["attempts with an outcome"]:
        live.note(f"next: evolvent credit {shlex.quote(str(out))} --rule step_leave_one_out")
    else:
        live.note("! no attempt has an outcome, so none earns credit: tell them with --outcomes FILE.jsonl")


def _main(arguments: Sequence[str]) -> None:
    parsed(imported, arguments, _WHERE)


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {"import": _main}
