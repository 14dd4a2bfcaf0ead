"""`evolvent run`: one run, or one run a seed and their comparison."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from evolvent import catalogue
from evolvent.cli import Interruption, say
from evolvent.cli.judge import compare_folders
from evolvent.core import config as configs
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.evaluate.live import Live, interval, judged_on, percent


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where a run goes."""

    seeds: tuple[int, ...] = ()
    """Several seeds: one folder each inside --out, and a comparison at the end."""
    out: Path | None = None
    """The run folder; runs/ALGO-ENV-SEED-TIME by default."""
    resume: Path | None = None
    """Continue the run in this folder with its own settings."""
    plain: bool = False
    """Plain lines even on a terminal."""


def main(words: list[str]) -> None:
    """Start, or continue, what the words after `evolvent run` ask for."""
    if not words or words[0].startswith("-"):
        names = "\n".join(f"  {e.name:12} {e.summary}" for e in catalogue.entries("algos"))
        say(f"usage: evolvent run ALGO [--field value ...]; `evolvent run ALGO --help` shows the fields\n\n{names}")
        sys.exit(0 if words and words[0] in ("-h", "--help") else 2)
    name, *rest = words
    module = catalogue.algorithm(name)
    stored = _stored_config(module.Config, name, rest)
    options, config = _parse_run(module.Config, name, rest, stored)
    _check_resume(options)
    command = shlex.join(["evolvent", "run", *words])
    with Live(plain=True if options.plain else None) as live:
        if options.seeds:
            _run_seeds(module, name, config, options, command, live)
        else:
            _run_one(module, name, config, options.out, options.resume, command, live)


def _parse_run(kind: type, name: str, words: Sequence[str], stored: Any) -> tuple[RunOptions, Any]:
    """Options and configuration from the command line; those of a resumed run are the defaults."""
    hidden = tyro.conf.OmitArgPrefixes
    default = stored if stored is not None else kind()
    parsed: Any = tyro.cli(
        dataclasses.make_dataclass(
            "Run",
            [
                ("config", Annotated[kind, hidden], dataclasses.field(default_factory=lambda: default)),
                ("run", Annotated[RunOptions, hidden], dataclasses.field(default_factory=RunOptions)),
            ],
        ),
        args=list(words),
        prog=f"evolvent run {name}",
        description=(sys.modules[kind.__module__].__doc__ or "").strip(),
    )
    return parsed.run, parsed.config


def _stored_config(kind: type, name: str, words: Sequence[str]) -> Any:
    """The configuration in the folder named by --resume, or ``None``; the folder must hold a run of ``name``."""
    for i, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == "--resume" and (equals or i + 1 < len(words)):
            path = Path(value if equals else words[i + 1])
            if not (path / "config.json").exists() and list(path.glob("seed-*/config.json")):
                path = sorted(path.glob("seed-*"))[0]
            folder = RunFolder.open(path)
            _check_same(folder, name)  # before its settings are read as those of another algorithm
            return configs.from_json(kind, folder.config)
    return None


def _check_resume(options: RunOptions) -> None:
    """A resumed run stays in its folder; that of several seeds is asked for with its seeds."""
    if options.resume is None:
        return
    if options.out is not None:
        raise BadInput(
            "a resumed run stays in its folder", got=f"--out {options.out}", where="--resume", do="leave --out out"
        )
    names = [path.parent.name[5:] for path in options.resume.glob("seed-*/config.json")]
    seeds = " ".join(sorted(filter(str.isdecimal, names), key=int))
    if options.seeds and (options.resume / "config.json").exists():
        got, do = "one run", "leave --seeds out"
    elif not options.seeds and seeds:
        got, do = f"runs of the seeds {seeds}", f"--seeds {seeds}"
    else:
        if not seeds:
            RunFolder.open(options.resume)  # or what is wrong with it
        return
    raise BadInput("the folder holds something else", got=got, where=f"--resume {options.resume}", do=do)


def _run_one(
    module: Any, name: str, config: Any, out: Path | None, resume: Path | None, command: str, live: Live
) -> Path:
    env, seed = str(getattr(config, "env", "")), int(getattr(config, "seed", 0))
    changed: dict[str, tuple[Any, Any]] = {}
    if resume is None:
        _check_env(env)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = out or Path("runs") / f"{name}-{env.partition(':')[0] or 'none'}-{seed}-{stamp}"
        fields = configs.to_json(config)
        folder = RunFolder.create(path, algo=name, config=fields, env=env, seed=seed, command=command)
    else:
        folder = RunFolder.open(resume)
        _check_same(folder, name)
        if changed := _changed(folder, config):
            folder.extend(configs.to_json(config), changed, command)
    live.note(f"{name} on {env or '–'}, seed {seed} → {folder.path}")
    if resume is not None and folder.finished and not changed:
        # written again: it may have been stopped between its last number and its last page
        more = "".join(f"; {_flag(path)} makes it go on" for path, _ in getattr(config, "EXTENDABLE", ())[:1])
        live.note(f"this run has ended; nothing to do{more}\n\nreport: {_page(folder.path)}")
        return folder.path
    again = f"evolvent run {name} --resume {shlex.quote(str(folder.path))}"
    with folder:
        try:
            summary = module.run(config, folder, live, resume=resume is not None)
        except (Interrupted, KeyboardInterrupt) as error:
            live.close()
            if isinstance(error, Interrupted):
                live.note(f"report so far: {_page(folder.path)}")
            raise Interruption(f"stopped; the run stands in {folder.path}", do=again) from error
        except EvolventError:
            if resume is None:
                _remove_empty(folder)
            raise
        folder.write_summary(summary)
    live.close()
    _tell(folder.path, summary, live)
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
        told = ", ".join(f"{path} {old!r} → {new!r}" for path, (old, new) in other.items())
        total = f"; {' and '.join(map(_flag, may))} may change" if may else ""
        raise BadInput(
            "a resumed run keeps its settings", got=told, expected=f"the settings in {where}{total}",
            where="--resume", do="leave these flags out, or start a new run",
        )  # fmt: skip
    for path, (_, new) in changed.items():
        done, endless = _done(folder, may[path])
        if new < done and not (endless and new == 0):
            raise BadInput(
                "the run has done more than that", got=f"{_flag(path)} {new}", expected=f"at least {done}",
                where=str(folder.path), do="give a larger total, or start a new run",
            )  # fmt: skip
    return changed


def _done(folder: RunFolder, column: str) -> tuple[float, bool]:
    """How far a run is by a column of its metrics, in the unit of the setting, and whether 0 of it is no limit."""
    column_N = [row[column] for row in folder.read_metrics() if column in row]
    if column == "t":
        return max(column_N, default=0.0) / 60, True
    if column == "sampled_tokens":  # of single updates
        return sum(column_N), True
    return max(column_N, default=0), False


def _flag(path: str) -> str:
    """The flag of a setting: ``--save-every`` for ``plan.save_every``."""
    return "--" + path.rpartition(".")[2].replace("_", "-")


def _tell(path: Path, summary: dict[str, Any], live: Live) -> None:
    page = _page(path)
    phases = summary.get("phases") or []
    passes = [{"name": f"stream, pass {p['pass']}", **p} for p in summary.get("passes") or []]
    if phases:
        phases = [*phases[:1], *passes, *phases[1:]]
        rows = [[p["name"], p["n"], p["successes"], interval(p["rate"], p.get("ci95"))] for p in phases]
        live.table("Result", ["phase", "tasks", "right", "success [95 %]"], rows)
    elif summary.get("sampled"):
        live.table("Result", *_played(summary))
        if summary.get("broken"):
            live.note(f"{summary['broken']} attempts broke and were not learned from")
    elif summary.get("score"):
        score = summary["score"]
        live.note(f"{score['name']}: {interval(score['value'], score.get('ci95'), rate=False)}")
    best = summary.get("top_memories") or []
    if best:
        live.note("The most valuable memories:")
        for memory in best[:3]:
            live.note(f"  {memory['id']}  {memory['key']}\n      {memory['body']}\n      {memory['why']}")
    live.note(f"\nreport: {page}")


def _page(path: Path) -> Path:
    """Write the report of a run, whether it has ended or not."""
    from evolvent.evaluate.report import write_report

    return write_report(path)


def _played(summary: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of a run with updates; what was held out before learning is there of language models only."""
    names = {"before": "greedy, before learning", "greedy": "greedy", "sampled": "actions sampled"}
    names |= {"baseline": "random actions", "idle": "no action"}
    rows: list[list[object]] = []
    for name, said in names.items():
        if found := summary.get(name):
            rows.append([said, interval(found["value"], found.get("ci95"), rate=False)])
            if summary.get("before"):
                rows[-1] += [percent(found.get("success_mean")), judged_on(found)]
    return ["", "return [95 %]", *(["success", "judged on"] if summary.get("before") else [])], rows


def _run_seeds(module: Any, name: str, config: Any, options: RunOptions, command: str, live: Live) -> None:
    if not any(field.name == "seed" for field in dataclasses.fields(config)):
        raise BadInput("this algorithm has no seed", got=f"--seeds {options.seeds}", where=name, do="leave --seeds out")
    if len(set(options.seeds)) < len(options.seeds):
        raise BadInput("a seed is given twice", got=options.seeds, expected="distinct seeds", where="--seeds")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    env = str(getattr(config, "env", "")).partition(":")[0] or "none"
    parent = options.resume or options.out or Path("runs") / f"{name}-{env}-seeds-{stamp}"
    runs = {parent / f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in options.seeds}
    known = {child for child in runs if (child / "config.json").exists()}
    if known and options.resume is None:
        raise BadInput("the run folder is not empty", got=str(min(known)), where="--out", do=f"--resume {parent}")
    changed: dict[str, tuple[Any, Any]] = {}
    for child in known:  # all of them before the first goes on
        _check_same(folder := RunFolder.open(child), name)
        changed |= _changed(folder, runs[child])
    for child, one in runs.items():
        out, resume = (None, child) if child in known else (child, None)
        try:
            _run_one(module, name, one, out, resume, command, live)
        except Interruption as error:
            words = ["--seeds", *options.seeds]
            for path, (_, new) in changed.items():
                words += [_flag(path), new]
            again = f"evolvent run {name} --resume {shlex.quote(str(parent))} {shlex.join(map(str, words))}"
            raise Interruption(error.what, do=again) from error
    compare_folders([parent], parent / "compare.html", live)


def _check_env(spec: str) -> None:
    """A wrong name fails before anything is written; ``envs.load`` or ``load_team`` checks the rest."""
    from evolvent import envs

    name = spec.partition(":")[0]
    known = [row.name for row in envs.available()]
    if name and name not in known:
        raise BadInput(
            "unknown environment", got=name, expected=catalogue.closest(name, known), where="--env",
            do="see `evolvent list envs`",
        )  # fmt: skip


def _check_same(folder: RunFolder, name: str) -> None:
    algo = folder.manifest()["algo"]
    if algo != name:
        again = f"evolvent run {algo} --resume {shlex.quote(str(folder.path))}"
        raise BadInput(
            "the folder holds a run of another algorithm", got=name, expected=algo, where="--resume", do=again
        )


def _remove_empty(folder: RunFolder) -> None:
    """A run that failed before its first task leaves nothing behind."""
    folder.close()
    memory = {"memory.db", "memory.db-wal", "memory.db-shm"}
    if {path.name for path in folder.path.iterdir()} <= {"config.json", "task", *memory}:
        shutil.rmtree(folder.path)


COMMANDS = {"run": main}
