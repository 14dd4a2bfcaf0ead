"""Weights, configuration and tokenizer of a causal language model, from wherever they are.

GGUF files are de-quantised once, through transformers, and kept as float32 safetensors in the cache.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from evolvent.core.errors import BadInput, ModelError, closest, nearest, optional
from evolvent.core.fetch import cache_dir
from evolvent.models import weights as catalogue
from evolvent.models.language.attention import register

NOTE = "evolvent.json"  # beside saved adapters: which base they belong to
Progress = Callable[[int, int, str], None]


def source(spec: str, progress: Progress | None = None) -> tuple[str, Path | None]:
    """The place of the weights, as transformers takes it, and the adapter folder if ``spec`` is one.

    Raises:
        BadInput: no such file or folder, or an adapter folder without a base.
        EvolventError, ModelError: weights that cannot be fetched.
    """
    if spec in _names():
        return str(_dequantised(catalogue.fetch(spec, progress), spec)), None
    path = Path(spec).expanduser()
    if spec.endswith(".gguf"):
        if not path.is_file():
            raise BadInput("no such model file", got=spec, expected="a GGUF file", where="language.load")
        return str(_dequantised(path, path.stem)), None
    if (path / "adapter_config.json").is_file():
        return _base(path, progress), path
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise BadInput(
                "not a model folder",
                got=spec,
                expected="config.json or adapter_config.json in it",
                where="language.load",
                do="of a run, take the folder model/ in it",
            )
        return str(path.resolve()), None  # what is saved on top of it must find it from anywhere
    if path.is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise BadInput("no such model folder", got=spec, where="language.load")
    if "/" not in spec and nearest(spec.lower(), _names()):  # the hub would be asked in vain
        do = "a model of the Hugging Face hub is written OWNER/NAME, a folder here ./NAME"
        raise BadInput("no such model", got=spec, expected=closest(spec.lower(), _names()), where="--model", do=do)
    return spec, None


def _names() -> list[str]:
    return [entry.name for entry in catalogue.CATALOGUE]


def _base(folder: Path, progress: Progress | None) -> str:
    """The place of the base of the adapters in ``folder``."""
    base = base_of(folder)
    try:
        return source(base, progress)[0]
    except BadInput as error:
        raise BadInput(
            "the base of this adapter is not there",
            got=base,
            expected="the model that it was trained on",
            where=str(folder),
            do=f"put it back, or write its new place into {NOTE} and adapter_config.json there",
        ) from error


def lasting(spec: str) -> str:
    """``spec`` as it is found from any folder: local files and folders by their whole path."""
    path = Path(spec).expanduser()
    return spec if spec in _names() or not path.exists() else str(path.resolve())


def portable(spec: str) -> str:
    """``spec`` as other machines may know it: of a local file or folder its name."""
    path = Path(spec).expanduser()
    if spec in _names() or not (path.exists() or path.is_absolute()):
        return spec
    return path.stem if path.suffix == ".gguf" else path.resolve().name


def base_of(folder: Path) -> str:
    """The spec of the base that the adapters in ``folder`` belong to."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8")) if (folder / NOTE).is_file() else {}
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError("an adapter folder that cannot be read", got=str(error), where=str(folder)) from error
    base = note.get("base") or config.get("base_model_name_or_path")
    if not base:
        raise BadInput("the adapter does not name its base model", where=str(folder / "adapter_config.json"))
    return base


def network(place: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """The causal language model at ``place`` on the CPU, without dropout, and its tokenizer.

    Raises:
        ModelError: it cannot be loaded, or it is of a kind whose attention cannot be shared between sequences.
    """
    transformers = optional("transformers", "train", "models.language")
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(place)
            for name, value in vars(config).items():
                if "drop" in name and isinstance(value, float):  # sampler and trainer must agree
                    setattr(config, name, 0.0)
            model = transformers.AutoModelForCausalLM.from_pretrained(place, config=config, dtype=dtype)
            tokenizer = transformers.AutoTokenizer.from_pretrained(place)
            model.set_attn_implementation(register())
            model.config._name_or_path = model.name_or_path = place
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise ModelError(
            "the model cannot be loaded",
            got=str(error).strip().splitlines()[-1],
            where=place,
            expected=f"a causal language model that transformers can load, or {', '.join(_names())}",
            do="check the name, the network (or the folder), and that the files are whole",
        ) from error
    return model.eval(), tokenizer


def dtype_of(name: str, device: str) -> torch.dtype:
    """What ``load(dtype=…)`` means on this machine."""
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if name in kinds:
        return kinds[name]
    if name != "auto":
        raise BadInput("no such dtype", got=name, expected="auto, float32, bfloat16", where="language.load")
    if torch.device(device).type == "cuda":
        fast = torch.cuda.is_bf16_supported()
    else:
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if fast else torch.float32


def write_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a hidden folder, which then takes the place of ``folder``; a kill leaves the old one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}")
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    for left in (hidden, aside):
        shutil.rmtree(left, ignore_errors=True)
    hidden.mkdir()
    try:
        write(hidden)
        for file in hidden.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        if folder.exists():
            folder.rename(aside)
        hidden.rename(folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def save_network(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write a model and its tokenizer as a folder that transformers loads."""

    def write(hidden: Path) -> None:
        with quiet():
            model.save_pretrained(hidden)
            tokenizer.save_pretrained(hidden)

    write_whole(folder, write)


def _dequantised(file: Path, name: str) -> Path:
    """The folder of float32 safetensors made from a GGUF file, made at first use."""
    folder = cache_dir() / "models" / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)}-{catalogue.identity(file)[:12]}"
    if (folder / "config.json").is_file():
        return folder
    transformers = optional("transformers", "train", "models.language")
    optional("gguf", "train", "models.language")
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    try:
        # the bar of this conversion goes to stderr whatever one asks
        with quiet(), contextlib.redirect_stderr(io.StringIO()):
            unpack = transformers.GgufConfig(dequantize=True) if hasattr(transformers, "GgufConfig") else None
            options = {} if unpack is None else {"quantization_config": unpack}
            model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(
            "the GGUF file cannot be de-quantised",
            got=str(error).strip().splitlines()[-1],
            where=str(file),
            expected="a kind of model that transformers can read from GGUF",
        ) from error
    # it is still marked as quantised, and such a model refuses to be saved
    model.hf_quantizer = None
    model.is_quantized = False
    for holder in (model, model.config):
        if hasattr(holder, "quantization_config"):
            del holder.quantization_config
    model.config._name_or_path = name

    save_network(folder, model, tokenizer)
    return folder


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers and peft: no bars, no advice to developers, which would break into a live view."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
