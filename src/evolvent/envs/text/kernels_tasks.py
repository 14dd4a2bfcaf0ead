"""The operators of the world of kernels.

References get arrays in double precision and are shown to whoever writes the kernel. All arrays are C-contiguous;
outputs are allocated by the caller and hold no numbers before the call. Largest error: tol × max(1, |expected|).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evolvent.envs.text import kernels_references as references
from evolvent.envs.text.kernels_operator import Operator, apart, below, row_ends, scaled, spreads, tiny_rows

_ROWS = "x: rows, cols; out: rows, cols"
_EACH_ROW = "for (int r = 0; r < rows; r++) { const float* p = x + (long)r * cols; "
_MAX = "float m = p[0]; for (int c = 1; c < cols; c++) if (p[c] > m) m = p[c]; "
_X = "const float* x, "
_N, _RC = "float* out, int n", "float* out, int rows, int cols"
_MNK = "int M, int N, int K"


def _of(reference: Callable[..., Any], words: str, args: str, *rest: Any, **named: Any) -> Operator:
    """An operator by the name of its reference."""
    return Operator(reference.__name__, words, args, reference, *rest, **named)


ALL = (
    _of(
        references.axpy,
        "out = a x + y",
        f"{_X}const float* y, float a, {_N}",
        "x: n; y: n; out: n",
        {"n": 1 << 18},
        1e-6,
        "for (int i = 0; i < n; i++) out[i] = a * x[i] + y[i];",
    ),
    _of(
        references.dot,
        "dot product of two vectors",
        f"{_X}const float* y, {_N}",
        "x: n; y: n; out: 1",
        {"n": 1 << 18},
        1e-3,
        "float s = 0; for (int i = 0; i < n; i++) s += x[i] * y[i]; out[0] = s;",
        {"x": scaled(1.0, 0.7), "y": scaled(1.0, 0.7)},
    ),
    _of(
        references.sum,
        "sum of a vector",
        f"{_X}{_N}",
        "x: n; out: 1",
        {"n": 1 << 18},
        1e-4,
        "double s = 0; for (int i = 0; i < n; i++) s += x[i]; out[0] = (float)s;",
        {"x": scaled(1.0, 0.5)},
    ),
    _of(
        references.argmax_rows,
        "index of the largest value of each row, the first of equals",
        f"{_X}int* out, int rows, int cols",
        "x: rows, cols; out: rows",
        {"rows": 256, "cols": 1000},
        0,
        "for (int r = 0; r < rows; r++) { int b = 0; for (int c = 1; c < cols; "
        "c++) if (x[(long)r * cols + c] > x[(long)r * cols + b]) b = c; out[r] = b; }",
        {"x": apart(0.25)},
    ),
    _of(
        references.mean_var_rows,
        "mean and variance of each row",
        f"{_X}float* mean, float* var, int rows, int cols",
        "x: rows, cols; mean: rows; var: rows",
        {"rows": 256, "cols": 1000},
        1e-4,
        f"{_EACH_ROW}double s = 0, q = 0; for (int c = 0; c < cols; c++) s += p[c]; s /= cols; for (int c = 0; "
        "c < cols; c++) { double d = p[c] - s; q += d * d; } mean[r] = s; var[r] = q / cols; }",
        {"x": scaled(1.0, 100.0)},
    ),
    _of(
        references.gelu,
        "GELU by its tanh formula, elementwise",
        f"{_X}{_N}",
        "x: n; out: n",
        {"n": 1 << 16},
        2e-4,
        "for (int i = 0; i < n; i++) { float v = x[i]; out[i] = 0.5f * v * (1 + tanhf(0.7978845608f * (v + "
        "0.044715f * v * v * v))); }",
        {"x": scaled(3.0)},
    ),
    _of(
        references.sigmoid,
        "sigmoid, elementwise",
        f"{_X}{_N}",
        "x: n; out: n",
        {"n": 1 << 16},
        1e-5,
        "for (int i = 0; i < n; i++) { float v = x[i] < -80 ? -80 : x[i]; out[i] = 1 / (1 + expf(-v)); }",
        {"x": scaled(20.0)},
    ),
    _of(
        references.softmax_rows,
        "softmax of each row; inputs may be large",
        f"{_X}{_RC}",
        _ROWS,
        {"rows": 96, "cols": 1024},
        1e-4,
        f"{_EACH_ROW}float* o = out + (long)r * cols; {_MAX}float s = 0; for "
        "(int c = 0; c < cols; c++) { o[c] = expf(p[c] - m); s += o[c]; } for (int c = 0; c < cols; c++) o[c] /= "
        "s; }",
        {"x": spreads(0.3, 30.0)},
    ),
    _of(
        references.logsumexp_rows,
        "log of the sum of exponentials of each row; inputs may be large",
        f"{_X}{_RC}",
        "x: rows, cols; out: rows",
        {"rows": 96, "cols": 1024},
        1e-4,
        f"{_EACH_ROW}{_MAX}double s = 0; for (int c = 0; c < cols; c++) s += expf(p[c] - m); out[r] = m + logf(s); }}",
        {"x": spreads(0.3, 30.0)},
    ),
    _of(
        references.layernorm,
        "layer normalisation of each row with gain and bias, eps 1e-5",
        f"{_X}const float* g, const float* b, {_RC}",
        f"{_ROWS}; g: cols; b: cols",
        {"rows": 256, "cols": 768},
        1e-3,
        f"{_EACH_ROW}float* o = out + (long)r * cols; float m = 0, v = 0; for "
        "(int c = 0; c < cols; c++) m += p[c]; m /= cols; for (int c = 0; c < cols; c++) { float d = p[c] - m; v "
        "+= d * d; } v = 1 / sqrtf(v / cols + 1e-5f); for (int c = 0; c < cols; c++) o[c] = (p[c] - m) * v * g[c] "
        "+ b[c]; }",
        {"x": tiny_rows(3.0, 1.0)},
    ),
    _of(
        references.rmsnorm,
        "root mean square normalisation of each row with gain, eps 1e-6",
        f"{_X}const float* g, {_RC}",
        f"{_ROWS}; g: cols",
        {"rows": 256, "cols": 768},
        1e-3,
        f"{_EACH_ROW}float* o = out + (long)r * cols; float v = 0; for (int c = 0; c < cols; c++) v += p[c] * "
        "p[c]; v = 1 / sqrtf(v / cols + 1e-6f); for (int c = 0; c < cols; c++) o[c] = p[c] * v * g[c]; }",
        {"x": tiny_rows(1.0)},
    ),
    _of(
        references.matmul,
        "C[M,N] = A[M,K] B[K,N]",
        f"const float* A, const float* B, float* C, {_MNK}",
        "A: M, K; B: K, N; C: M, N",
        {"M": 96, "N": 112, "K": 80},
        1e-3,
        "for (int i = 0; i < M; i++) for (int j "
        "= 0; j < N; j++) { float s = 0; for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j]; C[i * N + "
        "j] = s; }",
    ),
    _of(
        references.matvec,
        "matrix times vector",
        "const float* A, const float* x, float* y, int M, int N",
        "A: M, N; x: N; y: M",
        {"M": 256, "N": 1024},
        1e-3,
        "for (int i = 0; i < M; i++) { float s = 0; for (int "
        "j = 0; j < N; j++) s += A[(long)i * N + j] * x[j]; y[i] = s; }",
    ),
    _of(
        references.linear_relu,
        "Y = relu(X[M,K] W[N,K]^T + b)",
        f"const float* X, const float* W, const float* b, float* Y, {_MNK}",
        "X: M, K; W: N, K; b: N; Y: M, N",
        {"M": 48, "N": 96, "K": 256},
        1e-3,
        "for (int i = 0; i < M; i++) for "
        "(int j = 0; j < N; j++) { float s = b[j]; for (int k = 0; k < K; k++) s += X[i * K + k] * W[j * K + k]; "
        "Y[i * N + j] = s > 0 ? s : 0; }",
    ),
    _of(
        references.batched_matmul,
        "C[t] = A[t] B[t] for each t of T",
        f"const float* A, const float* B, float* C, int T, {_MNK}",
        "A: T, M, K; B: T, K, N; C: T, M, N",
        {"T": 12, "M": 40, "N": 48, "K": 32},
        1e-3,
        "for (int t = 0; t < T; "
        "t++) for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) { float s = 0; for (int k = 0; k < K; k++) "
        "s += A[(t * M + i) * K + k] * B[(t * K + k) * N + j]; C[(t * M + i) * N + j] = s; }",
        hidden=lambda rng: dict(zip("TMNK", rng.integers(1, 30, 4).tolist(), strict=True)),
    ),
    _of(
        references.transpose,
        "transpose of a matrix",
        f"{_X}{_RC}",
        "x: rows, cols; out: cols, rows",
        {"rows": 500, "cols": 600},
        0,
        "for (int r = 0; r < rows; r++) for (int c = 0; c < cols; c++) "
        "out[(long)c * rows + r] = x[(long)r * cols + c];",
    ),
    _of(
        references.conv1d,
        "valid cross-correlation of n values with k weights",
        f"{_X}const float* w, {_N}, int k",
        "x: n; w: k; out: n-k+1",
        {"n": 1 << 15, "k": 31},
        1e-3,
        "for (int i = 0; i + k <= n; i++) { float s = 0; for (int j = 0; j < k; j++) s += x[i + j] * "
        "w[j]; out[i] = s; }",
        hidden=lambda rng: {"n": int(rng.integers(20, 90)), "k": int(rng.integers(1, 20))},
    ),
    _of(
        references.conv2d_3x3,
        "valid cross-correlation of C images with 3x3 weights, summed over C, for each of O outputs",
        f"{_X}const float* w, float* out, int C, int H, int W, int O",
        "x: C, H, W; w: O, C, 3, 3; out: O, H-2, W-2",
        {"C": 4, "H": 48, "W": 50, "O": 8},
        1e-3,
        "for (int o = 0; "
        "o < O; o++) for (int y = 0; y < H - 2; y++) for (int z = 0; z < W - 2; z++) { float s = 0; for (int c = "
        "0; c < C; c++) for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) s += x[(c * H + y + i) * W + z + "
        "j] * w[((o * C + c) * 3 + i) * 3 + j]; out[(o * (H - 2) + y) * (W - 2) + z] = s; }",
        hidden=lambda rng: dict(zip("CHWO", rng.integers((1, 3, 3, 1), (6, 30, 30, 8)).tolist(), strict=True)),
    ),
    _of(
        references.depthwise_3x3,
        "valid cross-correlation of each of C images with 3x3 weights of its own",
        f"{_X}const float* w, float* out, int C, int H, int W",
        "x: C, H, W; w: C, 3, 3; out: C, H-2, W-2",
        {"C": 16, "H": 64, "W": 66},
        1e-3,
        "for (int c = 0; c < C; "
        "c++) for (int y = 0; y < H - 2; y++) for (int z = 0; z < W - 2; z++) { float s = 0; for (int i = 0; i < "
        "3; i++) for (int j = 0; j < 3; j++) s += x[(c * H + y + i) * W + z + j] * w[(c * 3 + i) * 3 + j]; "
        "out[(c * (H - 2) + y) * (W - 2) + z] = s; }",
        hidden=lambda rng: dict(zip("CHW", rng.integers((1, 3, 3), (8, 40, 40)).tolist(), strict=True)),
    ),
    _of(
        references.maxpool2x2,
        "largest of each 2x2 block; images are 2h high and 2w wide",
        f"{_X}float* out, int C, int h, int w",
        "x: C, 2*h, 2*w; out: C, h, w",
        {"C": 16, "h": 64, "w": 64},
        0,
        "for (int c = 0; c < C; c++) for (int y = 0; y < h; y++) for (int z = 0; "
        "z < w; z++) { const float* p = x + ((long)c * 2 * h + 2 * y) * 2 * w + 2 * z; float m = p[0]; if (p[1] > "
        "m) m = p[1]; if (p[2 * w] > m) m = p[2 * w]; if (p[2 * w + 1] > m) m = p[2 * w + 1]; "
        "out[((long)c * h + y) * w + z] = m; }",
    ),
    _of(
        references.cumsum_rows,
        "running sum along each row",
        f"{_X}{_RC}",
        _ROWS,
        {"rows": 128, "cols": 2048},
        1e-3,
        f"{_EACH_ROW}double s = 0; for (int c = 0; c < cols; c++) {{ s += p[c]; out[(long)r * cols + c] = s; }} }}",
    ),
    _of(
        references.cross_entropy,
        "mean over rows of the cross entropy of logits with the label of each row",
        f"{_X}const int* y, {_RC}",
        "x: rows, cols; y: rows; out: 1",
        {"rows": 96, "cols": 1000},
        1e-4,
        f"double t = 0; {_EACH_ROW}{_MAX}double s = 0; for (int c = 0; c < cols; c++) s += expf(p[c] - m); "
        "t += m + logf(s) - p[y[r]]; } out[0] = t / rows;",
        {"x": spreads(0.3, 30.0), "y": below("cols")},
    ),
    _of(
        references.pairwise_sqdist,
        "D[i,j] = squared distance of the rows A[i] and B[j]",
        f"const float* A, const float* B, float* D, {_MNK}",
        "A: M, K; B: N, K; D: M, N",
        {"M": 96, "N": 112, "K": 64},
        1e-3,
        "for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) { float s = "
        "0; for (int k = 0; k < K; k++) { float d = A[i * K + k] - B[j * K + k]; s += d * d; } D[i * N + j] = s; "
        "}",
    ),
    _of(
        references.histogram256,
        "how often each of 256 byte values occurs",
        "const unsigned char* x, int* out, int n",
        "x: n; out: 256",
        {"n": 1 << 19},
        0,
        "for (int i = 0; i < 256; i++) out[i] = 0; for (int i = 0; i < n; i++) out[x[i]]++;",
    ),
    _of(
        references.csr_matvec,
        "sparse matrix (CSR) times vector; rows may be empty",
        "const float* val, const int* col, const int* ptr, const float* x, float* y, int rows, int cols, int nnz",
        "val: nnz; col: nnz; ptr: rows+1; x: cols; y: rows",
        {"rows": 2000, "cols": 3000, "nnz": 60000},
        1e-3,
        "for (int r = 0; r < rows; r++) { float s = 0; for (int k = ptr[r]; k < ptr[r + 1]; k++) s += "
        "val[k] * x[col[k]]; y[r] = s; }",
        {"col": below("cols"), "ptr": row_ends},
    ),
    _of(
        references.attention,
        "one head of attention without mask; n is at most 1024",
        "const float* Q, const float* K, const float* V, float* out, int n, int d",
        "Q: n, d; K: n, d; V: n, d; out: n, d",
        {"n": 80, "d": 64},
        1e-3,
        "float s[1024]; for (int i = 0; i < n; "
        "i++) { float m = -1e30f, t = 0; for (int j = 0; j < n; j++) { float a = 0; for (int k = 0; k < d; k++) a "
        "+= Q[i * d + k] * K[j * d + k]; s[j] = a / sqrtf(d); if (s[j] > m) m = s[j]; } for (int j = 0; j < n; "
        "j++) { s[j] = expf(s[j] - m); t += s[j]; } for (int k = 0; k < d; k++) { float a = 0; for (int j = 0; j "
        "< n; j++) a += s[j] * V[j * d + k]; out[i * d + k] = a / t; } }",
        {"Q": spreads(0.3, 40.0)},
    ),
    _of(
        references.embedding_sum,
        "sum of the k rows of E that idx names, for each row of idx",
        "const float* E, const int* idx, float* out, int rows, int k, int d, int words",
        "E: words, d; idx: rows, k; out: rows, d",
        {"rows": 400, "k": 10, "d": 64, "words": 3000},
        1e-4,
        "for (int r = 0; r < rows; r++) for (int c = 0; c < d; c++) { float s = 0; for (int j = 0; j < k; j++) s "
        "+= E[(long)idx[r * k + j] * d + c]; out[r * d + c] = s; }",
        {"idx": below("words")},
    ),
    _of(
        references.jacobi5,
        "mean of the four neighbours; the border is copied",
        f"{_X}float* out, int H, int W",
        "x: H, W; out: H, W",
        {"H": 400, "W": 600},
        1e-5,
        "for (int y = 0; y < H; y++) for (int z = 0; z < W; "
        "z++) { long p = (long)y * W + z; if (y == 0 || z == 0 || y == H - 1 || z == W - 1) out[p] = x[p]; else "
        "out[p] = 0.25f * (x[p - 1] + x[p + 1] + x[p - W] + x[p + W]); }",
    ),
    _of(
        references.topk8_rows,
        "the 8 largest values of each row, descending",
        f"{_X}{_RC}",
        "x: rows, cols; out: rows, 8",
        {"rows": 128, "cols": 1000},
        0,
        f"{_EACH_ROW}float b[8]; for (int k = 0; "
        "k < 8; k++) b[k] = -1e30f; for (int c = 0; c < cols; c++) { float v = p[c]; if (v > b[7]) { int k = 7; "
        "while (k > 0 && b[k - 1] < v) { b[k] = b[k - 1]; k--; } b[k] = v; } } for (int k = 0; k < 8; k++) "
        "out[r * 8 + k] = b[k]; }",
        {"x": apart()},
        hidden=lambda rng: {"rows": int(rng.integers(1, 40)), "cols": int(rng.integers(8, 90))},
    ),
    _of(
        references.int8_matmul,
        "C = A[M,K] B[N,K]^T in integers",
        f"const signed char* A, const signed char* B, int* C, {_MNK}",
        "A: M, K; B: N, K; C: M, N",
        {"M": 64, "N": 80, "K": 256},
        0,
        "for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) { int s = 0; "
        "for (int k = 0; k < K; k++) s += (int)A[i * K + k] * B[j * K + k]; C[i * N + j] = s; }",
    ),
)
BY_NAME = {operator.name: operator for operator in ALL}
HELDOUT = (
    "sum",
    "sigmoid",
    "logsumexp_rows",
    "rmsnorm",
    "linear_relu",
    "depthwise_3x3",
    "csr_matvec",
    "embedding_sum",
    "topk8_rows",
    "int8_matmul",
)
"""Operators kept apart, each with relatives among the others."""
