"""A memory served by a process of its own, as a user starts it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "evolvent"]


class Server:
    """`evolvent serve` of a store, which can be killed and started again."""

    def __init__(self, folder, *arguments, embedder="hash:64"):
        self.store, self.log = Path(folder) / "a.db", Path(folder).parent / f"{Path(folder).name}.log"
        self.command = [*COMMAND, "serve", str(self.store), "--port", "0", "--embedder", embedder, *arguments]
        self.token = self.address = self.process = None

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        while True:
            line = self.process.stdout.readline()
            assert line, self.log.read_text()
            if line.startswith("token"):
                self.token = line.split()[-1]
            if " is served at " in line:
                self.address = line.split(" is served at ")[1].split(",")[0].strip()
                return self

    def new(self, name, *arguments):
        """A token, made beside the running server."""
        made = subprocess.run(
            [*COMMAND, "tokens", "new", str(self.store), name, *arguments], capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def stop(self, how=signal.SIGTERM):
        """End it; what it said after it was ready."""
        if self.process is None or self.process.poll() is not None:
            return ""
        os.kill(self.process.pid, how)
        said = self.process.communicate(timeout=60)[0]
        return said


@contextlib.contextmanager
def served(folder, *arguments, **options):
    server = Server(folder, *arguments, **options)
    try:
        yield server.start()
    finally:
        server.stop(signal.SIGKILL)
        server.process and server.process.stdout.close()


def bearer(token, scope=None):
    return {"Authorization": f"Bearer {token}"} | ({"X-Evolvent-Scope": scope} if scope else {})
