"""What a server is given: which paths a program sees, which user it becomes, how it is confined."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import importlib.util
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.sandbox.jail import kernel
from evolvent.sandbox.jail.namespaces import ZERO
from evolvent.sandbox.result import Limits, NoSandbox

HERE = Path(__file__).parent
PROFILES = ("python", "tools", "browser")
BASE, PROBE = "evolvent-sandbox-", "evolvent-probe-"
"""How temporary folders begin."""
_OLD_S = 3600.0
_DEVICES = ("/dev/null", "/dev/full", "/dev/urandom", "/dev/random")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib64", f"/usr/lib/{kernel.MACHINE}-linux-gnu")
_DATA = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_TOOLS = ("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives")
_UIDS = (0x70000000, 1 << 24)
_FEW_UIDS = (20000, 30000)
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "USER": "sandbox",
    "MALLOC_ARENA_MAX": "1",  # glibc reserves 64 MB of addresses a thread: no room for 32 of them
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""All that a program finds in its environment, besides HOME and TMPDIR (its work folder) and what ``env=`` gives."""


def settings(
    profile: str,
    *,
    namespaces: bool,
    landlock: int,
    packages: Sequence[str],
    preload: Sequence[str],
    read: Sequence[str],
) -> dict[str, Any]:
    """Settings of a server that confines; ``landlock`` is the ABI to use, 0 for none. Makes its folder.

    Raises:
        BadInput: an unknown package, or a path that cannot be read.
        NoSandbox: root has no other user to become.
    """
    uids = _other_users() if os.geteuid() == 0 else None
    sites, package_paths = _packages(packages)
    python = list(_python_path())
    libraries = [*(_LIBRARIES if profile == "python" else _TOOLS), *_DATA]
    for path in read:
        if not os.path.exists(path):
            raise BadInput("no such path", got=path, expected="a file or folder that programs may read", where="read=")
    hidden = sorted({os.path.realpath(path) for path in _hidden(python)})
    shown = [*python, *libraries, *package_paths, *read]
    rules: list[list[str]] = [[path, "rw" if path == "/dev/null" else "r"] for path in _DEVICES]
    for path in shown:
        rules += _without(path, hidden, "r" if path.startswith("/etc/") else "rx")
    rules += [[path, "l"] for path in sites]
    unreachable = [path for path in (*python, *sites) if uids is not None and not namespaces and not _open_to_all(path)]
    base = _base(rooted=uids is not None)  # after everything that may be refused
    root = os.path.join(base, "root")
    os.mkdir(root, 0o755)
    return {
        "profile": profile,
        "confined": True,
        "namespaces": namespaces,
        "abi": landlock,
        "base": base,
        "root": root,
        "rules": rules,
        "visible": sorted(
            {p for path in (*_DEVICES, ZERO, *shown) for p in _with_links(path)}, key=lambda p: (p.count("/"), p)
        ),
        "hidden": hidden,
        "uids": list(uids) if uids else None,
        "aliases": _outermost(unreachable),
        "path": list(sites),
        "packages": list(packages),
        "preload": list(preload),
        "limits": asdict(Limits()),
    }


def unconfined(preload: Sequence[str], packages: Sequence[str]) -> dict[str, Any]:
    """Settings of a server whose programs are limited, and not confined at all."""
    sites, _ = _packages(packages)
    return {
        "profile": "tools",
        "confined": False,
        "namespaces": False,
        "abi": 0,
        "base": _base(rooted=False),
        "root": "",
        "rules": [],
        "visible": [],
        "hidden": [],
        "uids": None,
        "aliases": [],
        "path": list(sites),
        "packages": list(packages),
        "preload": list(preload),
        "limits": asdict(Limits()),
    }


def command(fd: int) -> list[str]:
    """The command line that starts a server on the socket ``fd``; its settings are its standard input."""
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); from jail import server; del sys.path[0]; server.main()"
    return [*_interpreter(), "-c", code, str(fd)]


def _interpreter() -> list[str]:
    return [sys.executable, "-s", "-P", "-S", "-B"]


@cache
def _python_path() -> tuple[str, ...]:
    """Where the standard library lies, as the server's interpreter has it."""
    done = subprocess.run(
        [*_interpreter(), "-c", "import json, sys; print(json.dumps(sys.path))"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
        timeout=60,
    )
    return tuple(_outermost([path for path in json.loads(done.stdout) if os.path.exists(path)]))


def _outermost(paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path.startswith(outer + "/") for outer in found):
            found.append(path)
    return found


def _hidden(python: Sequence[str]) -> list[str]:
    """Folders of installed packages: data sets with their solutions may lie there, so only named packages are seen."""
    found = [f"{path}/site-packages" for path in python] + [f"{path}/dist-packages" for path in python]
    for lib in ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"):
        for name in ("site-packages", "dist-packages"):
            found += glob.glob(f"{lib}/python3*/{name}") + glob.glob(f"{lib}/pypy3*/{name}")
    return [path for path in found if os.path.isdir(path)]


def _without(path: str, hidden: Sequence[str], mode: str) -> list[list[str]]:
    """Landlock rules for ``path`` that leave the hidden folders out: rules only add, so what is around is listed."""
    real = os.path.realpath(path)
    if real in hidden:
        return [[real, "l"]]
    if not any(inner.startswith(real + "/") for inner in hidden):
        return [[real, mode]]
    rules = [[real, "l"]]
    for name in sorted(os.listdir(real)):
        inner = os.path.join(real, name)
        if not os.path.islink(inner):
            rules += _without(inner, hidden, mode)
        elif os.path.isfile(inner) and os.path.dirname(os.path.realpath(inner)) != real:
            rules.append([os.path.realpath(inner), mode])
    return rules


def _with_links(path: str) -> list[str]:
    """The real path, and the links on the way to it, which a view of its own needs as well."""
    links, at = [], ""
    for part in path.strip("/").split("/"):
        at = f"{os.path.realpath(at) if at else ''}/{part}".replace("//", "/")
        if os.path.islink(at):
            links.append(at)
    return [os.path.realpath(path), *links]


def _packages(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders for ``sys.path`` and the paths of the named packages in them."""
    sites: list[str] = []
    paths: list[str] = []
    for name in names:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        if spec is None or spec.origin is None or spec.origin in ("built-in", "frozen"):
            raise BadInput(
                "no such package here", got=name, expected="top-level names that can be imported", where="packages="
            )
        home = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
        site = str(home.parent)
        sites += [] if site in sites else [site]
        paths += [str(home), *(path for path in (f"{site}/{name}.libs",) if os.path.isdir(path))]
    return sites, paths


def _other_users() -> tuple[int, int]:
    """First and count of user ids that nobody has, for root to become one of them in each run."""
    with open("/proc/self/uid_map") as file:
        spans = [(int(line.split()[0]), int(line.split()[2])) for line in file]
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    for first, count in (_UIDS, _FEW_UIDS):
        if any(start <= first and first + count <= start + length for start, length in spans):
            free = first + max((uid - first + 1 for uid in taken if first <= uid < first + count), default=0)
            if first + count - free > 1000:
                return free, first + count - free
    raise NoSandbox(
        "root cannot become another user here, so model-written code was not run",
        got=f"user ids {spans}",
        where="sandbox",
        do="run as an ordinary user",
    )


def _base(*, rooted: bool) -> str:
    """A new folder for the work folders; for root one that another user reaches."""
    places = [tempfile.gettempdir(), *(("/tmp", "/var/tmp") if rooted else ())]
    for place in places:
        if not rooted or _open_to_all(place):
            _sweep(place)
            base = os.path.realpath(tempfile.mkdtemp(prefix=BASE, dir=place))
            os.chmod(base, 0o711 if rooted else 0o700)
            return base
    raise NoSandbox(
        "no folder for temporary files that another user than root can enter",
        got=", ".join(places),
        where="sandbox",
        do="set TMPDIR to one with mode 1777",
    )


def hold(base: str) -> int:
    """An open folder that nobody sweeps away until it is closed, or this process has died."""
    held = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):  # not every file system can: there nothing is swept either
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return held


@cache
def _sweep(place: str) -> None:
    """Remove what was left by a process that was killed while it started: old folders of ours that nobody holds."""
    for path in (Path(entry.path) for entry in os.scandir(place) if entry.name.startswith((BASE, PROBE))):
        with contextlib.suppress(OSError):
            about = path.lstat()
            if not path.is_symlink() and about.st_uid == os.geteuid() and time.time() - about.st_mtime > _OLD_S:
                held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(held)


def _open_to_all(path: str) -> bool:
    """Whether every user can enter a folder (or read a file) along its whole path."""
    real = Path(os.path.realpath(path))
    return all(part.stat().st_mode & 0o001 for part in (real if real.is_dir() else real.parent, *real.parents))
