"""What compiles the kernels: the wheel where the system has nothing, and what is said where nothing works."""

import importlib.util
import shutil
from types import SimpleNamespace

import pytest

from evolvent.core.errors import EnvError
from evolvent.envs.text import kernels_build
from evolvent.envs.text.kernels import Bench
from evolvent.envs.text.kernels_tasks import BY_NAME
from evolvent.sandbox import NoSandbox, Sandbox

try:
    Sandbox("tools").close()
except NoSandbox as error:  # pragma: no cover - a machine without a jail
    pytest.skip(f"nothing confines programs here: {error}", allow_module_level=True)


@pytest.fixture
def nothing_on_the_path(monkeypatch):
    monkeypatch.setattr(kernels_build, "shutil", SimpleNamespace(which=lambda name: None))


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs the wheel ziglang")
def test_the_wheel_compiles_in_the_sandbox_where_the_system_has_no_compiler(nothing_on_the_path):
    bench = Bench()
    assert bench.compiler.name == "zig"
    for name in ("softmax_rows", "matvec", "histogram256"):
        assert bench.judge(BY_NAME[name], BY_NAME[name].source, 7, timed=False).correct
    dot = BY_NAME["dot"]
    found = bench.judge(dot, dot.source.replace("s += ", "s -= "), 7, timed=False)
    assert found.gate == "correct", found
    for source, words in (
        ("void kernel( {", "expected"),
        ("void kernel(void) { foo(); }", "undeclared function 'foo'"),
        ('#include "/etc/passwd"\n' + dot.source, "only headers"),
    ):
        found = bench.judge(dot, source, 7, timed=False)
        assert found.gate in ("compile", "hack") and words in found.words, found
    found = bench.judge(dot, dot.source.replace("{", "{ static double kept[64]; kept[n & 63] += 1;", 1), 7, timed=False)
    assert found.gate == "hack" and "between calls" in found.words, found
    bench.close()


def test_without_any_compiler_it_is_said_what_to_install(nothing_on_the_path, monkeypatch):
    monkeypatch.setattr(kernels_build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvError, match=r"(?s)nothing compiles C here.*apt install gcc.*kernels"):
        Bench()


def test_a_compiler_that_compiles_nothing_is_reported_before_any_program_is(tmp_path, monkeypatch):
    path = tmp_path / "cc"
    path.write_text("#!/bin/sh\necho 'k.c:1:10: fatal error: math.h: No such file or directory' >&2\nexit 1\n")
    for part in (path, tmp_path, tmp_path.parent, tmp_path.parent.parent):  # the jail may be another user's
        part.chmod(0o755)
    which = shutil.which
    monkeypatch.setattr(
        kernels_build, "shutil", SimpleNamespace(which=lambda name: str(path) if name == "cc" else which(name))
    )
    with pytest.raises(EnvError, match=r"(?s)cc says: math.h: No such file.*libc6-dev"):
        Bench()
