"""A PostgreSQL server with pgvector for one test session: the programs that the wheel pgserver brings, a fresh cluster.

pgserver's own starter, run as root, adds a user to the system and opens every folder above the cluster to everybody.
Here the programs are copied into the temporary folder instead, and run as nobody.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_NOBODY = 65534
# the server is thrown away afterwards, so it need not wait for the disk
_TESTING = ("fsync=off", "full_page_writes=off", "max_connections=100", "shared_buffers=64MB")


@contextmanager
def server(settings: Sequence[str] = _TESTING) -> Iterator[str]:
    """The URL of a running server, without ``?schema=``; it is stopped and removed at the end of the block."""
    found = find_spec("pgserver")
    assert found is not None and found.origin, (
        "the tests need the package pgserver: pip install -c constraints.txt -e '.[dev]'"
    )
    programs = Path(found.origin).parent / "pginstall"
    folder = Path(tempfile.mkdtemp(prefix="evolvent-pg-", dir="/tmp"))  # the path of a socket has 107 characters
    as_user: dict = {}
    try:
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            as_user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
            installed, programs = programs.parent, folder / "pgserver" / "pginstall"
            shutil.copytree(installed / "pginstall", programs, ignore=shutil.ignore_patterns("include", "*.a"))
            shutil.copytree(installed.parent / "pgserver.libs", folder / "pgserver.libs")  # found beside the package
            folder.chmod(0o755)
            data = folder / "data"
            data.mkdir()
            os.chown(data, _NOBODY, _NOBODY)
        data = folder / "data"

        def run(program: str, *args: str) -> None:
            command = [str(programs / "bin" / program), "-D", str(data), *args]
            with (folder / "output").open("w+") as output:
                done = subprocess.run(command, cwd=data.parent, stdout=output, stderr=output, check=False, **as_user)
                output.seek(0)
                assert done.returncode == 0, f"{program}: {output.read()}\n{_log(data)}"

        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with (data / "postgresql.auto.conf").open("a") as file:
            for setting in (*settings, "listen_addresses=", f"unix_socket_directories={data}"):
                name, _, value = setting.partition("=")
                file.write(f"{name} = '{value}'\n")
        run("pg_ctl", "-w", "-l", str(data / "log"), "start")
        try:
            yield f"postgresql://postgres@/postgres?host={data}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _log(data: Path) -> str:
    log = data / "log"
    return log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
