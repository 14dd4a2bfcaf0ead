"""Copies of a ``Solo`` in worker processes; arrays live in shared memory, pipes carry one letter a step.

Workers are spawned, not forked, so that threads of torch or MuJoCo in the parent do them no harm.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
import traceback
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory

import numpy as np

from evolvent.core.errors import EnvError, EvolventError
from evolvent.envs.runners.copies import Columns, Copies, Layout, shares
from evolvent.envs.runners.solo import Solo

_LINE = 64
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


class Processes:
    """``workers`` processes, each with a contiguous share of the copies."""

    def __init__(self, make: Callable[[], Solo], layout: Layout, n_envs: int, workers: int) -> None:
        memory = SharedMemory(create=True, size=sum(_padded(shape, kind) for shape, kind in layout.values()))
        self.columns = _arrays(memory, layout)
        self._shares = shares(n_envs, workers)
        self._pipes: list[Connection] = []
        self._workers: list[BaseProcess] = []
        self.close = weakref.finalize(self, _release, self._pipes, self._workers, memory, self.columns)
        context = multiprocessing.get_context("spawn")
        with _no_interrupts():
            for first, end in self._shares:
                here, there = context.Pipe()
                job = (there, memory.name, layout, make, first, end)
                worker = context.Process(target=_work, args=job, daemon=True)
                worker.start()
                there.close()
                self._pipes.append(here)
                self._workers.append(worker)
        self._wait()

    def reset(self, seed: int) -> None:
        """Restart all copies."""
        self._tell(b"r" + str(seed).encode())
        self._wait()

    def step(self) -> None:
        """Act with ``columns["action"]``."""
        self._tell(b"s")
        self._wait()

    def render(self) -> np.ndarray | None:
        """A picture of copy 0, through its pipe."""
        self._pipes[0].send_bytes(b"p")
        self._wait(1)
        return self._pipes[0].recv()

    def _tell(self, command: bytes) -> None:
        if not self._workers:
            raise EnvError("the workers are closed", where="envs", do="make the environment anew")
        for number, pipe in enumerate(self._pipes):
            try:
                pipe.send_bytes(command)
            except _GONE:
                self._fail(number)

    def _wait(self, count: int | None = None) -> None:
        """Wait until all have answered; the first that failed ends them all."""
        for number, pipe in enumerate(self._pipes[:count]):
            try:
                answer = pipe.recv_bytes()
            except _GONE:
                self._fail(number)
            else:
                if answer != b"k":
                    self._fail(number, answer.decode())

    def _fail(self, number: int, answer: str = "") -> None:
        first, end = self._shares[number]
        worker = self._workers[number]
        worker.join(5)
        code = worker.exitcode
        self.close()
        where = f"worker {number} of {len(self._shares)}"
        if answer:
            copy, _, text = answer.partition("\n")
            raise EnvError(text, where=f"{where}, copy {copy}")
        where += f", copies {first} to {end - 1}"
        do = "" if code != 1 else "in a script of your own, start under: if __name__ == '__main__'"
        raise EnvError("a worker died", got=f"exit code {code}", where=where, do=do)


def _work(pipe: Connection, name: str, layout: Layout, make: Callable[[], Solo], first: int, end: int) -> None:
    """What a worker does until its pipe closes. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    memory = SharedMemory(name)
    columns = {key: array[first:end] for key, array in _arrays(memory, layout).items()}
    copies: Copies | None = None
    try:
        copies = Copies(make, columns, first)
        pipe.send_bytes(b"k")
        while True:
            command = pipe.recv_bytes()
            if command == b"s":
                copies.step()
            elif command == b"p":
                picture = copies.render()
                pipe.send_bytes(b"k")
                pipe.send(picture)
                continue
            else:
                copies.reset(int(command[1:]))
            pipe.send_bytes(b"k")
    except (*_GONE, KeyboardInterrupt):
        pass  # the parent is done with us
    except Exception as error:  # noqa: BLE001  (sent to the parent, which raises it)
        at = copies.at if copies is not None else first
        with contextlib.suppress(*_GONE):
            pipe.send_bytes(f"{at}\n{described(error)}".encode())
    finally:
        if copies is not None:
            copies.close()
        _detach(memory)


def described(error: Exception) -> str:
    """What the parent is to say of an error in a worker: its message, or the traceback of one that is not ours."""
    return str(error) if isinstance(error, EvolventError) else traceback.format_exc().rstrip()


def _release(pipes: list[Connection], workers: list[BaseProcess], memory: SharedMemory, columns: Columns) -> None:
    """End the workers and give the memory back; also runs when the environment is forgotten or Python ends."""
    for pipe in pipes:
        pipe.close()
    for worker in workers:
        worker.join(5)
        if worker.exitcode is None:
            worker.kill()
            worker.join()
    pipes.clear()
    workers.clear()
    columns.clear()
    memory.unlink()
    _detach(memory)


def _detach(memory: SharedMemory) -> None:
    try:
        memory.close()
    except BufferError:
        # Somebody still holds a frame. The pages stay mapped until it goes; SharedMemory itself must not try again.
        memory._mmap = memory._buf = None  # pyright: ignore[reportAttributeAccessIssue]
        memory.close()


def _padded(shape: tuple[int, ...], kind: str) -> int:
    """Bytes of a column, up to the next cache line, so that no two columns share one."""
    return -(-math.prod(shape) * np.dtype(kind).itemsize // _LINE) * _LINE


def _arrays(memory: SharedMemory, layout: Layout) -> Columns:
    assert memory.buf is not None
    raw = np.frombuffer(memory.buf, np.uint8)  # holds on to the memory; np.ndarray(buffer=…) would not
    out, at = {}, 0
    for name, (shape, kind) in layout.items():
        used = math.prod(shape) * np.dtype(kind).itemsize
        out[name] = raw[at : at + used].view(kind).reshape(shape)
        at += _padded(shape, kind)
    return out


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """What is started inside never sees Ctrl-C, not even while it starts: a blocked signal is inherited."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
