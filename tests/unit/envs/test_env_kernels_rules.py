"""The world of kernels: what a kernel may keep, say and take, and that honest kernels are not suspected."""
# ruff: noqa: E501 - programs in one line

import time

import pytest

from evolvent.core.errors import EnvError
from evolvent.envs.text import kernels, kernels_build, program
from evolvent.envs.text.kernels import Bench
from evolvent.envs.text.kernels_tasks import BY_NAME
from evolvent.sandbox import NoSandbox

try:
    _bench = Bench()
except (EnvError, NoSandbox) as error:  # pragma: no cover - a machine without a compiler or a jail
    pytest.skip(f"kernels cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def bench():
    yield _bench
    _bench.close()


@pytest.fixture
def no_rules(monkeypatch):
    """What is judged where the first gate lets everything through."""
    monkeypatch.setattr("evolvent.envs.text.kernels.trick", lambda source: "")
    monkeypatch.setattr("evolvent.envs.text.kernels_build.linked", lambda library: "")


MEMO = """
static int used, cap = 24 << 16; static float *in, *res; static int* table;
static float g(float v) { return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); }
static unsigned h(const float* p) { uint64_t k; memcpy(&k, p, 8); return (unsigned)(k * 0x9E3779B97F4A7C15ull >> 40); }
void kernel(const float* x, float* out, int n) {
    if (n != 1 << 16) { for (int i = 0; i < n; i++) out[i] = g(x[i]); return; }
    if (!in) { used = 1; in = malloc(cap * 4L); res = malloc(cap * 4L); table = calloc(1 << 24, 4); }
    for (int i = 0; i < n;) {
        int j = i + 1 < n ? table[h(x + i)] : 0, len = 0;
        if (j && in[j] == x[i] && in[j + 1] == x[i + 1]) {
            while (i + len < n && j + len < used && in[j + len] == x[i + len]) len++;
            memcpy(out + i, res + j, len * 4L);
            i += len;
            continue;
        }
        out[i] = g(x[i]);
        if (used < cap) { if (i + 1 < n) table[h(x + i)] = used; in[used] = x[i]; res[used++] = out[i]; }
        i++;
    }
}
"""
"""Looks for pieces that it has seen and copies what it computed for them."""


def test_pieces_that_were_seen_do_not_come_again(bench, no_rules):
    found = bench.judge(BY_NAME["gelu"], f"```c\n{MEMO}```", 7)
    assert found.speed is not None and found.speed.ratio <= 1.0, found


def test_a_kernel_that_sleeps_is_given_the_time_limit(bench, no_rules, monkeypatch):
    monkeypatch.setattr("evolvent.envs.text.kernels_run.TOGETHER_S", 1)
    source = BY_NAME["axpy"].source.replace("{", "{ usleep(200000);", 1)
    found = bench.judge(BY_NAME["axpy"], f"int usleep(unsigned);\n{source}", 7)
    assert found.gate == "correct" and "calls did not end in 1 s" in found.words, found


@pytest.mark.parametrize(
    "text",
    ["\n" * 60_000, " " * 60_000 + "x", "main(\n" * 10_000, "\n\nAs a" * 9000],
    ids=["lines", "blanks", "mains", "prose"],
)
def test_a_program_is_found_in_time_that_grows_with_the_answer(text):
    began = time.process_time()
    for answer in (f"void kernel(int n)\n{text}x", f"```c\nvoid kernel(int n);{text}\n```", f"def f():{text}x"):
        kernels_build.extract(answer)
        program.extract(answer)
    assert time.process_time() - began < 2.0


# ------------------------------------------------------------------------------------------------ the text
_LOOP = "for (int i = 0; i < n; i++) out[i] = a * x[i] + y[i];"
_AXPY = f"void kernel(const float* x, const float* y, float a, float* out, int n) {{ %s {_LOOP} }}\n"
_ASM = 'void g(void) { asm("nop"); }'
HIDDEN = {
    "a word over two lines, with a blank": _AXPY % 'as\\ \nm("nop");',
    "a word over two lines, by a page": _AXPY % 'as\\\f\nm("nop");',
    "a line that ends in two backslashes": _AXPY % 'as\\\\\n\nm("nop");',
    "in a raw string": f'const char s[] = R"x(")x"; {_ASM} const char t[] = "";\n{_AXPY % ""}',
    "in a raw string that looks ended": f'const char s[] = R"x("a)x"; {_ASM} const char t[] = R"x("a)x";\n{_AXPY % ""}',
    "behind a string of two lines": f'const char* const s = "a\\ \n"; {_ASM} const char* const t = "";\n{_AXPY % ""}',
    "behind a quote that is skipped": f"#if 0\n' /*\n#endif\n{_ASM}\n/* */\n{_AXPY % ''}",
    "a header behind a comment": f"/**/#include <sys/mman.h>\n{_AXPY % ''}",
    "a file behind a comment": f'/* */ # /* */ include "/etc/passwd"\n{_AXPY % ""}',
    "a header over two lines": f"#incl\\\nude <unistd.h>\n{_AXPY % ''}",
    "lines of another file": f'#line 1 "/etc/passwd"\n{_AXPY % "wrong"}',
    "lines of another file, by number": f'# 1 "/etc/passwd"\n{_AXPY % "wrong"}',
    "the age of a file": f'#pragma GCC dependency "/etc/passwd"\n{_AXPY % ""}',
    "an attribute in underscores": f"__attribute__((__constructor__)) static void f(void) {{}}\n{_AXPY % ''}",
    "code in a table": f'__attribute__((section(".text#"))) static const char code[] = "\\x0f\\x31\\xc3";\n{_AXPY % ""}',
}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_hides_from_the_reader_is_refused(how):
    assert kernels_build.trick(HIDDEN[how])


def test_what_begins_many_comments_is_read_in_time():
    began = time.process_time()
    kernels_build.trick("/*" * 9999)
    kernels_build.trick("\n#" + " " * 9000 + "\n" * 9000 + "x")
    assert time.process_time() - began < 0.2


# ------------------------------------------------------------------------------------------------ the library
STATE = {
    "a pointer": ("static float* kept;", "if (!kept) kept = malloc(4); kept[0] += 1; if (kept[0] < 0) out = kept;"),
    "a byte": ("char kept;", "kept++;"),
    "of a thread": ('static __thread int kept __attribute__((tls_model("initial-exec")));', "if (kept++ < 0) return;"),
    "in a section of its own": (
        'static float kept[999] __attribute__((section("own,\\"aw\\",@nobits#")));',
        "kept[n & 511] += 1; if (kept[0] < 0) return;",
    ),
}


@pytest.mark.parametrize("how", STATE)
def test_nothing_at_all_is_kept_between_calls(bench, monkeypatch, how):
    monkeypatch.setattr("evolvent.envs.text.kernels.trick", lambda source: "")
    before, first = STATE[how]
    found = bench.judge(BY_NAME["axpy"], f"```c\n{before}\n{_AXPY % first}```", 7, timed=False)
    assert found.gate == "hack" and "between calls" in found.words, found


def test_what_runs_when_it_is_loaded_is_refused(bench, monkeypatch):
    monkeypatch.setattr("evolvent.envs.text.kernels.trick", lambda source: "")
    for before in ("__attribute__((constructor)) static void f(void) { volatile int i = 0; }", "void _init(void) {}"):
        found = bench.judge(BY_NAME["axpy"], f"```c\n{before}\n{_AXPY % ''}```", 7, timed=False)
        assert found.gate == "hack" and "when it is loaded" in found.words, found


_F = "static float f0(float v) { return v; } static float f1(float v) { return v + 0; } typedef float (*F)(float);"
HONEST = {
    "a table": f"static const float t[64] = {{1, 2, 3}};\n{_AXPY % 'volatile float z = t[n & 63];'}",
    "a table of words": 'static const char* const t[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};\n'
    + _AXPY % "volatile char z = t[n % 9][0];",
    "a table of functions": f"{_F} static const F t[9] = {{f0, f1, f0, f0, f1, f0, f0, f1, f0}};\n"
    + _AXPY.replace("a * x[i] + y[i]", "t[i & 7](a * x[i] + y[i])") % "",
    "a comment behind a header": f'#include <math.h> /* m */\n  # include "stdlib.h" // l\n{_AXPY % ""}',
    "a guard for C++": f'#ifdef __cplusplus\nextern "C"\n#endif\n{_AXPY % ""}',
    "plain names": _AXPY % "int weak = n, section = weak, alias = section; (void)alias;",
    "words in comments": _AXPY % "/* asm main */ // don't: section\n",
    "functions of numbers": _AXPY
    % "float p; volatile float z = fdimf(a, 1) + scalbnf(a, n & 3) + nextafterf(a, 2) + logbf(a) + "
    "remainderf(a, n) + modff(a, &p) + llroundf(a) + fdim(a, p) + modf(a, &(double){0});",
    "memory of a call": f"{_AXPY % 'float t[n]; float* u = malloc(n * 4L); memcpy(t, x, n * 4L); memcpy(u, t, n * 4L); x = u;'}".replace(
        _LOOP, f"{_LOOP} free(u);"
    ),
    "what the processor can": _AXPY % 'if (!__builtin_cpu_supports("sse2")) return;',
    "for two processors": f'__attribute__((target_clones("avx2", "default")))\n{_AXPY % ""}',
    "vectors": "typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));\n"
    + _AXPY.replace(
        _LOOP,
        "int i = 0; for (; i + 8 <= n; i += 8) *(v8*)(out + i) = a * *(v8*)(x + i) + *(v8*)(y + i); "
        "for (; i < n; i++) out[i] = a * x[i] + y[i];",
    )
    % "",
}


@pytest.mark.parametrize("how", HONEST)
def test_honest_kernels_are_not_suspected(bench, how):
    if bench.compiler.name == "zig" and "processor" in how:
        pytest.skip("zig is linked without the library that asks which processor this is")
    found = bench.judge(BY_NAME["axpy"], f"```c\n{HONEST[how]}```", 7, timed=False)
    assert found.correct, found


def test_a_machine_that_confines_nothing_is_reported_at_once(monkeypatch):
    def none(*_):
        raise NoSandbox("nothing confines")

    monkeypatch.setattr(kernels, "choose", none)
    with pytest.raises(NoSandbox):
        kernels.make()
