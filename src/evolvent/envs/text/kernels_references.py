"""What the operators of the world of kernels compute, in numpy: shown to whoever writes the kernel, as they stand.

They get arrays in double precision.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def axpy(x, y, a, n):
    return a * x + y


def dot(x, y, n):
    return np.array([x @ y])


def sum(x, n):
    return np.array([x.sum()])


def argmax_rows(x, rows, cols):
    return x.argmax(axis=1)  # the first of equals


def mean_var_rows(x, rows, cols):
    return x.mean(axis=1), x.var(axis=1)


def gelu(x, n):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def sigmoid(x, n):
    return 1 / (1 + np.exp(-x))


def softmax_rows(x, rows, cols):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def logsumexp_rows(x, rows, cols):
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


def layernorm(x, g, b, rows, cols):
    m = x.mean(axis=1, keepdims=True)
    return (x - m) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * g + b


def rmsnorm(x, g, rows, cols):
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * g


def matmul(A, B, M, N, K):
    return A @ B


def matvec(A, x, M, N):
    return A @ x


def linear_relu(X, W, b, M, N, K):
    return np.maximum(X @ W.T + b, 0)


def batched_matmul(A, B, T, M, N, K):
    return A @ B


def transpose(x, rows, cols):
    return x.T


def conv1d(x, w, n, k):
    return np.correlate(x, w, "valid")  # out[i] = sum over j of x[i+j] * w[j]


def conv2d_3x3(x, w, C, H, W, O):
    return np.einsum("chwij,ocij->ohw", sliding_window_view(x, (3, 3), axis=(1, 2)), w, optimize=True)


def depthwise_3x3(x, w, C, H, W):
    return np.einsum("chwij,cij->chw", sliding_window_view(x, (3, 3), axis=(1, 2)), w, optimize=True)


def maxpool2x2(x, C, h, w):
    return x.reshape(C, h, 2, w, 2).max(axis=(2, 4))


def cumsum_rows(x, rows, cols):
    return np.cumsum(x, axis=1)


def cross_entropy(x, y, rows, cols):
    m = x.max(axis=1)
    lse = m + np.log(np.exp(x - m[:, None]).sum(axis=1))
    return np.array([(lse - x[np.arange(rows), y]).mean()])


def pairwise_sqdist(A, B, M, N, K):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2)


def histogram256(x, n):
    return np.bincount(x, minlength=256)


def csr_matvec(val, col, ptr, x, rows, cols, nnz):
    p = np.concatenate([[0], np.cumsum(val * x[col])])
    return p[ptr[1:]] - p[ptr[:-1]]


def attention(Q, K, V, n, d):
    s = Q @ K.T / np.sqrt(d)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ V


def embedding_sum(E, idx, rows, k, d, words):
    return E[idx].sum(axis=1)


def jacobi5(x, H, W):
    o = x.copy()  # the border stays
    o[1:-1, 1:-1] = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
    return o


def topk8_rows(x, rows, cols):
    return -np.sort(-x, axis=1)[:, :8]


def int8_matmul(A, B, M, N, K):
    return A.astype(np.int32) @ B.astype(np.int32).T
