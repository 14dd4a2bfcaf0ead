"""The world of kernels: what a kernel may keep, say and take, and that honest kernels are not suspected."""

import time

import pytest

from evolvent.core.errors import EnvError
from evolvent.envs.text import kernels_build, program
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


def test_a_kernel_that_sleeps_is_told_the_time_limit(bench, no_rules, monkeypatch):
    monkeypatch.setattr("evolvent.envs.text.kernels_run.TOGETHER_S", 1)
    source = BY_NAME["axpy"].source.replace("{", "{ usleep(200000);", 1)
    found = bench.judge(BY_NAME["axpy"], f"int usleep(unsigned);\n{source}", 7)
    assert found.gate == "correct" and "calls did not end in 1 s" in found.words, found


@pytest.mark.parametrize(
    "text", ["\n" * 60_000, " " * 60_000 + "x", "main(\n" * 10_000, "\n\nAs a" * 9000], ids=["lines", "blanks", "mains", "prose"]
)  # fmt: skip
def test_a_program_is_found_in_time_that_grows_with_the_answer(text):
    began = time.process_time()
    for answer in (f"void kernel(int n)\n{text}x", f"```c\nvoid kernel(int n);{text}\n```", f"def f():{text}x"):
        kernels_build.extract(answer)
        program.extract(answer)
    assert time.process_time() - began < 2.0
