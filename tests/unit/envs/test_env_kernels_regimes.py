"""Kernels that are right for some numbers alone: for large differences, for no ties, no zeros, nothing huge."""
# ruff: noqa: E501 - programs in one line

from dataclasses import replace

import numpy as np
import pytest

from evolvent.core.errors import EnvError
from evolvent.envs.text import kernels_regimes, kernels_run
from evolvent.envs.text.kernels import Bench
from evolvent.envs.text.kernels_operator import Operator, scaled
from evolvent.envs.text.kernels_regimes import REGIMES, USUAL, WORDS
from evolvent.envs.text.kernels_tasks import ALL, BY_NAME
from evolvent.sandbox import NoSandbox

try:
    _bench = Bench()
except (EnvError, NoSandbox) as error:  # pragma: no cover - a machine without a compiler or a jail
    pytest.skip(f"kernels cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def bench():
    yield _bench
    _bench.close()


def right_at_spread_30(monkeypatch, operator):
    """The operator as it was drawn before: logits of spread 30 and nothing else."""
    monkeypatch.setattr(kernels_run, "REGIMES", (USUAL,))
    return replace(operator, draws={**operator.draws, "Q" if operator.name == "attention" else "x": scaled(30.0)})


_TOP = "static float last(const float* p, int n) { float b[16]; for (int k = 0; k < 16; k++) b[k] = -1e30f; for (int c = 0; c < n; c++) { float v = p[c]; if (v > b[15]) { int k = 15; while (k > 0 && b[k - 1] < v) { b[k] = b[k - 1]; k--; } b[k] = v; } } return b[15]; }\n"
DROPS = {
    "softmax_rows": ("s += o[c]; }", "if (p[c] < last(p, cols)) o[c] = 0; s += o[c]; }"),
    "logsumexp_rows": ("s += expf(p[c] - m);", "if (p[c] >= last(p, cols)) s += expf(p[c] - m);"),
    "cross_entropy": ("s += expf(p[c] - m);", "if (p[c] >= last(p, cols)) s += expf(p[c] - m);"),
    "attention": (
        "s[j] = expf(s[j] - m); t += s[j];",
        "s[j] = s[j] < m - 9 ? 0 : expf((s[j] - m) * 1.02f); t += s[j];",
    ),
    "gelu": (
        "0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))",
        "v < -2 ? 0 : 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))",
    ),
}
"""Kernels that drop all but the sixteen largest terms, or what matters where numbers are near."""


def dropping(name):
    source, (old, new) = " ".join(BY_NAME[name].source.split()), DROPS[name]
    assert source.count(old) == 1, source
    source = (
        source.replace(old, new)
        .replace("last(p, cols)", "e")
        .replace("float m = p[0];", "float e = last(p, cols); float m = p[0];")
    )
    return _TOP + source


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("seed", range(2))
def test_what_drops_all_but_the_largest_is_wrong(bench, name, seed):
    found = bench.judge(BY_NAME[name], dropping(name), seed, timed=False)
    assert found.gate == "correct", found


@pytest.mark.parametrize("name", ["logsumexp_rows", "softmax_rows", "cross_entropy"])
def test_and_it_was_right_at_spread_30_alone(bench, name, monkeypatch):
    old = right_at_spread_30(monkeypatch, BY_NAME[name])
    assert bench.judge(old, dropping(name), 0, timed=False).correct


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sum", "s += x[i];", "s += fabsf(x[i]) < 1e-3f ? 0 : x[i];"),
        ("dot", "s += x[i] * y[i];", "s += fabsf(x[i]) < 1e-2f ? 0 : x[i] * y[i];"),
        ("dot", "s += x[i] * y[i];", "s += fabsf(y[i]) < 1e-2f ? 0 : x[i] * y[i];"),
    ],
)
def test_what_drops_small_numbers_is_wrong(bench, name, old, new):
    source = BY_NAME[name].source
    assert source.count(old) == 1
    for seed in range(3):
        assert bench.judge(BY_NAME[name], source.replace(old, new), seed, timed=False).gate == "correct", seed


# ------------------------------------------------------------------------------------------------ every regime
def blind(operator, condition):
    """The naive kernel, which looks at all its float inputs first, and leaves where the condition is not met."""
    looks, arrays = "float most = 0; long tiny = 0, minus = 0, apart = 0; ", 0
    for name, kind, role in operator.parameters:
        if role == "in" and kind == "float":
            dims = {key.strip(): dim for key, dim in (part.split(":") for part in operator.shapes.split(";"))}
            size, arrays = "(long)" + "*".join(f"({dim})" for dim in dims[name].split(",")), arrays + 1
            looks += (
                f"{{ long e_ = 1; for (long i_ = 0; i_ < {size}; i_++) {{ float v_ = {name}[i_], w_ = fabsf(v_); if (w_ > most) most = w_; "
                f"tiny += w_ > 0 && w_ < 1e-38f; minus += v_ == 0 && signbit(v_); e_ &= v_ == {name}[0]; }} apart += !e_ || {size} < 2; }} "
            )
    body = operator.source.partition("{")[2]
    return f"{operator.prototype} {{ {looks} if (!({condition.replace('ARRAYS', str(arrays))})) return; {body}"


CONDITIONS = {
    "numbers below 20": "most >= 20",
    "what is all equal": "apart == ARRAYS",
    "what is huge": "most < 9000",
    "denormal numbers": "tiny == 0",
    "zeros of both signs": "minus == 0",
}
FLOATS = [operator for operator in ALL if any(r == "in" and k == "float" for _, k, r in operator.parameters)]
_FEW = ("logsumexp_rows", "argmax_rows", "csr_matvec")


@pytest.mark.parametrize("blindness", CONDITIONS)
@pytest.mark.parametrize(
    "operator", [pytest.param(o, id=o.name, marks=[] if o.name in _FEW else [pytest.mark.slow]) for o in FLOATS]
)
def test_a_kernel_that_leaves_out_some_numbers_is_wrong_for_every_operator(bench, operator, blindness):
    found = bench.judge(operator, blind(operator, CONDITIONS[blindness]), 5, timed=False)
    assert found.gate == "correct", found


@pytest.mark.parametrize("name", ["histogram256", "int8_matmul"])
@pytest.mark.parametrize("condition", ["z < n", "z > 0"])
def test_bytes_have_regimes_as_well(bench, name, condition):
    first, size = ("x", "n") if name == "histogram256" else ("A", "M * K")
    looks = f"long n_ = {size}, z = 0; for (long i = 0; i < n_; i++) z += {first}[i] == 0; if (!({condition.replace('n', 'n_')})) return; "
    source = f"{BY_NAME[name].prototype} {{ {looks} {BY_NAME[name].source.partition('{')[2]}"
    assert bench.judge(BY_NAME[name], source, 3, timed=False).gate == "correct"


# ------------------------------------------------------------------------------------------------ what is drawn
@pytest.mark.parametrize("seed", range(3))
def test_all_regimes_come_in_each_judgement_at_the_usual_sizes_and_at_others(seed):
    operator, seen = BY_NAME["logsumexp_rows"], []
    drawn = Operator.inputs

    def noted(self, rng, sizes, regime=USUAL):
        seen.append((regime, sizes["rows"] == 96 and sizes["cols"] == 1024))
        return drawn(self, rng, sizes, regime)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Operator, "inputs", noted)
        regimes = {
            one.prefix.rpartition(" with ")[2].rstrip(": ")
            for one in kernels_run.cases(operator, np.random.default_rng(seed))
        }
    assert {(regime, usual) for regime in REGIMES for usual in (True, False)} == set(seen)
    assert set(WORDS.values()) <= regimes


def test_what_a_regime_draws():
    rng, x = np.random.default_rng(0), np.random.default_rng(1).normal(2.0, 5.0, (40, 50)).astype(np.float32)
    made = {name: kernels_regimes.drawn(rng, name, x, True) for name in WORDS}
    assert all(array.shape == x.shape and array.dtype == np.float32 for array in made.values())
    assert np.unique(made["equal"]).size == 1 and 3 < np.unique(made["ties"]).size < 12
    assert abs(made["spread 1"].std() - 1) < 0.01 and abs(made["spread 30"].std() - 30) < 0.1
    assert (np.abs(made["one huge"]) > 9000).sum() == 1
    zeros = made["signed zeros"] == 0
    assert 0 < np.signbit(made["signed zeros"][zeros]).sum() < zeros.sum()
    assert 0 < np.abs(made["denormals"]).max() < np.finfo(np.float32).tiny
    kept = {name: kernels_regimes.drawn(rng, name, x, False) for name in WORDS}  # a draw of one's own
    assert all(np.isin(array, x).all() for array in kept.values()) and np.unique(kept["equal"]).size == 1


def test_an_operator_of_ones_own_keeps_to_its_numbers_and_to_what_its_reference_defines():
    def positive(rng, shape, sizes):
        return rng.uniform(0.5, 2.0, shape)

    def divided(x, y, n):
        assert (x > 0).all()
        return y / x + 1 / y

    own = Operator(
        "own",
        "",
        "const float* x, const float* y, float* out, int n",
        divided,
        "x: n; y: n; out: n",
        {"n": 50},
        1e-3,
        "",
        {"x": positive},
    )
    found = kernels_run.cases(own, np.random.default_rng(0))  # where y is zero, 1/y is no number
    assert 8 < len(found) < 2 * len(REGIMES) + 2
    undefined = replace(own, reference=lambda x, y, n: y + np.nan)
    with pytest.raises(EnvError, match="no finite numbers"):
        kernels_run.cases(undefined, np.random.default_rng(0))
