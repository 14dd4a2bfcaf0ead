"""What runs in the confined process: a Python program, another program, or a module whose functions are called."""

from __future__ import annotations

import _sitebuiltins
import atexit
import builtins
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
import types
from typing import Any

from . import values

CHANNEL = 3
"""File descriptor of the calls and answers of ``serve``; files of the host that were shared come after it."""


_STARTUP = {
    *sys.builtin_module_names,
    "abc",
    "codecs",
    "encodings",
    "genericpath",
    "io",
    "os",
    "posixpath",
    "site",
    "stat",
    "zipimport",
    "_collections_abc",
    "_sitebuiltins",
    "__main__",
}
"""Modules that a fresh Python has loaded before it looks into the program's folder."""


def start(config: dict[str, Any]) -> None:
    """Run what ``config`` says; never returns."""
    os.environ.clear()
    os.environ.update(config["env"])
    if config["kind"] != "exec":
        _uncover()
    code, ours = 1, set(sys.modules)
    try:
        if config["kind"] == "exec":
            _exec(config["argv"])
        sys.path.insert(0, os.getcwd())
        for name in ("exit", "quit"):  # the fork server goes without site, which adds them
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
        sys.argv = list(config["argv"])
        if config["kind"] == "serve":
            _serve(config["module"])
        elif config["kind"] == "code":
            _main(compile(config["code"], "<string>", "exec"), None)
        else:
            path = config["argv"][0]
            with open(path, "rb") as file:
                _main(compile(file.read(), path, "exec"), path)
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:  # noqa: BLE001 - the program's own; shown as Python shows it
        _show(error)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _finalize(ours)
    except BaseException as error:  # noqa: BLE001
        _show(error)
        code = code or 1
    os._exit(code)


def _uncover() -> None:
    """A file of the program is imported, and not the module of its name that the fork server had loaded."""
    for entry in os.scandir("."):
        name, dot, kind = entry.name.partition(".")
        if name not in _STARTUP and (kind in ("py", "so") if dot else entry.is_dir()):
            sys.modules.pop(name, None)


def _finalize(ours: set[str]) -> None:
    """What Python does at its end, and ``os._exit`` does not: objects of the program go, and write what they hold."""
    _flush()
    for name in sys.modules.keys() - ours | {"__main__"}:
        sys.modules.pop(name, None)
    gc.collect()  # what the fork server had is frozen: this looks at the program's own alone
    _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _main(code: types.CodeType, path: str | None) -> None:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__=path)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _exec(argv: list[str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and so they would be by the program
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(126 if isinstance(error, PermissionError) else 127)


def _exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        code = error.code or 0
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF  # as Python does
    sys.stderr.write(f"{error.code}\n")
    return 1


def _show(error: BaseException) -> None:
    """The traceback without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _ran(error: BaseException, name: str) -> bool:
    """Whether an error of an import comes from code of the module, and not from reading it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") != name:
        trace = trace.tb_next
    return trace is not None


def _serve(name: str) -> None:
    """Import the module, say so, and answer calls until the channel is closed."""
    write, read = os.write, os.read
    dumps, loads, format_exception = values.dumps, values.loads, traceback.format_exception_only

    def send(line: bytes) -> None:
        view = memoryview(line + b"\n")
        while view:
            view = view[write(CHANNEL, view) :]

    def failure(ticket: str, error: BaseException, unread: bool = False) -> bytes:
        text = "".join(format_exception(type(error), error))
        if len(text) > 2000:  # a line of source may be as long as it likes, and what is wrong stands behind it
            text = f"{text[:1000]}\n…\n{text[-900:]}"
        return dumps({"id": ticket, "error": ["" if unread else type(error).__name__, text]})

    try:
        module = importlib.import_module(name)
    except BaseException as error:
        send(failure("import", error, not _ran(error, name)))
        raise
    send(dumps({"id": "import", "value": None}))
    buffer = b""
    while True:
        line, found, rest = buffer.partition(b"\n")
        if not found:
            more = read(CHANNEL, 1 << 16)
            if not more:
                return
            buffer += more
            continue
        buffer = rest
        call = loads(line)
        try:
            found_value = getattr(module, call["fn"])(*call["args"], **call["kwargs"])
            answer = dumps({"id": call["id"], "value": found_value})
        except Exception as error:  # noqa: BLE001 - the program's own error is the answer
            answer = failure(call["id"], error)
        send(answer)
