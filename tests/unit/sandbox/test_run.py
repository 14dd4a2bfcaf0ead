"""What a run gives back: ends, limits, files, what was refused; and that nothing of it stays."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evolvent.core.errors import BadInput
from evolvent.sandbox import GuestError, Limits, NoSandbox, Sandbox, settings
from evolvent.testing.sandbox.world import leftovers

MB = 1 << 20


@pytest.fixture(scope="module", params=["own", "own+ns"])
def sandbox(request):
    try:
        with Sandbox(mechanism=request.param, warm=0) as sandbox:
            yield sandbox
    except NoSandbox as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def tools():
    with Sandbox("tools", warm=0) as sandbox:
        yield sandbox


def code(sandbox, text, limits=Limits(), **more):
    return sandbox.run({"main.py": text}, ["python", "main.py", "a"], limits, **more)


def test_an_ordinary_program_runs_as_outside(sandbox):
    text = """
import sys, os, json, threading, tempfile, sqlite3, asyncio, random, ctypes
class A: pass
t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()
with tempfile.NamedTemporaryFile('w+') as f: f.write('x'); f.seek(0); print(f.read())
print(sqlite3.connect('a.db').execute('select 1').fetchone(), asyncio.run(asyncio.sleep(0, 'async')))
print(sys.argv, __name__, __file__, input(), len({str(i) for i in range(9)}), A.__module__)
os.makedirs('a/b'); open('a/b/c.txt', 'w').write('deep'); os.rename('a/b/c.txt', 'a/b/d.txt')
sys.exit(3)
"""
    result = code(sandbox, text, stdin="hello\nmore", collect=["a/*", "none"])
    lines = result.stdout.splitlines()
    assert lines[:3] == ["thread", "x", "(1,) async"], result
    assert lines[3] == "['main.py', 'a'] __main__ main.py hello 9 __main__"
    assert (result.status, result.exit_code, result.signal, result.files) == ("failed", 3, None, {"a/b/d.txt": b"deep"})
    assert result.mechanism == sandbox.mechanism.name and 0 < result.cpu_seconds < 8 and result.peak_memory > MB


@pytest.mark.parametrize(
    ("text", "status", "exit_code", "number", "says"),
    [
        ("", "ok", 0, None, ""),
        ("raise SystemExit", "ok", 0, None, ""),
        ("raise SystemExit('words')", "failed", 1, None, "words\n"),
        ("1 / 0", "failed", 1, None, 'File "main.py", line 1'),
        ("def f(:", "failed", 1, None, "SyntaxError"),
        ("import atexit; atexit.register(print, 'bye')", "ok", 0, None, ""),
        ("import os; os._exit(7)", "failed", 7, None, ""),
        ("import os; os.kill(os.getpid(), 11)", "crashed", None, 11, ""),
        ("import os; os.abort()", "crashed", None, 6, ""),
        ("import ctypes; ctypes.string_at(0)", "crashed", None, 11, ""),
    ],
)
def test_ends_are_reported_as_they_were(sandbox, text, status, exit_code, number, says):
    result = code(sandbox, text)
    assert (result.status, result.exit_code, result.signal) == (status, exit_code, number)
    assert says in result.stderr and "jail" not in result.stderr
    assert result.stdout == ("bye\n" if "atexit" in text else "")


THREADS = """
import threading, time
for _ in range(99):
    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
"""


@pytest.mark.parametrize(
    ("text", "limits", "status", "limit"),
    [
        ("import time; time.sleep(60)", Limits(wall=0.3), "time", "wall"),
        ("while True: pass", Limits(wall=300.0, cpu=1.0), "time", "cpu"),
        ("x = 'a' * (1 << 30)", Limits(), "memory", "memory"),
        ("import mmap; m = [mmap.mmap(-1, 1 << 26, mmap.MAP_PRIVATE) for _ in 'a' * 40]", Limits(), "memory", "memory"),
        (THREADS, Limits(), "processes", "threads"),
        ("print('a' * 10**7)", Limits(), "output", "output"),
        ("open('x', 'wb').write(b'1' * (40 << 20))", Limits(), "disk", "file"),
        ("import os\nfor i in range(3000): os.mkdir(str(i))\nwhile True: pass", Limits(), "disk", "inodes"),
        ("for i in range(9): open(str(i), 'wb').write(b'1' * (15 << 20))\nwhile True: pass", Limits(), "disk", "disk"),
    ],
)
def test_a_limit_that_is_passed_is_named(sandbox, text, limits, status, limit):
    result = code(sandbox, text, limits)
    assert (result.status, result.limit) == (status, limit), result
    assert len(result.stdout) + len(result.stderr) <= limits.output


def test_a_room_that_a_file_asked_for_and_did_not_get_is_the_disk(sandbox):
    text = (
        "import os\nfor i in range(20):\n    with open(f'a{i}', 'wb') as f: os.posix_fallocate(f.fileno(), 0, 10 << 20)"
    )
    found = code(sandbox, text)
    assert (found.status, found.limit) == ("disk", "disk"), found


def test_a_file_of_the_program_stands_before_a_module_of_its_name(sandbox):
    files = {"json.py": "X = 1", "os.py": "X = 2", "random/__init__.py": "X = 3"}
    text = "import json, os, random, re; print(json.X, random.X, hasattr(os, 'X'), re.__file__ is not None)"
    found = sandbox.run({"main.py": text, **files}, ["python", "main.py"])
    assert found.stdout == "1 3 False True\n", found
    with sandbox.open({"json.py": "def f(): return 5"}, "json") as guest:
        assert guest.call("f") == 5


def test_calls_of_several_threads_wait_for_each_other(sandbox):
    source = "import time\ndef f(x):\n    time.sleep(0.002)\n    return x"
    with sandbox.open({"solution.py": source}, "solution") as guest, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: guest.call("f", i), range(64))) == list(range(64))


def test_output_is_cut_exactly_at_its_limit(sandbox):
    result = code(sandbox, "import sys\nwhile True: sys.stdout.write('1' * 100)", Limits(output=5000))
    assert len(result.stdout) == 5000 and result.limit == "output"


def test_what_was_refused_is_counted(sandbox):
    text = "import socket, os\nfor act in (socket.socket, socket.socket, os.fork):\n try: act()\n except OSError: pass"
    result = code(sandbox, text)
    assert result.refused is not None and result.refused.pop("socket") == 2
    assert sum(result.refused.values()) == 1  # fork, which is a clone here


def test_runs_do_not_see_one_another(sandbox):
    assert code(sandbox, "open('mine', 'w').write('x'); import os; os.environ['A'] = '1'", env={"GIVEN": "yes"}).ok
    text = "import os; print(sorted(os.listdir('.')), os.environ.get('A'), os.environ.get('GIVEN'), sorted(os.environ))"
    result = code(sandbox, text)
    assert result.stdout.startswith("['main.py'] None None") and "EVOLVENT" not in result.stdout


@pytest.mark.parametrize("mechanism", ["own", "own+ns"])
def test_named_packages_can_be_imported_and_others_not(mechanism):
    text = "import numpy; print(int(numpy.ones(3).sum()))\ntry: import rich\nexcept ImportError: print('no rich')"
    with Sandbox(mechanism=mechanism, packages=("numpy",), preload=("numpy",)) as sandbox:
        assert code(sandbox, text).stdout == "3\nno rich\n"
    with Sandbox(mechanism=mechanism, packages=("numpy",)) as sandbox:
        assert code(sandbox, text).stdout == "3\nno rich\n"


@pytest.mark.parametrize("mechanism", ["own", "own+ns"])
def test_packages_in_a_folder_of_one_user_are_found_and_their_neighbours_are_not(mechanism, tmp_path, monkeypatch):
    """As root every run is another user, who may not enter /root or a private environment."""
    (tmp_path / "mine").mkdir(mode=0o700)
    for name in ("shown_here", "hidden_here"):
        (tmp_path / "mine/site" / name).mkdir(parents=True)
        (tmp_path / "mine/site" / name / "__init__.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path / "mine/site")
    text = (
        "import os, shown_here; print(shown_here.value)\ntry: import hidden_here\nexcept ImportError: print('hidden')\n"
        "try: print(open(os.path.dirname(shown_here.__file__) + '/../hidden_here/__init__.py').read())\n"
        "except OSError: print('closed')"
    )
    with Sandbox(mechanism=mechanism, packages=("shown_here",)) as sandbox:
        assert code(sandbox, text).stdout == "3\nhidden\nclosed\n"


def test_a_program_of_c_is_compiled_and_run(tools):
    if not os.path.exists("/usr/bin/gcc"):
        pytest.skip("no gcc")
    made = tools.run({"a.c": '#include <stdio.h>\nint main(){puts("C");}'}, "gcc a.c -o a", collect=["a"])
    assert made.ok, made
    assert tools.run({"a": made.files["a"]}, "./a").stdout == "C\n"
    secret = tools.run({"a.c": '#include "/etc/shadow"\n'}, "gcc -E a.c")
    assert not secret.ok and "root:" not in secret.stdout + secret.stderr


def test_commands_and_files_that_cannot_be_are_refused(sandbox, tools):
    for files, command, more in (
        ({"../x": ""}, "python x.py", {}),
        ({"/x": ""}, "python x.py", {}),
        ({"a": 1}, "python x.py", {}),
        ({"ü" * 150: ""}, "python x.py", {}),
        ({"\ud800": ""}, "python x.py", {}),
        ({"a": "", "a/b": ""}, "python a", {}),
        ({"a": b"1" * (65 * MB)}, "python a", {}),
        ({}, "", {}),
        ({}, "sh -c ls", {}),
        ({}, "python -m http.server", {}),
        ({}, "python a.py", {"collect": "a"}),
    ):
        with pytest.raises(BadInput):
            sandbox.run(files, command, **more)
    for wrong in ({"wall": 0}, {"memory": -1}, {"disk": 1.5}, {"cpu": float("nan")}, {"threads": True}):
        with pytest.raises(BadInput):
            Limits(**wrong)
    assert tools.run({}, "no-such-program").exit_code == 127
    with pytest.raises(BadInput):
        Sandbox("no-such-profile")
    with pytest.raises(BadInput, match="packages="):
        Sandbox(preload=("numpy",))
    with pytest.raises(BadInput):
        Sandbox(mechanism="no-such")
    with pytest.raises(BadInput):
        Sandbox(packages=("no_such_package",)).run({}, "python -c pass")


def test_where_nothing_confines_nothing_is_run(monkeypatch):
    from evolvent.sandbox import mechanisms

    monkeypatch.setattr(mechanisms, "problem", lambda *_: "switched off")
    with pytest.raises(NoSandbox, match=r"--unsafe-no-sandbox"):
        Sandbox()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NoSandbox, match="WSL2"):
        Sandbox()


def test_a_mechanism_that_lets_something_out_is_not_used(monkeypatch):
    from evolvent.sandbox import mechanisms
    from evolvent.sandbox.jail import seccomp

    mechanisms.problem.cache_clear()
    source = mechanisms._PROBE
    monkeypatch.setattr(
        mechanisms, "_PROBE", source.replace("attempts = {", 'attempts = {"does what it may": os.getpid,')
    )
    assert seccomp and mechanisms.problem(mechanisms.candidates()[-1], "python").endswith("does what it may")
    mechanisms.problem.cache_clear()


def test_without_a_sandbox_every_report_says_so():
    with Sandbox(unsafe_no_sandbox=True) as sandbox:
        result = code(sandbox, "import os; print(os.path.exists('/etc/passwd'), 'HOME' in os.environ)")
        assert result.stdout == "True True\n" and result.mechanism == "none (unsafe)"
        assert "EVERYTHING" in str(sandbox.describe())


def test_many_at_once_and_cancelled(sandbox):
    async def work():
        many = [sandbox.arun({}, ["python", "-c", f"print({i})"]) for i in range(6)]
        slow = asyncio.create_task(sandbox.arun({}, ["python", "-c", "import time; time.sleep(60)"]))
        results = await asyncio.gather(*many)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        return [r.stdout for r in results]

    started = time.monotonic()
    assert asyncio.run(work()) == [f"{i}\n" for i in range(6)]
    assert time.monotonic() - started < 50 and leftovers(sandbox) == ""


def test_a_server_that_was_killed_is_started_again(sandbox):
    assert code(sandbox, "print(1)").ok
    base = sandbox._server.settings["base"]
    sandbox._server.process.kill()
    sandbox._server.process.wait()
    assert code(sandbox, "print(1)").ok and not os.path.exists(base)


def test_a_closed_sandbox_leaves_no_folder_and_no_process():
    sandbox = Sandbox(warm=3)
    code(sandbox, "open('x', 'w').write('x')")
    base, process = sandbox._server.settings["base"], sandbox._server.process
    assert os.path.isdir(base)
    sandbox.close()
    assert not os.path.exists(base) and process.poll() == 0
    with pytest.raises(BadInput, match="closed"):
        code(sandbox, "")


def test_closing_a_sandbox_ends_what_runs_in_it():
    sandbox, found = Sandbox(warm=1), []
    asked = [lambda: code(sandbox, "import time; time.sleep(60)", Limits(wall=90.0)).status]
    asked.append(
        lambda: sandbox.open({"m.py": "import time\ndef f(): time.sleep(60)"}, "m", Limits(wall=90.0)).call("f")
    )

    def ask(one):
        try:
            found.append(one())
        except GuestError as error:
            found.append(error.kind)

    threads = [threading.Thread(target=ask, args=(one,)) for one in asked]
    for thread in threads:
        thread.start()
    for _ in range(3000):
        if len(sandbox._running) == 2 and all(program.running for program in sandbox._running):
            break
        time.sleep(0.01)
    sandbox.close()
    for thread in threads:
        thread.join(30)
    assert found == ["stopped", "stopped"]


START = """
import sys
import threading
from evolvent.sandbox import settings
make = settings._base
def given(**more):
    base = make(**more)
    print(base, flush=True)
    return base
settings._base = given
from evolvent.sandbox import Sandbox
Sandbox(mechanism="own").run({}, ["python", "-c", ""])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1])
def test_a_harness_that_is_killed_while_it_starts_leaves_no_folder(how, after):
    words = [sys.executable, "-c", START]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    base = harness.stdout.readline().strip()
    while harness.poll() is None and subprocess.run(["pgrep", "-P", str(harness.pid)], check=False).returncode:
        time.sleep(0.002)  # until its server has begun
    time.sleep(after)
    harness.send_signal(how)
    harness.wait()
    for _ in range(200):
        if not os.path.exists(base):
            break
        time.sleep(0.05)
    assert not os.path.exists(base)


def test_what_a_killed_start_left_is_swept_away_later_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "_OLD_S", -1.0)
    old, held, link = (tmp_path / f"{settings.BASE}{name}" for name in ("old", "held", "link"))
    probe, other = tmp_path / f"{settings.PROBE}x", tmp_path / "evolvent-other"
    for folder in (old, held, probe, other):
        (folder / "root").mkdir(parents=True)
    link.symlink_to(other)
    descriptor = settings.hold(str(held))
    settings._sweep(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {held.name, link.name, other.name}
    assert (other / "root").exists()
    os.close(descriptor)
    settings._sweep.cache_clear()
    settings._sweep(str(tmp_path))
    assert not held.exists()


def test_a_forked_child_of_the_harness_has_a_server_of_its_own(sandbox):
    assert code(sandbox, "print(1)").ok
    server = sandbox._server.process.pid
    pid = os.fork()
    if pid == 0:
        done = code(sandbox, "print(1)").ok and sandbox._server.process.pid != server
        sandbox.close()
        os._exit(0 if done else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert code(sandbox, "print(1)").ok and sandbox._server.process.pid == server


HARNESS = """
import os, sys, threading, time
from evolvent.sandbox import Limits, Sandbox
s = Sandbox("tools", sys.argv[1], warm=2)
nap = "import os, time\\nfor i in range(3): os.fork()\\nos.execv('/bin/sleep', ['sleep', sys.argv[2]])"
for i in range(2):
    code = "import sys; sys.argv = ['', '', %r]\\n" % sys.argv[2] + nap
    threading.Thread(target=s.run, args=({}, ["python", "-c", code], Limits(wall=100.0))).start()
up = s.run({}, ["python", "-c", "print('up')"]).stdout
if os.fork() == 0:  # a child that lives on must not hold what tells that the harness has died
    time.sleep(20)
    os._exit(0)
print(up, s._server.process.pid, s._server.settings["base"], flush=True)
"""


@pytest.mark.parametrize("mechanism", ["own", "own+ns"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_harness_that_dies_leaves_no_process_and_no_file(mechanism, how):
    nap = f"{6000 + os.getpid() % 999}.{int(how)}{len(mechanism)}"
    words = [sys.executable, "-c", HARNESS, mechanism, nap]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    line = harness.stdout.readline()
    _, server, base = (line + harness.stdout.readline()).split()
    for _ in range(100):
        if len(_sleeping(nap)) >= 16:
            break
        time.sleep(0.05)
    assert len(_sleeping(nap)) >= 16  # two programs with eight processes each
    harness.send_signal(how)
    harness.wait()
    for _ in range(200):
        if not _sleeping(nap) and not os.path.exists(f"/proc/{server}") and not os.path.exists(base):
            break
        time.sleep(0.05)
    assert not _sleeping(nap) and not os.path.exists(f"/proc/{server}") and not os.path.exists(base)


def _sleeping(nap):
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line == f"sleep {nap}"]


HOSTILE = [
    "while True: open(str(__import__('random').random()), 'wb').write(b'1' * 10**6)",
    "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
    "import os\nfor i in range(9): os.mkdir(str(i), 0)\nos._exit(1)",
    "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "import os\nwhile True: os.write(2, b'1' * 65536)",
    "import signal\nfor s in (1, 2, 15, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
    "import os\nos.kill(os.getpid(), 19)",
]


def test_many_hostile_programs_leave_nothing(sandbox, count=16):
    limits = Limits(wall=0.3, cpu=1.0, memory=128 * MB, disk=8 * MB, inodes=100, output=10_000, threads=8)
    for i in range(count):
        result = code(sandbox, HOSTILE[i % len(HOSTILE)], limits)
        assert result.status not in ("ok", "harness"), result
    assert leftovers(sandbox) == ""


@pytest.mark.slow
def test_a_thousand_hostile_programs_leave_nothing(sandbox):
    test_many_hostile_programs_leave_nothing(sandbox, 1000)
