"""vLLM as the sampler of a language model that is trained here, in the same process.

    model.sampler = VllmSampler(model)
    model.sample(prompts, seeds=…, max_tokens=…)

vLLM keeps a second copy of the base. An adapter that has changed since it last sampled is handed over as a PEFT folder,
in memory where the machine has such storage, and replaced in place. Log-probabilities are those of the distribution
that was sampled from, so the gap to the trainer shows as with the built-in sampler. vLLM returns no entropies (NaN),
and samples free text only: listed actions are sampled by the model itself. For vllm 0.32; making it seeds torch.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput, optional
from evolvent.core.protocols import cut
from evolvent.models.language.load import source
from evolvent.models.language.model import LanguageModel
from evolvent.models.language.sample import Sampled, SamplingParams

_MEMORY = Path("/dev/shm")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has room for


class VllmSampler:
    """Draws completions with vLLM from the adapters of ``model`` as they are, in its precision and context.

    ``settings`` are further arguments of ``vllm.LLM``, such as ``gpu_memory_utilization``.

    Raises:
        BadInput: all weights of the model are trained.
        MissingExtra: vLLM is not installed.
    """

    def __init__(self, model: LanguageModel, **settings: Any) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights are handed over within the process
        vllm = self._vllm = optional("vllm", "vllm", "models.vllm")
        self._request_of = optional("vllm.lora.request", "vllm", "models.vllm").LoRARequest
        self._model = model
        self._folder = tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
        rank = max(self._write(name) for name in model.adapters)
        fixed: dict[str, Any] = {
            "model": str(source(model.name, None)[0]),
            "dtype": str(model.dtype).removeprefix("torch."),
            "max_model_len": model.context,
            "enable_lora": True,
            "max_loras": len(model.adapters),
            "max_lora_rank": min(r for r in _RANKS if r >= rank),
            "logprobs_mode": "processed_logprobs",
        }
        self._engine: Any = vllm.LLM(**(fixed | settings))
        self._seen: dict[str, dict[str, Tensor]] = {}

    def sync(self, adapter: str) -> None:
        """Let vLLM sample from the adapter as it is now, if it has changed."""
        now, before = self._model.state_dict(adapter), self._seen.get(adapter, {})
        if before and all(torch.equal(tensor, before[name]) for name, tensor in now.items()):
            return
        self._write(adapter)
        self._engine.llm_engine.add_lora(self._request(adapter, fresh=True))
        self._engine.reset_prefix_cache()  # keys and values of the former weights
        self._seen[adapter] = {name: tensor.detach().clone() for name, tensor in now.items()}

    def sample(
        self, prompts: Sequence[np.ndarray], n: int, seeds: Sequence[int], settings: SamplingParams, adapter: str | None
    ) -> list[Sampled]:
        """``n`` completions of each prompt, prompt-major, from the weights as they are; for ``LanguageModel.sample``.

        A completion has its own seed, but draws other tokens than the built-in sampler does with it.

        Raises:
            BadInput: a prompt that leaves no room in the context, or not one seed for each completion.
        """
        room = [self._model.context - len(prompt) for prompt in prompts]
        if len(seeds) != n * len(prompts) or not all(0 < r < self._model.context for r in room):
            raise BadInput(
                "prompts or seeds do not fit",
                got=f"prompts of {[len(p) for p in prompts]} tokens, {len(seeds)} seeds",
                expected=f"1 to {self._model.context - 1} tokens each, {n * len(prompts)} seeds",
                where="VllmSampler",
                do="shorten the prompt, or use a model with a longer context",
            )
        asked = [{"prompt_token_ids": np.asarray(p).tolist()} for p in prompts for _ in range(n)]
        ways = [
            self._vllm.SamplingParams(
                max_tokens=min(settings.max_tokens, room[i // n]),
                temperature=settings.temperature,
                logprobs=0,
                top_k=settings.top_k,
                top_p=settings.top_p,
                stop=list(settings.stop) or None,
                seed=int(seed) % 2**63,
                stop_token_ids=sorted(settings.end_ids),
                skip_special_tokens=False,
            )
            for i, seed in enumerate(seeds)
        ]
        request = None
        if adapter is not None:
            self.sync(adapter)
            request = self._request(adapter)
        done = self._engine.generate(asked, ways, lora_request=request, use_tqdm=False)
        return [self._sampled(one.outputs[0], settings.stop) for one in done]

    def close(self) -> None:
        """Remove what was written; the engine ends with the process."""
        self._folder.cleanup()

    # -------------------------------------------------------------------------------------------------- inside
    def _write(self, adapter: str) -> int:
        """The adapter as a folder of PEFT; returns its rank."""
        folder = Path(self._folder.name) / adapter
        self._model.save(folder, adapter)
        config = folder / "adapter_config.json"
        if not config.exists():
            raise BadInput(
                "vLLM samples from adapters",
                got="a model all of whose weights are trained",
                where="VllmSampler",
                expected="lora_rank > 0",
                do="train an adapter, or sample with the model itself",
            )
        return int(json.loads(config.read_text())["r"])

    def _request(self, adapter: str, *, fresh: bool = False) -> Any:
        number = 1 + self._model.adapters.index(adapter)
        path = str(Path(self._folder.name) / adapter)
        return self._request_of(adapter, number, path, load_inplace=fresh)

    def _sampled(self, output: Any, stop: Sequence[str]) -> Sampled:
        ids = np.array(output.token_ids, np.int32)
        logp = np.array(
            [by_id[i].logprob for i, by_id in zip(output.token_ids, output.logprobs, strict=True)], np.float32
        )
        ended = len(ids) and int(ids[-1]) in self._model.end_ids
        text = self._model.decode(ids[:-1] if ended else ids)
        text, stopped = cut(text, stop)
        return Sampled(ids, logp, np.full(len(ids), np.nan, np.float32), text, output.finish_reason, stopped)
