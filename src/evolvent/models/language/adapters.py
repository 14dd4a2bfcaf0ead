"""LoRA adapters on one shared frozen base, through peft: made, switched, saved and loaded by name.

LoRA: Hu et al. 2021, arXiv:2106.09685. Switching costs nothing and copies nothing; every adapter stays trainable,
whichever is active.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from evolvent.core.errors import BadInput, ModelError, optional
from evolvent.core.seeding import seed_tree
from evolvent.models.language.load import NOTE, lasting, quiet, save_network, write_whole

POLICY = "policy"
ALL_LINEAR = "all-linear"
"""As a target: every linear layer but the head, as peft has it."""


class Adapters:
    """The trainable part of a causal language model of transformers: LoRA adapters by name, or all its weights.

    Until an adapter is added all of it is trained, under the name "policy". New adapters have the rank, alpha and
    targets of ``settings`` and first weights from ``seed``, each name its own stream. ``model`` is the network, inside
    peft's wrapper where there are adapters.
    """

    def __init__(self, network: Any, settings: tuple[int, int, Sequence[str]], seed: int) -> None:
        self.network, self.settings, self.seed = network, settings, seed
        self.model: Any = network
        self.names: list[str] = []
        self._layers: list[Any] = []
        self._active: str | None = None

    def add(self, name: str, config: Any = None) -> None:
        """A new adapter, at first without effect.

        Raises:
            BadInput: the name is taken or no name, or the network has no such target modules.
        """
        peft = optional("peft", "train", "models.language")
        if name in self.names or not name.isidentifier() or name in "lora_":  # peft's own prefix
            raise BadInput("no name for a new adapter", got=name, expected="a new identifier", where="adapters")
        rank, alpha, targets = self.settings
        modules = ALL_LINEAR if ALL_LINEAR in targets else list(targets)
        config = config or peft.LoraConfig(
            r=rank, lora_alpha=alpha, target_modules=modules, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM"
        )
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(seed_tree(self.seed, "lora", name))
            try:
                if self.names:
                    self.model.add_adapter(name, config)
                else:
                    self.model = peft.get_peft_model(self.network, config, adapter_name=name)
            except ValueError as error:
                raise BadInput("the adapter does not fit", got=str(error), where=f"adapters, {name!r}") from error
        self.names.append(name)
        self._layers = [m for m in self.network.modules() if isinstance(m, peft.tuners.lora.LoraLayer)]
        for layer in self._layers:
            layer.eval()
        self._switch(name)

    @property
    def full(self) -> bool:
        """Whether all weights are trained."""
        return not self.names

    def check(self, name: str | None) -> None:
        """Refuse what is no adapter.

        Raises:
            BadInput: naming those there are.
        """
        if self.full:
            if name is None:
                raise BadInput(
                    "no frozen reference inside a model whose weights are all trained",
                    where="adapter=None",
                    do="load the model a second time as the reference, or train LoRA adapters",
                )
            if name != POLICY:
                raise BadInput("no such adapter", got=name, expected="policy (all weights)", where="adapter=…")
        elif name is not None and name not in self.names:
            raise BadInput("no such adapter", got=name, expected=", ".join(self.names), where="adapter=…")

    @contextmanager
    def active(self, name: str | None) -> Iterator[None]:
        """Inside, the network acts with this adapter, or as the frozen base with ``None``."""
        before = self._active
        self._switch(name)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, name: str | None) -> None:
        if self.full or name == self._active:
            return
        for layer in self._layers:
            if name is None:
                layer.enable_adapters(False)
            else:
                layer.enable_adapters(True)
                layer.set_adapter(name)
        for parameter in self._lora():  # peft freezes those that are not active
            parameter.requires_grad_(True)
        self._active = name

    def checkpointed(self, run: Any, *args: Any) -> Any:
        """``run(*args)`` under gradient checkpointing; the second pass acts with the adapter of the first."""
        name = self._active

        def again(*inputs: Any) -> Any:
            with self.active(name):
                return run(*inputs)

        return torch.utils.checkpoint.checkpoint(again, *args, use_reentrant=False)

    # ------------------------------------------------------------------------------------------------ parameters
    def trainable(self, name: str) -> list[nn.Parameter]:
        """The parameters of an adapter, or of everything."""
        return list(self._named(name).values())

    def _named(self, name: str) -> dict[str, nn.Parameter]:
        self.check(name)
        if self.full:
            return dict(self.network.named_parameters())
        mine = re.compile(rf"\.lora_\w+\.{name}\b")
        return {key: p for key, p in self.network.named_parameters() if mine.search(key)}

    def _lora(self) -> list[nn.Parameter]:
        return [p for key, p in self.network.named_parameters() if "lora_" in key]

    def state_dict(self, name: str | None = None) -> dict[str, Tensor]:
        """Trainable tensors by name: of one adapter, or of all with ``None``."""
        names = [name] if name else self.names or [POLICY]
        return {key: p.detach() for one in names for key, p in self._named(one).items()}

    def load_state_dict(self, state: Mapping[str, Tensor], name: str | None = None) -> None:
        """Put tensors back in place.

        Raises:
            ModelError: they are those of another model or of other adapters.
        """
        mine = self.state_dict(name)
        wrong = sorted(mine.keys() ^ state.keys()) or [k for k in mine if mine[k].shape != state[k].shape]
        if wrong:
            raise ModelError(
                "the checkpoint is of another model or of other adapters",
                got=f"{wrong[0]} and {len(wrong) - 1} more",
                expected=f"{len(mine)} tensors of the same names and shapes",
                where="load_state_dict",
            )
        for key, tensor in mine.items():
            tensor.copy_(state[key])

    # ------------------------------------------------------------------------------------------------ folders
    def save(self, folder: Path, name: str, base: str, tokenizer: Any) -> None:
        """Write a folder that peft (or, with all weights, transformers) loads as it is."""
        self.check(name)
        if self.full:
            save_network(folder, self.network, tokenizer)
            return
        peft = optional("peft", "train", "models.language")
        from safetensors.torch import save_file

        def write(to: Path) -> None:
            tensors = peft.get_peft_model_state_dict(self.model, adapter_name=name)
            tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
            save_file(tensors, str(to / "adapter_model.safetensors"), metadata={"format": "pt"})
            config = copy.copy(self.model.peft_config[name])
            config.inference_mode, config.base_model_name_or_path = True, self.network.name_or_path
            config.save_pretrained(str(to))
            tokenizer.save_pretrained(str(to))
            note = {
                "base": lasting(base),
                "fingerprint": self.fingerprint(),
                "layers": self.layers(),
                "adapter": digest(tensors),
            }
            (to / NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")

        write_whole(folder, write)

    def save_merged(self, folder: Path, name: str, base: str, dtype: torch.dtype, tokenizer: Any) -> None:
        """Write a plain folder with the adapter in the weights, ``base`` as its name; then this has no adapters left.

        W + B A alpha / rank, summed in the format of the base.
        """
        self.check(name)
        network = self.network
        if not self.full:
            with quiet():
                network = self.model.merge_and_unload(adapter_names=[name])
        network = network.to(dtype)
        network.config._name_or_path = network.name_or_path = base
        save_network(folder, network, tokenizer)

    def load(self, folder: Path, name: str) -> None:
        """Read an adapter folder into the adapter ``name``, made if it is new; a head that stands in it is left there.

        Raises:
            ModelError: it belongs to another base, or cannot be read.
        """
        peft = optional("peft", "train", "models.language")
        try:
            config = peft.PeftConfig.from_pretrained(str(folder))
            tensors = peft.load_peft_weights(str(folder), device="cpu")
            if config.modules_to_save:
                tensors = {key: tensor for key, tensor in tensors.items() if "lora_" in key}
                config.modules_to_save, config.task_type = None, "CAUSAL_LM"
            note = json.loads((folder / NOTE).read_text(encoding="utf-8")) if (folder / NOTE).is_file() else {}
        except (OSError, ValueError, KeyError) as error:
            raise ModelError("an adapter folder that cannot be read", got=str(error), where=str(folder)) from error
        self._check_note(note, tensors, folder)
        config.inference_mode = False
        if name not in self.names:
            self.add(name, config)
        mine = peft.get_peft_model_state_dict(self.model, adapter_name=name)
        if mine.keys() != tensors.keys() or any(mine[key].shape != tensors[key].shape for key in mine):
            raise ModelError(
                "the adapter does not fit the one of that name",
                got=_shape(config),
                where=str(folder),
                expected=_shape(self.model.peft_config[name]),
                do="load it under a new name",
            )
        peft.set_peft_model_state_dict(self.model, tensors, adapter_name=name)

    def _check_note(self, note: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Check the note of a saved adapter: neither its base nor its own weights have changed since."""
        wrong = any(
            note.get(key, now()) != now() for key, now in (("fingerprint", self.fingerprint), ("layers", self.layers))
        )
        if wrong:
            raise ModelError(
                "the adapter belongs to another base model",
                got=note.get("base"),
                where=str(folder),
                expected=self.network.name_or_path,
                do="load the base it was trained on",
            )
        if note.get("adapter", digest(tensors)) != digest(tensors):
            raise ModelError(
                "the adapter is not the one that was saved",
                got=f"weights {digest(tensors)}",
                where=str(folder),
                expected=note["adapter"],
                do=f"take what the run wrote; if it was changed on purpose, remove {NOTE}",
            )

    def fingerprint(self) -> str:
        """Tells base models apart, whatever the number format: from shapes and some weights of the vocabulary."""
        table = self.network.get_input_embeddings().weight
        return digest({f"{self.network.config.model_type} {tuple(table.shape)}": _some(table)})

    def layers(self) -> str:
        """As ``fingerprint``, from some rows of all weights but adapters, in order: names change with transformers."""
        mine = [p for key, p in self.network.named_parameters() if "lora_" not in key]
        return hashlib.sha256("".join(digest({str(tuple(p.shape)): _some(p)}) for p in mine).encode()).hexdigest()[:16]


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors and their names, in any order: its first 16 hexadecimal digits."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(name.encode())
        hashed.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:16]


def _some(weight: Tensor) -> Tensor:
    """At most about 64 rows, in the number format in which bases of both precisions are equal."""
    rows = weight.detach().reshape(weight.shape or (1,))
    return rows[:: max(1, len(rows) // 64)].to("cpu", torch.bfloat16)


def _shape(config: Any) -> str:
    return f"rank {config.r} on {', '.join(sorted(config.target_modules))}"
