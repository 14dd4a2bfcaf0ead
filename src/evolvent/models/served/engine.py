"""llama.cpp's C API, opened in this process through cffi (ABI mode): the few functions and structs we use.

The library is the extension inside the ``xllamacpp`` wheel, which exports the whole API, or any build of llama.cpp
named by ``$EVOLVENT_LLAMA_LIBRARY``. Structs are passed by value, so a library with another layout would read
garbage: ``load`` compares the library's own defaults, first and last fields, with what this layout must show.
"""

from __future__ import annotations

import importlib.util
import os
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import ModelError, missing_extra, optional
from evolvent.core.threads import threads_sleep

LIBRARY_VARIABLE = "EVOLVENT_LLAMA_LIBRARY"
PINNED = "xllamacpp==2026.10.11549"

# Layouts of llama.h as of llama.cpp b11549. Callbacks and unused pointers are void *.
_CDEF = """
typedef int32_t llama_pos; typedef int32_t llama_token; typedef int32_t llama_seq_id;
typedef struct { llama_token id; float logit; float p; } llama_token_data;
typedef struct { llama_token_data * data; size_t size; int64_t selected; bool sorted; } llama_token_data_array;
typedef struct {
    int32_t n_tokens; llama_token * token; float * embd; llama_pos * pos;
    int32_t * n_seq_id; llama_seq_id ** seq_id; int8_t * logits;
} llama_batch;
typedef struct {
    void * devices; void * tensor_buft_overrides;
    int32_t n_gpu_layers; int split_mode; int load_mode; int lazy_mode; int32_t main_gpu;
    void * tensor_split; void * progress_callback; void * progress_callback_user_data; void * kv_overrides;
    bool vocab_only; bool check_tensors; bool use_extra_bufts; bool no_host; bool no_alloc; bool load_mtp;
} llama_model_params;
typedef struct {
    uint32_t n_ctx; uint32_t n_batch; uint32_t n_ubatch; uint32_t n_seq_max; uint32_t n_rs_seq;
    uint32_t n_outputs_max; uint32_t n_outputs_max_per_seq; int32_t n_threads; int32_t n_threads_batch;
    int ctx_type; int rope_scaling_type; int pooling_type; int attention_type; int flash_attn_type;
    float rope_freq_base; float rope_freq_scale; float yarn_ext_factor; float yarn_attn_factor;
    float yarn_beta_fast; float yarn_beta_slow; uint32_t yarn_orig_ctx; float defrag_thold;
    void * cb_eval; void * cb_eval_user_data; int type_k; int type_v; size_t moe_cache_size;
    void * abort_callback; void * abort_callback_data;
    bool embeddings; bool offload_kqv; bool no_perf; bool op_offload; bool swa_full; bool kv_unified;
    void * samplers; size_t n_samplers; void * ctx_other;
} llama_context_params;

const char * llama_version(void);
void llama_log_set(void (*callback)(int level, const char * text, void * data), void * data);
void llama_backend_init(void);
llama_model_params llama_model_default_params(void);
llama_context_params llama_context_default_params(void);
void * llama_model_load_from_file(const char * path, llama_model_params params);
void llama_model_free(void * model);
int32_t llama_model_n_ctx_train(const void * model);
const void * llama_model_get_vocab(const void * model);
void * llama_init_from_model(void * model, llama_context_params params);
void llama_free(void * context);
void * llama_get_memory(const void * context);
bool llama_memory_seq_rm(void * memory, llama_seq_id seq, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(void * memory, llama_seq_id src, llama_seq_id dst, llama_pos p0, llama_pos p1);
void llama_memory_clear(void * memory, bool data);
int32_t llama_decode(void * context, llama_batch batch);
float * llama_get_logits_ith(void * context, int32_t i);
int32_t llama_vocab_n_tokens(const void * vocab);
bool llama_vocab_is_eog(const void * vocab, llama_token token);
int32_t llama_tokenize(const void * vocab, const char * text, int32_t text_len, llama_token * tokens,
                       int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const void * vocab, llama_token token, char * buf, int32_t length, int32_t lstrip,
                             bool special);
void * llama_sampler_init_grammar(const void * vocab, const char * grammar, const char * root);
void llama_sampler_apply(void * sampler, llama_token_data_array * candidates);
void llama_sampler_accept(void * sampler, llama_token token);
void llama_sampler_free(void * sampler);
"""

_messages: deque[str] = deque(maxlen=40)  # what the engine logged last; quoted when it fails


def last_messages(n: int = 3) -> str:
    """The engine's last ``n`` warnings and errors, for error messages."""
    return " | ".join(list(_messages)[-n:])


@cache
def load() -> tuple[Any, Any]:
    """Open the library once: ``(ffi, lib)``.

    Raises:
        MissingExtra: cffi or xllamacpp is not installed and no library was named.
        ModelError: the library cannot be opened, lacks a function, or has another struct layout.
    """
    ffi: Any = optional("cffi", "llama", "models.engine.load").FFI()
    path = _library_path()
    ffi.cdef(_CDEF)
    try:
        with threads_sleep():
            lib: Any = ffi.dlopen(str(path))
        _check_layout(ffi, lib, path)
    except (OSError, AttributeError) as error:
        raise ModelError(
            "the llama.cpp library cannot be used",
            got=str(error),
            expected=f"the library of {PINNED}",
            where=str(path),
            do=f"pip install {PINNED}, or point ${LIBRARY_VARIABLE} to libllama of the same version",
        ) from error

    @ffi.callback("void(int, const char *, void *)")
    def on_log(level: int, text: Any, _data: Any) -> None:
        if level in (3, 4):  # warnings and errors
            _messages.append(ffi.string(text).decode(errors="replace").strip())

    lib.llama_log_set(on_log, ffi.NULL)
    lib.llama_backend_init()
    _callbacks.append(on_log)
    return ffi, lib


_callbacks: list[Any] = []  # callbacks must outlive the library's use of them


def _library_path() -> Path:
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ModelError("no such library", got=str(path), where=f"${LIBRARY_VARIABLE}", do="unset it or mend it")
        return path
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("xllamacpp", "llama", "models.engine.load")
    folder = Path(spec.submodule_search_locations[0])
    for pattern in ("xllamacpp*.so", "xllamacpp*.pyd", "xllamacpp*.dylib"):
        if found := sorted(folder.glob(pattern)):
            return found[0]
    raise ModelError("xllamacpp has no extension module", where=str(folder), do=f"reinstall: pip install {PINNED}")


def _check_layout(ffi: Any, lib: Any, path: Path) -> None:
    """Refuse a library whose structs have another layout: its defaults, read through ours, are then not llama.cpp's."""
    c, m = lib.llama_context_default_params(), lib.llama_model_default_params()
    shown = {  # what it says, and what llama.cpp's defaults are
        "sizes": ((c.n_ctx, c.n_batch, c.n_ubatch, c.n_seq_max), (512, 2048, 512, 1)),
        "middle": ((c.flash_attn_type, c.type_k, c.type_v), (-1, 1, 1)),
        "flags": ((c.embeddings, c.offload_kqv, c.swa_full, c.kv_unified), (False, True, True, False)),
        "end": ((c.samplers == ffi.NULL, c.n_samplers, c.ctx_other == ffi.NULL), (True, 0, True)),
        "model": (
            (m.vocab_only, m.check_tensors, m.use_extra_bufts, m.kv_overrides == ffi.NULL),
            (False, False, True, True),
        ),
    }
    other = {name: pair for name, pair in shown.items() if pair[0] != pair[1]}
    if other:
        raise ModelError(
            "the llama.cpp library has another struct layout than this version of Evolvent knows",
            got={name: got for name, (got, _) in other.items()},
            expected={name: expected for name, (_, expected) in other.items()},
            where=str(path),
            do=f"pip install {PINNED}, or unset ${LIBRARY_VARIABLE}",
        )
