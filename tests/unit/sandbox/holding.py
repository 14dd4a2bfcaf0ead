"""A process that holds files without a name, hides them, or goes on without its first thread: a script with the name of
one of these functions and a folder. It writes a line when it has done that, and waits to be ended."""

import ctypes
import os
import sys
import threading
import time

MB = 1 << 20
NOBODY = 65534
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
_KEPT = []


def _unnamed(folder, mapped):
    """A megabyte of a file without a name, open or only mapped."""
    path = os.path.join(folder, "x")
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    os.write(fd, bytes(MB))
    os.unlink(path)
    if mapped:
        LIBC.mmap(None, ctypes.c_size_t(MB), 1, 1, fd, 0)
        os.close(fd)


def holds(folder):
    _unnamed(folder, mapped=False)
    _unnamed(folder, mapped=True)
    _KEPT.append(bytearray(b"1") * (8 * MB))


def without_its_first_thread(folder):
    def goes_on():
        state = ""
        while state != "Z":
            time.sleep(0.001)
            with open("/proc/self/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        holds(folder)
        os.write(1, b"1\n")
        time.sleep(60)

    threading.Thread(target=goes_on).start()
    LIBC.pthread_exit(None)


def hides(_):
    if os.geteuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    LIBC.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE, as the exec of a file that may not be read has it


if __name__ == "__main__":
    {act.__name__: act for act in (holds, without_its_first_thread, hides)}[sys.argv[1]](sys.argv[2])
    os.write(1, b"1\n")
    time.sleep(60)
