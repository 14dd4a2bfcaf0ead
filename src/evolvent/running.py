"""Runs and comparisons from Python: ``evolvent.run`` and ``evolvent.compare``; the command line calls the same.

result = evolvent.run("memlift", env="analyst", model="qwen2.5-coder-1.5b", seed=3, out="runs/first", passes=2)
result.summary["score"], result.folder
evolvent.compare(["runs/first", "runs/second"])
"""

from __future__ import annotations

import dataclasses
import io
import os
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolvent import catalogue
from evolvent.core import config as configs
from evolvent.core import outside, sources
from evolvent.core.errors import BadInput
from evolvent.core.folder import ERROR, Interrupted, RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate import blocks, mirrors
from evolvent.evaluate.blocks import Page
from evolvent.evaluate.live import Live
from evolvent.evaluate.outcome import tell
from evolvent.evaluate.pages.report import report
from evolvent.evaluate.scores import check_score
from evolvent.runs.kind import Kind
from evolvent.runs.sources import TASKS


@dataclass(frozen=True)
class Result:
    """What a run left: its folder, and the content of its ``summary.json``."""

    folder: Path
    summary: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Where:
    """Where a run goes."""

    seeds: tuple[int, ...] = ()
    """Run once for each of these seeds, in folders inside --out, and compare at the end."""
    out: Path | None = None
    """Run folder; default runs/ALGO-ENV-SEED-TIME."""
    resume: Path | None = None
    """Resume the run in this folder, with its own settings."""
    log: str = ""
    """Also write the metrics to a tracker: tensorboard (into the run folder), trackio, or wandb."""


def run(
    system: str | os.PathLike[str],
    *,
    seeds: Sequence[int] = (),
    out: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    log: str = "",
    quiet: bool = False,
    **fields: Any,
) -> Result | list[Result]:
    """Run a system as ``evolvent run`` does: the same checks, the same folder, the same errors.

    Args:
        system: a name of ``evolvent list algos``, or a Python file with one.
        seeds: several seeds: one folder each inside ``out``, and a comparison at the end.
        out: the run folder; ``runs/SYSTEM-ENV-SEED-TIME`` by default.
        resume: the folder of a run to go on with, with its own settings.
        log: a tracker that gets the metrics, too: "tensorboard", "trackio" or "wandb".
        quiet: print nothing.
        **fields: settings by the names of their flags: ``env``, ``model``, ``seed``, ``eval_every``, …

    Returns:
        The folder and the summary of the run; of several seeds a list of them.

    Raises:
        BadInput: what the command line refuses.
        KeyboardInterrupt: Ctrl-C, after what was done is saved; its text says how to go on. No ``except Exception``
            around a call, as in a sweep, takes it for a failed run.
    """
    found = catalogue.system(os.fspath(system))
    where = Where(tuple(seeds), _path(out), _path(resume), log)
    stored = stored_config(found, where.resume)
    options = {"seeds": where.seeds, "out": where.out, "resume": where.resume}
    given = [f"{key}={str(value) if isinstance(value, Path) else value!r}" for key, value in options.items() if value]
    call = ", ".join([repr(found.asked), *given, *(f"{key}={value!r}" for key, value in fields.items())])
    config = configs.with_fields(found.settings() if stored is None else stored, **fields)
    config = configs.from_json(found.Config, configs.to_json(config))  # checks the types
    with _live(quiet) as live:
        made = start(found, config, where, f"evolvent.run({call})", live)
    results = [Result(path, RunFolder.open(path).summary()) for path in made]
    return results if seeds else results[0]


def compare(
    folders: Sequence[str | os.PathLike[str]], *, html: str | os.PathLike[str] | None = None, quiet: bool = False
) -> list[Any]:
    """Compare runs as ``evolvent compare`` does; the first folder is the reference.

    Args:
        folders: run folders, or folders of run folders: one arm with several seeds.
        html: a file for the page with curves.
        quiet: print nothing.

    Returns:
        ``evaluate.compare.Standing`` of each arm: score, interval, and what it says against the reference.

    Raises:
        BadInput: nothing to compare, or runs that cannot be.
    """
    with _live(quiet) as live:
        return compare_folders([Path(folder) for folder in folders], _path(html), live)


def compare_folders(folders: Sequence[Path], html: Path | None, live: Live) -> list[Any]:
    """Print the comparison of run folders, and write its page where ``html`` says."""
    from evolvent.evaluate import compare as comparison

    if not folders:
        raise BadInput("nothing to compare", expected="run folders", where="evolvent compare")
    standings = comparison.compare(comparison.load(folders, page_of, live.note))
    comparison.show(standings, live)
    if html is not None:
        from evolvent.evaluate.pages.compare_page import write_html

        live.note(f"page: {write_html(standings, html)}")
    return standings


# ------------------------------------------------------------------------------------------------------- pages
def page_of(folder: RunFolder, kind: Kind | None = None) -> Page:
    """What a run tells of itself: as it wrote it at its end, or as its kind reads it from its files now.

    ``kind``: where the caller knows it; else what ``config.json`` says.
    """
    kind = kind or catalogue.kind_of(folder)
    if folder.finished and (written := blocks.read(folder.path)) is not None:
        return written
    return _account(kind, folder)


def _account(kind: Kind, folder: RunFolder) -> Page:
    """The page of a run by its kind; the plain one where that cannot be made, or read: a run keeps what it came to."""
    try:
        return _checked(dataclasses.replace(kind.account(folder), kind=kind.title))
    except Exception as error:  # noqa: BLE001 - an account may be anybody's, and the work is done
        text = f"The page of a run of the kind {kind.name!r} could not be made: {type(error).__name__}: {error}"
        home = getattr(getattr(kind.account, "__code__", None), "co_filename", "")
        line = blocks.Text((f"{text} ({outside.line_of(error, home)})",), "bad", said=True)
    try:
        page = catalogue.kind("").account(folder)
        return _checked(dataclasses.replace(page, kind=kind.title, blocks=(*page.blocks, line)))
    except Exception:  # noqa: BLE001 - the metrics, too, may be anything
        return Page(kind.title, (line,))


def _checked(page: Page) -> Page:
    """A page as it is when it is read again.

    Raises:
        BadInput: it could not be.
    """
    read = blocks.loads(blocks.dumps(page))
    if read is None:
        raise BadInput(
            "not a page", got=type(page).__name__, expected="evolvent.evaluate.blocks.Page", where="account()"
        )
    return read


def write_report(path: Path, kind: Kind | None = None) -> Path:
    """Write ``page.json`` and ``report.html`` of a run from its files, whether it has ended or not; the report's path.

    ``kind``: as in ``page_of``.
    """
    folder = RunFolder.open(path)
    kind = kind or catalogue.kinds().get(catalogue.kind_of(folder).name)
    # a kind that only the file of its system describes: as that wrote it
    written = blocks.read(folder.path) if kind is None and folder.finished else None
    page = written or (page_of(folder) if kind is None else _account(kind, folder))
    if written is None:  # what this version does not know stays in the file
        blocks.write(Path(path), page)
    html = Path(path) / "report.html"
    write_atomic(html, report(folder, page))
    return html


def stored_config(found: catalogue.System, resume: Path | None) -> Any:
    """The configuration in the folder of a run to go on with, or ``None``; it must be a run of this system."""
    if resume is None:
        return None
    if not (resume / "config.json").exists() and list(resume.glob("seed-*/config.json")):
        resume = sorted(resume.glob("seed-*"))[0]
    folder = RunFolder.open(resume)
    _check_same(folder, found)  # before its settings are read as those of another system
    return configs.from_json(found.Config, folder.config)


# -------------------------------------------------------------------------------------------------------- starting
def start(found: catalogue.System, config: Any, where: Where, command: str, live: Live) -> list[Path]:
    """Start or continue what is asked for; the run folders.

    Raises:
        BadInput: settings that do not fit together.
        KeyboardInterrupt: it was stopped by Ctrl-C; its text says how to go on.
    """
    _check_resume(where)
    if where.seeds:
        return _run_seeds(found, config, where, command, live)
    return [_run_one(found, config, where, command, live)]


def _again(found: catalogue.System, folder: Path, *arguments: object) -> str:
    """The command that goes on with a run."""
    return shlex.join(map(str, ["evolvent", "run", found.asked, "--resume", folder, *arguments]))


def _check_resume(where: Where) -> None:
    """A resumed run stays in its folder; that of several seeds is asked for with its seeds."""
    if where.resume is None:
        return
    if where.out is not None:
        raise BadInput(
            "a resumed run stays in its folder", got=f"--out {where.out}", where="--resume", do="leave --out out"
        )
    names = [path.parent.name[5:] for path in where.resume.glob("seed-*/config.json")]
    seeds = " ".join(sorted(filter(str.isdecimal, names), key=int))
    if where.seeds and (where.resume / "config.json").exists():
        got, do = "one run", "leave --seeds out"
    elif not where.seeds and seeds:
        got, do = f"runs of the seeds {seeds}", f"--seeds {seeds}"
    else:
        if not seeds:
            RunFolder.open(where.resume)  # or what is wrong with it
        return
    raise BadInput("the folder holds something else", got=got, where=f"--resume {where.resume}", do=do)


def _run_one(found: catalogue.System, config: Any, where: Where, command: str, live: Live, again: str = "") -> Path:
    out, resume = where.out, where.resume
    tracker = mirrors.tracker(where.log) if where.log else None  # one that is missing is missed before a run begins
    name, env, seed = found.name, str(getattr(config, "env", "")), int(getattr(config, "seed", 0))
    changed: dict[str, tuple[Any, Any]] = {}
    if resume is None:
        check_env(found.Config, env)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = out or Path("runs") / f"{name}-{_short(env)}-{seed}-{stamp}"
        fields = configs.to_json(config)
        paper = str(getattr(found.module, "PAPER", ""))
        folder = RunFolder.create(
            path, algo=name, config=fields, env=env, seed=seed, command=command, kind=found.kind.name, paper=paper
        )
        if found.file is not None:
            sources.save_copy(folder.path / catalogue.SYSTEM, found.file, system=found.asked)
    else:
        folder = RunFolder.open(resume)
        _check_same(folder, found)
        if changed := _changed(folder, config):
            folder.extend(configs.to_json(config), changed, command)
    live.note(f"{name} on {env or '–'}, seed {seed} → {folder.path}")
    if folder.error:
        live.note(
            f"! it had ended with an error: {folder.error.partition(chr(10))[0]}; your files count as they are now"
        )
    if resume is not None and folder.finished and not changed:
        # written again: it may have been stopped between its last number and its last page
        more = "".join(f"; {configs.flag(path)} makes it go on" for path, _ in getattr(config, "EXTENDABLE", ())[:1])
        live.note(f"this run has ended; nothing to do{more}\n\nreport: {write_report(folder.path, found.kind)}")
        return folder.path
    again = again or _again(found, folder.path)
    with folder, folder.alone(), mirrors.mirrored(folder, tracker):
        try:
            with found.faults():
                summary = found.module.run(config, folder, live, resume=resume is not None)
            _check_summary(summary, found)
        except KeyboardInterrupt as error:
            live.close()
            if isinstance(error, Interrupted):
                live.note(f"report so far: {write_report(folder.path, found.kind)}")
            raise KeyboardInterrupt(f"stopped; the run stands in {folder.path}\n  do: {again}") from error
        except Exception as error:
            _failed(folder, error, again, new=resume is None)
            raise
        folder.write_summary(summary)
    live.close()
    html = write_report(folder.path, found.kind)
    ended = RunFolder.open(folder.path)
    tell(ended, page_of(ended, found.kind), live, html)
    return folder.path


def _changed(folder: RunFolder, config: Any) -> dict[str, tuple[Any, Any]]:
    """What a resumed run is given anew: its total at most; all other settings stay as they are.

    ``EXTENDABLE`` of a configuration names such fields, each with the column of the metrics that says how far it is.

    Raises:
        BadInput: another setting differs, or the new total is less than what is done.
    """
    where, may = f"{folder.path}/config.json", dict(getattr(config, "EXTENDABLE", ()))
    changed = configs.diff(configs.from_json(type(config), folder.config), config)
    if other := {path: values for path, values in changed.items() if path not in may}:
        changes = ", ".join(f"{path} {old!r} → {new!r}" for path, (old, new) in other.items())
        total = f"; {' and '.join(map(configs.flag, may))} may change" if may else ""
        raise BadInput(
            "a resumed run keeps its settings",
            got=changes,
            expected=f"the settings in {where}{total}",
            where="--resume",
            do="leave these flags out, or start a new run",
        )
    for path, (_, new) in changed.items():
        done, endless = _done(folder, may[path])
        if new < done and not (endless and new == 0):
            raise BadInput(
                "the run has done more than that",
                got=f"{configs.flag(path)} {new}",
                expected=f"at least {done}",
                where=str(folder.path),
                do="give a larger total, or start a new run",
            )
    return changed


def _done(folder: RunFolder, column: str) -> tuple[float, bool]:
    """How far a run is by a column of its metrics, in the unit of the setting, and whether 0 of it is no limit."""
    column_N = [row[column] for row in folder.read_metrics() if column in row]
    if column == "t":
        return max(column_N, default=0.0) / 60, True
    if column == "sampled_tokens":  # of single updates
        return sum(column_N), True
    return max(column_N, default=0), False


def _run_seeds(found: catalogue.System, config: Any, where: Where, command: str, live: Live) -> list[Path]:
    name = found.name
    if not any(one.name == "seed" for one in dataclasses.fields(config)):
        raise BadInput("this algorithm has no seed", got=f"--seeds {where.seeds}", where=name, do="leave --seeds out")
    if len(set(where.seeds)) < len(where.seeds):
        raise BadInput("a seed is given twice", got=where.seeds, expected="distinct seeds", where="--seeds")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    env = _short(str(getattr(config, "env", "")))
    parent = where.resume or where.out or Path("runs") / f"{name}-{env}-seeds-{stamp}"
    runs = {parent / f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in where.seeds}
    known = {child for child in runs if (child / "config.json").exists()}
    if known and where.resume is None:
        do = shlex.join(["--resume", str(parent)])
        raise BadInput("the run folder is not empty", got=str(min(known)), where="--out", do=do)
    changed: dict[str, tuple[Any, Any]] = {}
    for child in known:  # all of them before the first goes on
        _check_same(folder := RunFolder.open(child), found)
        changed |= _changed(folder, runs[child])
    flags = [word for path, (_, new) in changed.items() for word in (configs.flag(path), new)]
    again = _again(found, parent, "--seeds", *where.seeds, *flags)
    for child, one in runs.items():
        out, resume = (None, child) if child in known else (child, None)
        _run_one(found, one, dataclasses.replace(where, seeds=(), out=out, resume=resume), command, live, again)
    compare_folders([parent], parent / "compare.html", live)
    for child in runs:
        write_report(child, found.kind)  # again, with the way to the comparison
    return list(runs)


def check_env(kind: type[Any], spec: str) -> None:
    """A wrong name, option or kind of environment (``spec``; "" = none) fails before anything is loaded or written.

    Raises:
        BadInput: what is wrong with it.
    """
    from evolvent import envs

    if spec:
        envs.check(spec, catalogue.kind(getattr(kind, "KIND", "")).envs, "--env")


def _check_same(folder: RunFolder, found: catalogue.System) -> None:
    """The run in the folder is one of this system; files of yours may have changed where there was an error to mend."""
    if folder.error or not (folder.path / "metrics.jsonl").exists():
        sources.renew(folder.path / catalogue.SYSTEM, folder.step, found.file)
        sources.renew(folder.path / TASKS, folder.step)
    manifest = folder.manifest()
    note = sources.note(folder.path / catalogue.SYSTEM)
    again = shlex.quote(note["file"] if note else manifest["algo"])
    if manifest["algo"] != found.name or (note is None) != (found.file is None):
        raise BadInput(
            "the folder holds a run of another algorithm",
            got=found.asked,
            expected=manifest["algo"],
            where="--resume",
            do=f"evolvent run {again} --resume {shlex.quote(str(folder.path))}",
        )
    if found.file is not None:
        sources.original(folder.path / catalogue.SYSTEM, "the file of the run's system", found.file)


def _check_summary(summary: object, found: catalogue.System) -> None:
    if not isinstance(summary, dict):
        raise BadInput(
            "run() must return the summary of the run",
            got=type(summary).__name__,
            where=found.asked,
            expected='a dictionary: {"algo", "env", "seed", "score": {"name", "value", "ci95", "higher_is_better"}, …}',
        )
    check_score(summary.get("score"), found.asked)


def _failed(folder: RunFolder, error: Exception, again: str, *, new: bool) -> None:
    """A new run that failed before its first task leaves nothing behind; one that had begun says how it goes on."""
    with suppress(OSError):  # a full disk: what could not be written is reported already
        folder.close()
    ours = {"config.json", "task", "system", "memory.db", "memory.db-wal", "memory.db-shm"}
    if new and not folder.touched and {path.name for path in folder.path.iterdir()} <= ours:
        folder.remove()
    elif new or folder.touched:  # otherwise it was refused to go on, and stands as it stood
        trace = ""
        with suppress(OSError):
            folder.fail(error)
            trace = f" (traceback: {ERROR})"
        error.add_note(f"  run: stands in {folder.path}{trace}; when that is mended, it goes on with\n       {again}")


def _short(env: str) -> str:
    """An environment's name as a part of the name of a folder."""
    return Path(env.partition(":")[0]).stem or "none"


def _path(text: str | os.PathLike[str] | None) -> Path | None:
    return None if text is None else Path(text)


def _live(quiet: bool) -> Live:
    return Live(plain=True, stream=io.StringIO()) if quiet else Live(plain=True)
