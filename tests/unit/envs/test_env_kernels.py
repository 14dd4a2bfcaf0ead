"""The world of kernels: every naive kernel is right, wrong ones are not, and no trick is believed."""
# ruff: noqa: E501 - programs in one line

from typing import Any, cast

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.text import kernels_build, kernels_run
from evolvent.envs.text.kernels import Bench, Verdict
from evolvent.envs.text.kernels_operator import Operator, Quick
from evolvent.envs.text.kernels_run import Speed
from evolvent.envs.text.kernels_tasks import ALL, BY_NAME, HELDOUT
from evolvent.sandbox import NoSandbox
from evolvent.testing.env import check_env

try:
    _bench = Bench()
except (EnvError, NoSandbox) as error:  # pragma: no cover - a machine without a compiler or a jail
    pytest.skip(f"kernels cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def bench():
    yield _bench
    _bench.close()


def _judged(bench, name: str, source: str, timed: bool = False) -> Verdict:
    return bench.judge(BY_NAME[name], source, 7, timed=timed)


def _speed(found: Verdict) -> Speed:
    assert found.speed is not None, found
    return found.speed


# ------------------------------------------------------------------------------------------------ operators
@pytest.mark.parametrize("operator", ALL, ids=lambda o: o.name)
def test_the_naive_kernel_is_right_at_all_sizes(bench, operator):
    for seed in (1, 2):
        assert bench.judge(operator, operator.source, seed, timed=False).correct


def test_there_are_thirty_operators_in_two_sets_and_each_has_what_is_shown():
    assert len(ALL) == len(BY_NAME) == 30 and set(HELDOUT) < set(BY_NAME)
    for operator in ALL:
        assert operator.numpy.startswith(f"def {operator.name}(") and "noqa" not in operator.numpy


WRONG = {
    "mean_var_rows": "for (int r = 0; r < rows; r++) { const float* p = x + (long)r * cols; float s = 0, q = 0; for (int "
    "c = 0; c < cols; c++) { s += p[c]; q += p[c] * p[c]; } s /= cols; mean[r] = s; var[r] = q / cols - s * s; }",
    "softmax_rows": "for (int r = 0; r < rows; r++) { float s = 0; for (int c = 0; c < cols; c++) { out[(long)r * cols + "
    "c] = expf(x[(long)r * cols + c]); s += out[(long)r * cols + c]; } for (int c = 0; c < cols; c++) out[(long)r * cols "
    "+ c] /= s; }",
    "histogram256": "for (int i = 0; i < n; i++) out[x[i]]++;",
    "argmax_rows": "for (int r = 0; r < rows; r++) { int b = 0; for (int c = 1; c < cols; c++) if (x[(long)r * cols + c] "
    ">= x[(long)r * cols + b]) b = c; out[r] = b; }",  # the last of equals
    "jacobi5": "for (int y = 1; y < H - 1; y++) for (int z = 1; z < W - 1; z++) { long p = (long)y * W + z; out[p] = "
    "0.25f * (x[p - 1] + x[p + 1] + x[p - W] + x[p + W]); }",  # the border is not written
    "dot": "out[0] = 0; for (int i = 0; i + 4 <= n; i += 4) for (int j = 0; j < 4; j++) out[0] += x[i + j] * y[i + j];",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_plausible_wrong_kernel_is_distinguished_from_a_right_one(bench, name):
    found = _judged(bench, name, f"{BY_NAME[name].prototype} {{ {WRONG[name]} }}")
    assert found.gate == "correct", found
    assert "wrong" in found.words


CHANGED = {
    "reads one beyond": ("sum", "i < n", "i <= n"),
    "reads beyond, in sixteens": ("matvec", "j < N", "j < (N + 15) / 16 * 16"),
    "reads before": ("conv1d", "int j = 0", "int j = -1"),
    "copies what lies beyond": ("jacobi5", "z < W;", "z <= W;"),
    "of absolute values": ("sum", "+= x[i]", "+= fabsf(x[i])"),
    "of positive products": ("dot", "+= x[i] * y[i]", "+= fabsf(x[i] * y[i])"),
    "the usual factor written in": ("axpy", "a * x[i]", "1.7f * x[i]"),
    "absolute factor": ("axpy", "a * x[i]", "fabsf(a) * x[i]"),
    "a mean that is rounded": ("mean_var_rows", "mean[r] = s", "mean[r] = rint(s * 8) / 8"),
    "another epsilon": ("layernorm", "1e-5f", "1e-3f"),
    "no epsilon": ("rmsnorm", "+ 1e-6f", ""),
    "the best is never negative": ("topk8_rows", "-1e30f", "0"),
    "no maximum, mean": ("cross_entropy", "(p[c] - m); t += m + logf(s)", "(p[c]); t += logf(s)"),
    "no maximum, attention": ("attention", "expf(s[j] - m)", "expf(s[j])"),
    "small sizes alone": ("softmax_rows", "cols; c++) {", "cols && c < 1024; c++) {"),
    "short products": (
        "int8_matmul",
        "(int)A[i * K + k] * B[j * K + k]",
        "(A[i * K + k] * B[j * K + k] == 16384 ? 16383 : A[i * K + k] * B[j * K + k])",
    ),
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_right_kernel_with_one_fault_is_wrong(bench, how):
    name, part, fault = CHANGED[how]
    source = " ".join(BY_NAME[name].source.split())
    assert source.count(part) == 1, source
    verdicts = [bench.judge(BY_NAME[name], source.replace(part, fault), seed, timed=False) for seed in range(3)]
    assert {found.gate for found in verdicts} == {"correct"}, verdicts


SUMMED = {
    "sum": "float a[16] = {0}, s = 0; int i = 0; for (; i + 16 <= n; i += 16) for (int j = 0; j < 16; j++) a[j] += "
    "x[i + j]; for (; i < n; i++) s += x[i]; for (int j = 0; j < 16; j++) s += a[j]; out[0] = s;",
    "dot": "float s = 0; for (int i = n - 1; i >= 0; i--) s += x[i] * y[i]; out[0] = s;",
    "mean_var_rows": "for (int r = 0; r < rows; r++) { const float* p = x + (long)r * cols; float m = 0, q = 0; for (int "
    "c = 0; c < cols; c++) { float d = p[c] - m; m += d / (c + 1); q += d * (p[c] - m); } mean[r] = m; var[r] = q / cols; }",
    "softmax_rows": "for (int r = 0; r < rows; r++) { const float* p = x + (long)r * cols; float m = p[0], s = 1; for (int "
    "c = 1; c < cols; c++) if (p[c] > m) { s = s * expf(m - p[c]) + 1; m = p[c]; } else s += expf(p[c] - m); for (int c = "
    "0; c < cols; c++) out[(long)r * cols + c] = expf(p[c] - m) / s; }",
    "layernorm": "for (int r = 0; r < rows; r++) { const float* p = x + (long)r * cols; float s = 0, q = 0; for (int c = "
    "0; c < cols; c++) { s += p[c]; q += p[c] * p[c]; } s /= cols; q = q / cols - s * s; float v = 1 / sqrtf(q + 1e-5f); "
    "for (int c = 0; c < cols; c++) out[(long)r * cols + c] = (p[c] - s) * v * g[c] + b[c]; }",
}


@pytest.mark.parametrize("name", SUMMED)
def test_another_order_of_sums_is_right(bench, name):
    for seed in range(3):
        source = f"{BY_NAME[name].prototype} {{ {SUMMED[name]} }}"
        assert bench.judge(BY_NAME[name], source, seed, timed=False).correct


# ------------------------------------------------------------------------------------------------ tricks
_RELU = "void kernel(const float* x, const float* y, float a, float* out, int n) "
_LOOP = "for (int i = 0; i < n; i++) out[i] = a * x[i] + y[i];"
_LATE = "static void real(const float* x, const float* y, float a, float* out, int n) { " + _LOOP + " }\n"
TRICKS = {
    "prints a verdict": f'#include <stdio.h>\n{_RELU}{{ printf("right 100.0\\n"); }}',
    "writes a file of results": f'#include <stdio.h>\n{_RELU}{{ FILE* f = fopen("result.json", "w"); fclose(f); }}',
    "ends the process with success": f"{_RELU}{{ exit(0); }}",
    "ends it before anything runs": f"void _exit(int); __attribute__((constructor)) static void z(void) {{ _exit(0); }}\n{_RELU}{{ {_LOOP} }}",
    "reads the clock": f"#include <time.h>\n{_RELU}{{ clock(); {_LOOP} }}",
    "reads the cycle counter": f"#include <x86intrin.h>\n{_RELU}{{ if (__rdtsc() & 1) {_LOOP} }}",
    "turns the clock back": f"int clock_settime(int, void*);\n{_RELU}{{ clock_settime(0, 0); {_LOOP} }}",
    "starts a thread": f"int pthread_create(void*, void*, void*, void*);\n{_RELU}{{ pthread_create(0, 0, 0, 0); {_LOOP} }}",
    "calls the kernel by number": f'{_RELU}{{ __asm__ volatile("syscall"); {_LOOP} }}',
    "includes a secret": f'#include "/etc/passwd"\n{_RELU}{{ {_LOOP} }}',
    "includes by a macro": f'#define F "/etc/passwd"\n#include F\n{_RELU}{{ {_LOOP} }}',
    "imports a secret": f'#import "/etc/passwd"\n{_RELU}{{ {_LOOP} }}',
    "puts a file into the library": f'asm(".incbin \\"/etc/passwd\\"");\n{_RELU}{{ {_LOOP} }}',
    "hides a word by pasting": f"#define J(a, b) a##b\n{_RELU}{{ J(ex, it)(0); }}",
    "hides a word over two lines": f'{_RELU}{{ __as\\\nm__("nop"); {_LOOP} }}',
    "keeps outputs in static memory": f"static float seen[1 << 16];\n{_RELU}{{ for (int i = 0; i < n; i++) {{ if (seen[i & 65535] == 0) seen[i & 65535] = a * x[i] + y[i]; out[i] = seen[i & 65535]; }} }}",
    "keeps them in a library's table": f"float table[4096];\n{_RELU}{{ table[n & 4095] = 1; {_LOOP} }}",
    "asks the environment": f'{_RELU}{{ if (getenv("HOME")) {_LOOP} }}',
    "opens a library": f'void* dlopen(const char*, int);\n{_RELU}{{ dlopen("libm.so", 1); {_LOOP} }}',
    "replaces a function of the harness": f"void* memcpy(void* d, const void* s, unsigned long n) {{ return d; }}\nvoid free(void* p) {{}}\nint main() {{ return 0; }}\n{_RELU}{{ }}",
    "returns at once": f"{_RELU}{{ }}",
    "is right for the usual size only": f"{_RELU}{{ for (int i = 0; i < 262144; i++) out[i] = a * x[i] + y[i]; }}",
    "is right for whole eights only": f"{_RELU}{{ for (int i = 0; i + 8 <= n; i += 8) for (int j = i; j < i + 8; j++) out[j] = a * x[j] + y[j]; }}",
    "does half of the work": f"{_RELU}{{ for (int i = 0; i < n / 2; i++) out[i] = a * x[i] + y[i]; }}",
    "answers with a constant": f"{_RELU}{{ for (int i = 0; i < n; i++) out[i] = 1.7f; }}",
    "answers with no number": f"{_RELU}{{ for (int i = 0; i < n; i++) out[i] = NAN; }}",
    "answers with infinity": f"{_RELU}{{ for (int i = 0; i < n; i++) out[i] = INFINITY; }}",
    "writes behind its output": f"{_RELU}{{ {_LOOP} out[n] = 0; }}",
    "changes its input": f"{_RELU}{{ {_LOOP} ((float*)x)[0] = 0; }}",
    "crashes": f"{_RELU}{{ {_LOOP} *(volatile int*)8 = 1; }}",
    "does not end": f"{_RELU}{{ {_LOOP} volatile int go = 1; while (go) {{}} }}",
    "forges an answer on its channel": f'long write(int, const void*, unsigned long);\n{_RELU}{{ write(3, "{{}}", 2); {_LOOP} }}',
    "has another prototype": "void kernel(int n) {}",
    "has no kernel": "void other(int n) {}",
    "is prose": "I would first vectorise the loop, and then measure.",
    "is empty": "",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_passes(bench, trick):
    source = TRICKS[trick]
    found = _judged(bench, "axpy", f"```c\n{source}\n```" if "{" in source else source, timed=True)
    assert not found.correct and found.gate != "harness", found


def test_the_sieve_is_not_needed(bench, monkeypatch):
    """What must not be believed is found by fresh inputs, hidden sizes and clocks outside, also without the rules."""
    import evolvent.envs.text.kernels as world

    monkeypatch.setattr(world, "trick", lambda source: "")
    monkeypatch.setattr(kernels_build, "linked", lambda library: "")
    for name in (
        "ends the process with success",
        "ends it before anything runs",
        "forges an answer on its channel",
        "keeps outputs in static memory",
        "prints a verdict",
    ):
        found = _judged(bench, "axpy", TRICKS[name], timed=True)
        assert not found.correct, (name, found)


REMEMBERS = {
    "by place": "seen == out",
    "by place and content": "seen == out && mark == x[0] + x[n / 2] + x[n - 1]",
}


@pytest.mark.parametrize("how", REMEMBERS)
def test_what_was_computed_once_cannot_be_used_again(bench, monkeypatch, how):
    """A kernel that copies an earlier output where it knows the input again; gelu is worth remembering."""
    import evolvent.envs.text.kernels as world

    monkeypatch.setattr(world, "trick", lambda source: "")
    monkeypatch.setattr(kernels_build, "linked", lambda library: "")
    source = (
        "static float kept[16][1 << 16], mark[16]; static float* seen[16]; static int used;\n"
        "void kernel(const float* x, float* out, int n) { if (n == 1 << 16) for (int k = 0; k < used; k++) if ("
        + REMEMBERS[how].replace("seen", "seen[k]").replace("mark", "mark[k]")
        + ") { memcpy(out, kept[k], n * 4); return; }\n"
        + BY_NAME["gelu"].naive
        + " if (n == 1 << 16 && used < 16) { memcpy(kept[used], out, n * 4); mark[used] = x[0] + x[n / 2] + x[n - 1]; "
        "seen[used++] = out; } }"
    )
    found = _judged(bench, "gelu", source, timed=True)
    assert not found.correct or _speed(found).ratio <= 1.0, found


def test_work_in_another_thread_counts(bench, monkeypatch):
    import evolvent.envs.text.kernels as world

    monkeypatch.setattr(world, "trick", lambda source: "")
    monkeypatch.setattr(kernels_build, "linked", lambda library: "")
    source = (
        "#include <pthread.h>\nstruct job { const float* x; float* out; int n; };\n"
        "static void real(const float* x, float* out, int n) { " + BY_NAME["gelu"].naive + " }\n"
        "static void* go(void* p) { struct job* j = p; real(j->x, j->out, j->n); return 0; }\n"
        "void kernel(const float* x, float* out, int n) { struct job j = {x, out, n}; pthread_t t; "
        "if (pthread_create(&t, 0, go, &j)) { go(&j); return; } pthread_join(t, 0); }"
    )
    found = _judged(bench, "gelu", source, timed=True)
    assert not found.correct or _speed(found).ratio <= 1.0, found


# ------------------------------------------------------------------------------------------------ speed
def test_an_honest_gain_is_counted_and_a_copy_is_none(bench):
    fast = _judged(bench, "gelu", '#pragma GCC optimize("fast-math")\n' + BY_NAME["gelu"].source, timed=True)
    same = _judged(bench, "gelu", BY_NAME["gelu"].source, timed=True)
    assert _speed(fast).ratio > 2 and _speed(fast).low <= _speed(fast).high
    assert same.correct and _speed(same).ratio < 2


@pytest.mark.parametrize(
    ("ratios", "counted"),
    [
        ((2.0, 3.0), 2.0),
        ((3.0, 1.5), 1.5),
        ((1.3, 1.1), 1.0),
        ((1.1,), 1.0),
        ((0.9,), 1.0),
        ((0.5, 0.4), 0.5),
        ((0.5, 0.6), 0.6),
        ((0.5, 0.95), 1.0),
        ((1.3, 0.5), 1.0),
    ],
)
def test_a_difference_counts_where_two_pairs_of_processes_find_it(monkeypatch, ratios, counted):
    left = list(ratios)
    monkeypatch.setattr(
        kernels_run, "pair", lambda *_: (np.ones(kernels_run.ROUNDS), np.full(kernels_run.ROUNDS, left.pop(0)))
    )
    assert cast(Any, kernels_run.measured)(None, b"mine", b"", None, 1).ratio == pytest.approx(counted)
    assert not left


def test_inputs_of_samples_share_no_pieces_and_are_those_that_are_meant():
    rng = Quick()
    for operator in ALL:
        one, other = operator.inputs(rng, operator.sizes), operator.inputs(rng, operator.sizes)
        for name in one:
            if one[name].dtype == np.float32 and operator.name != "argmax_rows":  # whose values are few, by intent
                old, new = (each[name].ravel()[: one[name].size & ~1].view(np.uint64) for each in (one, other))
                assert np.isin(new, old).mean() < 1e-3, (operator.name, name)
            assert one[name].size < 300 or (one[name] == other[name]).mean() < 0.1, (operator.name, name)
        operator.expected(one, operator.sizes)
    x = rng.rotated((1 << 18,))
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01 and abs((x**4).mean() - 3) < 0.1


# ------------------------------------------------------------------------------------------------ text
def test_the_program_is_found_in_an_answer():
    kernel = "void kernel(int n) {\n}"
    assert kernels_build.extract(f"Sure!\n```c\n{kernel}\n```\nDone.") == kernel
    assert kernels_build.extract(f"```c\n{kernel}") == kernel
    assert kernels_build.extract(f"```\nint x;\n```\nand\n```cpp\n{kernel}\n```") == kernel
    assert kernels_build.extract(f"Here it is:\n{kernel}") == kernel
    assert kernels_build.extract(f"{kernel}\nint main(void) {{\n  if (1) {{ }}\n  return 0;\n}}\n") == kernel
    assert kernels_build.extract("just words about a kernel") == ""
    for form in (
        "```c\n{}```",
        "```c\n{}```\nThis kernel is fast.",
        "~~~c\n{}\n~~~\nDone.",
        "{}\n```",
        "{}\n ```\nIt is fast.",
        "{}\n\nThis kernel is right, as it adds up.",
        "```bash\nmake\n```\nand\n{}",
        "\ufeff{}",
    ):
        assert kernels_build.extract(form.format(kernel)) == kernel, form
        assert kernels_build.extract(form.format(kernel).replace("\n", "\r\n")) == kernel, form


def test_the_compilers_words_come_without_paths(bench):
    found = _judged(bench, "axpy", _RELU + "{ int unused = undeclared + 1; }")
    assert found.gate == "compile" and "undeclared" in found.words and "in: " in found.words and "/" not in found.words


def test_headers_stand_behind_the_first_pragmas():
    made = kernels_build.with_headers('#pragma GCC optimize("fast-math")\nvoid kernel() {}')
    assert made.splitlines()[:2] == ['#pragma GCC optimize("fast-math")', "#include <math.h>"]


def test_what_ends_a_line_for_python_alone_ends_no_comment(bench):
    source = BY_NAME["dot"].source + "// a form feed \f and a separator \u2028 here"
    assert bench.judge(BY_NAME["dot"], f"```c\n{source}\n```", 0, timed=False).correct


def test_without_a_compiler_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(kernels_build.shutil, "which", lambda name: None)
    monkeypatch.setattr(kernels_build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvError, match=r"apt install gcc.*kernels"):
        envs.load("kernels")


# ------------------------------------------------------------------------------------------------ the environment
def test_it_keeps_the_promises_of_environments():
    env = envs.load("kernels:timed=false")
    check_env(env, n=3)
    check_env(env, n=2, act=lambda task, turn: BY_NAME[task.kind].source)
    (task,) = env.tasks("train", 1, 0)
    env.reset(task)
    assert env.step(BY_NAME[task.kind].source).info["rewards"] == {"compiles": 1.0, "correct": 1.0}
    env.close()


def test_a_turn_tells_gate_words_and_ratio():
    env = envs.load("kernels:faster")
    (task,) = env.tasks("heldout", 1, 0)
    assert "Make it faster" in env.reset(task).observation
    turn = env.step("```c\nvoid kernel( {\n```")
    assert turn.done and turn.info["gate"] == "compile" and turn.reward == 0.0 and not turn.success
    env.reset(task)
    turn = env.step(BY_NAME[task.kind].source)
    assert turn.info["gate"] == "" and 0.3 < turn.reward < 0.8 and turn.info["low"] <= turn.info["high"]
    assert turn.info["rewards"] == {"compiles": 1.0, "correct": 1.0, "ratio": turn.info["ratio"]}
    env.close()


OWN = """
import numpy as np
from evolvent.envs.text.kernels_operator import Operator, Quick

def cube(x, n):
    return x**3

OPERATORS = [Operator("cube", "third power", "const float* x, float* out, int n", cube, "x: n; out: n", {"n": 60000},
                      1e-4, "for (int i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i];")]
"""


def test_an_operator_of_ones_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    env = envs.load(f"kernels:own={file}")
    (task,) = env.tasks("train", 1, 0)
    assert "def cube(x, n)" in env.reset(task).observation
    assert env.step(
        "void kernel(const float* x, float* out, int n) { for (int i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i]; }"
    ).success
    env.close()
    file.write_text(OWN.replace("* x[i] * x[i];", "* x[i];"))
    env = envs.load(f"kernels:own={file}")
    env.reset(env.tasks("train", 1, 0)[0])
    with pytest.raises(EnvError, match="naive kernel is not right"):
        env.step(
            "void kernel(const float* x, float* out, int n) { for (int i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i]; }"
        )
    env.close()
    for wrong, message in (
        ("x * float('nan')", "no finite numbers"),
        ("x[:5]", r"\(5,\)"),
        ("'much'", "to compare"),
        ("1 // 0", "line 6, in cube: return 1 // 0"),
    ):
        file.write_text(OWN.replace("return x**3", f"return {wrong}"))
        env = envs.load(f"kernels:own={file}")
        env.reset(env.tasks("train", 1, 0)[0])
        with pytest.raises(
            EnvError, match=rf"(?s)reference of operator cube .*{message}"
        ):  # not a fault of the program
            env.step("void kernel(const float* x, float* out, int n) { for (int i = 0; i < n; i++) out[i] = x[i]; }")
        env.close()
    with pytest.raises(BadInput, match="argument"):
        print(Operator("bad", "", "const char** x", len, "", {}, 0, "").parameters)
    with pytest.raises(BadInput, match="Python file"):
        envs.load("kernels:own=nothing")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("OPERATORS = [Op", "OPERATORS = [1, Op", "no operator"),
        ("OPERATORS = [Op", "OPERATORS, more = [], [Op", "no operators"),
        ("out: n", "out: m", "dimensions of out.*NameError.*n"),
        ("x: n; out: n", "x: n", "dimensions of out.*out: and its"),
        ('{"n": 60000}', "{}", "usual sizes.*above 0 for each of n"),
        ('{"n": 60000}', '{"n": 0}', "usual sizes"),
        ('{"n": 60000}', '{"n": 60000000000}', "60,000,000,000 values"),
        ("1e-4", "-1", "no tolerance"),
        ("1e-4", "float('nan')", "no tolerance"),
    ],
)
def test_an_operator_that_cannot_be_meant_is_refused_with_what_is_wrong(tmp_path, old, new, message):
    file = tmp_path / "mine.py"
    file.write_text(OWN.replace(old, new))
    with pytest.raises(BadInput, match=f"(?s){message}.*where: .*mine.py"):
        envs.load(f"kernels:own={file}")


def test_the_same_machine_code_is_as_fast_as_itself_on_any_machine(monkeypatch):
    """On a busy one its clock says anything; here: twice as fast."""
    busy = np.full(kernels_run.ROUNDS, 1e-3), np.full(kernels_run.ROUNDS, 2e-3)
    monkeypatch.setattr(kernels_run, "pair", lambda *_: busy)
    speed = kernels_run.measured(cast(Any, None), b"code", b"code", BY_NAME["dot"], 2)
    assert speed.ratio == 1.0 and speed.low <= 1.0 <= speed.high and speed.microseconds == pytest.approx(500.0)
    assert kernels_run.measured(cast(Any, None), b"other", b"code", BY_NAME["dot"], 2).ratio == pytest.approx(2.0)
