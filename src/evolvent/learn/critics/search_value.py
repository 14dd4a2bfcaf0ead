"""What a state of a search is worth, learned: a head on the language model's hidden state behind the last token.

Papers: Feng et al. 2023 (TS-LLM, arXiv 2309.17179) for values; OpenR (arXiv 2410.09671) and MedS3 (arXiv 2501.12051)
for process rewards.

    value:    V(s) = f(h(s)),            L = mean (V(s) - z)^2                             z: a return      (TS-LLM)
    process:  p(s) = sigmoid(f(h(s))),   L = - mean [ z log p(s) + (1 - z) log(1 - p(s)) ]     z in 0..1, hard or soft

``h(s)`` is the last layer's state behind the last token of ``s``, in training as in use: nothing is shifted. (OpenR's
trainer shifts a label to the token before the one that is read.) ``f`` is linear over an adapter that is trained with
it, or (``frozen``) the mean of three small networks over the standardised states of an adapter that stays as it is:
seconds instead of minutes, and free where the policy that searches has computed those states anyway.

Deviations: LoRA instead of all weights. A head without bias, which a classifier of transformers has none of, either.
OpenR reads the logits of "+" and "-" at a tag; a linear head is their difference without the tag.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evolvent.core.errors import BadInput, ModelError
from evolvent.formulas.statistics import auc
from evolvent.models.language.adapters import digest
from evolvent.models.language.load import write_whole
from evolvent.models.language.model import LanguageModel, Row
from evolvent.search.search import State

HEAD, NOTE = "head.safetensors", "value.json"
MEMBERS, WIDTH, DROPOUT = 3, 48, 0.3
Kind = Literal["value", "process"]


@dataclass(frozen=True)
class Fit:
    """Settings of training; the defaults are TS-LLM's, with a rate for LoRA."""

    lr: float = 2e-4
    """Learning rate of AdamW."""
    epochs: int = 3
    """Passes over the rows."""
    steps: int = 150
    """Steps at least: few rows are passed over more often (ours; the released data are 100,000 rows and more)."""
    batch: int = 16
    """Paths of a step, with all of their rows: 4 with 4 accumulated, as released; of a frozen model rows."""
    tokens: int = 2048
    """Tokens of one forward and backward pass (shared beginnings count once)."""
    weight_decay: float = 0.0
    """Of AdamW."""


FROZEN = Fit(lr=2e-3, epochs=30, batch=64, weight_decay=1e-2)
"""For a head alone, which takes seconds."""


class SearchValue:
    """A value (or process reward model) of states; give it to a search as its ``value``.

    What comes out is any number, or a probability. A trained head needs LoRA; its adapter is made if it is new.
    ``frozen`` leaves the adapter as it is and learns the head alone.
    """

    def __init__(
        self, model: LanguageModel, kind: Kind = "value", *, frozen: bool = False, adapter: str = "value", seed: int = 0
    ) -> None:
        if kind not in ("value", "process"):
            raise BadInput("no such kind of value", got=kind, expected="value or process", where="SearchValue")
        self.model, self.frozen, self.adapter = model, frozen, adapter
        self.kind: Kind = kind
        if not frozen:
            model.add_adapter(adapter)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head: nn.Module = _Probe(model.width) if frozen else nn.Linear(model.width, 1, bias=False)
        self.head.to(model.device).eval()

    # ------------------------------------------------------------------------------------------------ judging
    def __call__(self, states: Sequence[State]) -> np.ndarray:
        """What states are worth, float64 ``[N]``.

        Raises:
            BadInput: a state without tokens (the search runs on a model that reads text).
        """
        return self.judge([context_of(state) for state in states])

    @torch.no_grad()
    def judge(self, contexts: Sequence[np.ndarray]) -> np.ndarray:
        """What sequences of tokens are worth, int ``[P]`` each: float64 ``[N]``."""
        if not len(contexts):
            return np.zeros(0)
        out = self.head(self._states(contexts))[:, 0]
        return (out.sigmoid() if self.kind == "process" else out).double().cpu().numpy()

    # ------------------------------------------------------------------------------------------------ learning
    def fit(
        self,
        contexts: Sequence[np.ndarray],
        targets: Sequence[float] | np.ndarray,
        how: Fit | None = None,
        *,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> dict[str, float]:
        """Learn from rows (what was read, what it was worth); goes on from the weights that are there.

        Contexts are int ``[P]`` each, the tokens of a question and the steps up to some step's end; targets one number
        each, of a process in 0..1. ``how`` is by default ``Fit()``, or ``FROZEN`` for a head alone; ``progress`` is
        called with the share that is done. Returns ``value_loss`` of the last pass, and ``value_auc``: how well it
        tells the better half of these rows.

        Raises:
            BadInput: no rows, or targets that cannot be.
            ModelError: the loss is not finite.
        """
        how, z = how or (FROZEN if self.frozen else Fit()), self._checked(contexts, targets)
        generator = torch.Generator().manual_seed(seed)
        parameters = [*self.head.parameters(), *(() if self.frozen else self.model.trainable(self.adapter))]
        optimizer = torch.optim.AdamW(parameters, lr=how.lr, weight_decay=how.weight_decay)
        features: Tensor | None = None
        if isinstance(self.head, _Probe):
            with torch.no_grad():
                features = self._states(contexts)
            self.head.standardise(features)
        together = [[i] for i in range(len(z))] if self.frozen else _paths(contexts)
        a_pass = -(-len(together) // how.batch)
        epochs = max(how.epochs, -(-how.steps // a_pass))
        steps = epochs * a_pass
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: _cosine(n, steps))
        losses: list[float] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # of the dropout
            self.head.train()
            for epoch in range(epochs):
                losses = []
                for some in torch.randperm(len(together), generator=generator).split(how.batch):
                    rows = torch.tensor([i for path in some.tolist() for i in together[path]])
                    losses.append(self._step(rows, contexts, z, features, optimizer, parameters, how.tokens))
                    schedule.step()
                    if progress and not self.frozen:
                        progress((epoch + len(losses) / a_pass) / epochs)
            self.head.eval()
        said = self.judge(contexts)
        middle = 0.5 if self.kind == "process" else float(z.mean())
        return {"value_loss": float(np.mean(losses)), "value_auc": auc(said, z.cpu().numpy() > middle)}

    def _step(
        self,
        rows: Tensor,
        contexts: Sequence[np.ndarray],
        z: Tensor,
        features: Tensor | None,
        optimizer: torch.optim.Optimizer,
        parameters: list[nn.Parameter],
        tokens: int,
    ) -> float:
        """One step on some rows; the sum of portions is the mean over all of them."""
        optimizer.zero_grad()
        some, total = rows.tolist(), 0.0
        if features is None:
            asked = [_row(self._cut(contexts[i])) for i in some]
            parts = [[some[j] for j in part] for part in self.model.micro_batches(asked, tokens)]
        else:
            parts = [some]
        for part in parts:
            seen = self._states([contexts[i] for i in part]) if features is None else features[part]
            out = self.head(seen)
            loss = _loss(out, z[part][:, None].expand_as(out), self.kind).mean(1).sum() / len(some)
            loss.backward()
            total += float(loss.detach())
        if not np.isfinite(total):
            raise ModelError("the value diverged", got=total, expected="a finite loss", do="lower its learning rate")
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return total

    def _checked(self, contexts: Sequence[np.ndarray], targets: Sequence[float] | np.ndarray) -> Tensor:
        z = np.asarray(targets, np.float32)
        if not len(contexts) or z.shape != (len(contexts),):
            raise BadInput("one target a state", got=z.shape, expected=(len(contexts),), where="SearchValue.fit")
        least, most, expected = (0.0, 1.0, "numbers in 0..1") if self.kind == "process" else (-1e30, 1e30, "finite")
        bad = z[~((z >= least) & (z <= most))]
        if len(bad):
            raise BadInput("targets of a value", got=bad[:5].tolist(), expected=expected, where="SearchValue.fit")
        return torch.from_numpy(z).to(self.model.device)

    def _states(self, contexts: Sequence[np.ndarray]) -> Tensor:
        return self.model.states([_row(self._cut(ids)) for ids in contexts], adapter=self.adapter).float()

    def _cut(self, ids: np.ndarray) -> np.ndarray:
        """A longer situation is judged by its end."""
        return ids[max(0, len(ids) + 1 - self.model.context) :]

    # ------------------------------------------------------------------------------------------------ folders
    def state_dict(self) -> dict[str, Any]:
        """The head, and its adapter where that is trained: a part of checkpoints."""
        own = {} if self.frozen else {"adapter": dict(self.model.state_dict(self.adapter))}
        return {"head": self.head.state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.head.load_state_dict(state["head"])
        if not self.frozen:
            self.model.load_state_dict(state["adapter"], self.adapter)

    def save(self, folder: str | Path) -> None:
        """Write a folder: ``value.json`` with ``head.safetensors``, and beside them, where it is trained, the adapter.

        Adapter and linear head are one sequence classifier of peft: ``AutoPeftModelForSequenceClassification
        .from_pretrained(folder, num_labels=1)``, whose logit is ``f(h(s))``. A network on frozen states is a small MLP
        over the last hidden state; what it reads stands in ``value.json``.
        """
        from safetensors.torch import save_file

        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}
        note = {"kind": self.kind, "frozen": self.frozen, "adapter": self.adapter, "base": self.model.name}
        note |= {"reads": self._reads()} if self.frozen else {"fit": asdict(Fit())}

        def write(hidden: Path) -> None:
            if not self.frozen:
                self.model.save(hidden, self.adapter)
                _as_classifier(hidden, weights["weight"])
            save_file({_NAMES.get(n, n): t for n, t in weights.items()}, str(hidden / HEAD), metadata={"format": "pt"})
            (hidden / NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")

        write_whole(Path(folder), write)

    @classmethod
    def load(cls, model: LanguageModel, folder: str | Path) -> SearchValue:
        """The value that ``save`` wrote, on the model that it was trained on.

        Raises:
            BadInput: no such folder, or it reads the states of another policy.
            ModelError: it belongs to another base, or cannot be read.
        """
        from safetensors.torch import load_file

        at = Path(folder).expanduser()
        if not (at / NOTE).is_file():
            raise BadInput("no learned value", got=str(folder), expected=f"a folder with {NOTE}", where="--value")
        try:
            note = json.loads((at / NOTE).read_text(encoding="utf-8"))
            weights = load_file(str(at / HEAD))
            if not note["frozen"]:
                inner = at / "adapter"  # where folders of earlier versions have it
                model.load_adapter(inner if inner.is_dir() else at, note["adapter"])
            value = cls(model, note["kind"], frozen=note["frozen"], adapter=note["adapter"])
            value.head.load_state_dict({_BACK.get(name, name): tensor for name, tensor in weights.items()})
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError("a learned value that cannot be read", got=str(error), where=str(at)) from error
        if value.frozen and note["reads"] != value._reads():
            raise BadInput(
                "this value reads the states of another policy",
                got=value._reads(),
                expected=note["reads"],
                where=str(at),
                do="search with the policy that was saved with it, or train a value with --value lora",
            )
        return value

    def _reads(self) -> str:
        """Tells apart what a frozen head reads."""
        return digest(self.model.state_dict(self.adapter))


_NAMES = {"weight": "score.weight"}
_BACK = {theirs: ours for ours, theirs in _NAMES.items()}


def _as_classifier(folder: Path, head: Tensor) -> None:
    """Make a saved adapter a sequence classifier of one label: its head goes in as a module that peft keeps whole."""
    from safetensors.torch import load_file, save_file

    weights, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    tensors = load_file(str(weights)) | {"base_model.model.score.weight": head}
    save_file(tensors, str(weights), metadata={"format": "pt"})
    settings = json.loads(config.read_text("utf-8")) | {"task_type": "SEQ_CLS", "modules_to_save": ["score"]}
    config.write_text(json.dumps(settings, indent=1), "utf-8")


class _Probe(nn.Module):
    """Three small networks over standardised states: ``[N, D]`` to ``[N, 3]`` in training, their mean otherwise."""

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(WIDTH, 1))
            for _ in range(MEMBERS)
        )

    def standardise(self, seen: Tensor) -> None:
        """Take mean and spread of the states it learns from."""
        self.mean.copy_(seen.mean(0))
        self.std.copy_(seen.std(0, correction=0).clamp(min=1e-4))

    def forward(self, seen: Tensor) -> Tensor:
        x = (seen - self.mean) / self.std
        out = torch.cat([member(x) for member in self.members], dim=-1)
        return out if self.training else out.mean(-1, keepdim=True)


def context_of(state: State) -> np.ndarray:
    """What the model has read at a state, int ``[P]``.

    Raises:
        BadInput: text, or nothing.
    """
    if state.context is None or isinstance(state.context, str) or not len(state.context):
        raise BadInput(
            "a learned value reads tokens",
            got="text" if isinstance(state.context, str) else "no context",
            where="SearchValue",
            do="search with a model in torch (--model train:…)",
        )
    return state.context


def _row(context: np.ndarray) -> Row:
    """The state behind a context is that which predicts the next token, whichever."""
    return Row(context, np.zeros(1, np.int32))


def _paths(contexts: Sequence[np.ndarray]) -> list[list[int]]:
    """Rows of which each goes on where the one before ended: they pass through the model once."""
    as_bytes = [ids.astype(">i4").tobytes() for ids in contexts]
    found: list[list[int]] = []
    for i in sorted(range(len(contexts)), key=as_bytes.__getitem__):
        if found and as_bytes[i].startswith(as_bytes[found[-1][-1]]):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def _loss(out: Tensor, z: Tensor, kind: Kind) -> Tensor:
    return F.binary_cross_entropy_with_logits(out, z, reduction="none") if kind == "process" else (out - z).square()


def _cosine(step: int, steps: int) -> float:
    """Warm-up over 3 % of the steps, then half a cosine."""
    warm = max(1, round(0.03 * steps))
    return (step + 1) / warm if step < warm else 0.5 * (1 + float(np.cos(np.pi * (step - warm) / max(1, steps - warm))))
