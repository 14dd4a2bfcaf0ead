"""Calls with a time limit: whatever a function does instead of returning, on the main thread and beside it."""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from evolvent.core import calls
from evolvent.core.calls import Overdue, call_with_time_limit
from evolvent.core.errors import BadInput
from evolvent.core.outside import own_faults


def loops():
    while True:
        pass


def swallows():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


async def waits():
    await asyncio.sleep(3600)


async def computes():
    while True:
        pass


def anywhere(function, beside, seconds):
    if not beside:
        return call_with_time_limit(function, seconds)
    return calls.spawn(call_with_time_limit, function, seconds).result()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    "function", [loops, swallows, waits, computes, threading.Event().wait, lambda: time.sleep(3600)]
)
def test_what_does_not_come_back_is_given_up(function, beside):
    threads = threading.active_count()
    with pytest.raises(Overdue):
        anywhere(function, beside, 0.1)
    assert anywhere(lambda: 3, beside, 10.0) == 3
    assert threading.active_count() <= threads + 2  # what waits in C, and a new loop


STUCK = """
import faulthandler, sys, threading, time
from evolvent.core import calls

back = []
def in_c_then_for_ever():
    time.sleep(0.6)
    while True:
        back.append(1)
        time.sleep(0)

future = calls.spawn({function})
assert not calls.done_in_time(future, 0.1)
faulthandler.dump_traceback_later(20, exit=True)
sys.settrace(lambda *_: None)
print((lambda: "traced")())
sys.settrace(None)
time.sleep(1.0)
print(future.thread.is_alive(), len(back) < 3)
"""


@pytest.mark.parametrize(
    ("function", "lives"), [("time.sleep, 3600", True), ("threading.Event().wait", True), ("in_c_then_for_ever", False)]
)
def test_what_is_stuck_in_c_holds_up_no_trace_of_another_thread(function, lives):
    """CPython 3.11 counts an exception that waits for one thread as an interruption of all: a traced one goes round."""
    command = [sys.executable, "-c", STUCK.replace("{function}", function)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.stdout.splitlines() == ["traced", f"{lives} True"], run.stderr


@pytest.mark.parametrize("function", [lambda: re.match("(a+)+$", "a" * 60 + "b"), lambda: 9**9**9])
def test_expressions_without_end_are_given_up_on_the_main_thread(function):
    with pytest.raises(Overdue):
        call_with_time_limit(function, 0.2)


@pytest.mark.parametrize("error", [SystemExit(3), SystemExit(), KeyError("k")])
def test_what_a_file_of_yours_raises_is_reported_and_ends_nothing(error):
    with pytest.raises(BadInput, match=rf"it failed[^§]*{type(error).__name__}"), own_faults("x.py", "it failed"):
        raise error
    with pytest.raises(KeyboardInterrupt), own_faults("x.py", "it failed"):
        raise KeyboardInterrupt


async def later():
    await asyncio.sleep(0)
    return 5


@pytest.mark.parametrize("beside", [False, True])
def test_what_is_awaitable_is_awaited_and_what_is_raised_is_raised(beside):
    assert anywhere(later, beside, 10.0) == 5
    for error in (KeyError("k"), SystemExit(3)):
        with pytest.raises(type(error)):
            anywhere(lambda error=error: (_ for _ in ()).throw(error), beside, 10.0)


def test_an_alarm_of_somebody_else_is_as_it_was():
    handler = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 500.0)
    try:
        assert call_with_time_limit(lambda: 3, 10.0) == 3
        assert 0.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)


def test_what_keeps_pythons_lock_ends_the_process_and_says_where():
    code = """
        import re
        from evolvent.core import calls
        calls.GRACE_S = 0.2
        def reward():
            re.match("(a+)+$", "a" * 60 + "b")
        calls.spawn(calls.call_with_time_limit, reward, 0.1).result()
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 1 and "in reward" in ended.stderr and "in call_with_time_limit" in ended.stderr


def test_ctrl_c_does_not_wait_for_attempts_that_hang():
    code = """
        import signal, time
        from evolvent.play.together import run_players
        signal.signal(signal.SIGINT, signal.default_int_handler)  # started behind a shell, it would be ignored
        def player():
            print("here", flush=True)
            time.sleep(3600)
            yield
        run_players([player()], None, overlap=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=600)
        finally:
            process.kill()
    assert said.rstrip().endswith("KeyboardInterrupt")
