"""`evolvent export merged`: what a run trained as a model of its own, for transformers, vLLM and llama.cpp."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from evolvent.core.errors import BadInput, ModelError, missing_extra
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live

_WHERE = "evolvent export merged"
_CONVERTER = "convert-hf-to-gguf"


def merged(
    folder: Annotated[Path, Positional, arg(help="run folder of a language model that was trained.")],
    *,
    out: Path,
    agent: str = "",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    gguf: Literal["", "f32", "f16", "bf16", "q8_0"] = "",
    plain: bool = False,
) -> None:
    """The trained model as a folder for transformers, LoRA merged into its base; with --gguf also for llama.cpp.

    Example: evolvent export merged runs/grpo --out merged --gguf q8_0

    Weights, configuration, tokenizer and chat template; nothing in it names a place of this machine.

    Args:
        out: folder to make.
        agent: whose weights, where several agents were trained.
        dtype: number format of the weights.
        gguf: also OUT/NAME-FORMAT.gguf in this format, through the package convert-hf-to-gguf.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    trained = _trained(folder, agent)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput("something is there already", got=str(out), expected="a new folder", where="--out")
    converter = _converter() if gguf else ""
    try:
        from evolvent.models.language.load import portable
        from evolvent.models.language.model import load
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "train", _WHERE) from error
    with Live(plain=True if plain else None) as live:
        live.status(f"loading {trained}")
        lora = (trained / "adapter_config.json").is_file()
        model = load(str(trained), dtype="float32", lora_rank=8 if lora else 0)
        base = portable(model.name if lora else str(opened.config.get("model", "")))
        model.save_merged(out, base=base, dtype=dtype)
        live.note(f"{trained}{f', merged into {base}' if lora else ''} → {out}")
        if converter:
            file = out / f"{out.resolve().name}-{gguf}.gguf"
            live.status(f"writing {file}")
            _convert(converter, out, file, gguf)
            live.note(f"for llama.cpp: {file}")


def _trained(folder: Path, agent: str) -> Path:
    """The folder of the weights that a finished run left."""
    model = folder / "model"
    agents = sorted(one.name for one in model.iterdir() if one.is_dir()) if model.is_dir() else []
    if agents:
        if agent not in agents:
            expected = f"--agent {' or '.join(agents)}"
            raise BadInput("several agents were trained", got=f"--agent {agent!r}", expected=expected, where=_WHERE)
        return model / agent
    if agent:
        raise BadInput("one agent was trained", got=f"--agent {agent}", expected="no --agent", where=_WHERE)
    if not any((model / name).is_file() for name in ("adapter_config.json", "config.json")):
        raise BadInput(
            "the run left no trained model",
            got=str(folder),
            expected="a folder model/ in it, which learners of language models write at the end",
            where=_WHERE,
            do="finish it: evolvent run --resume DIR; a memory is exported by `evolvent memory export`",
        )
    return model


def _converter() -> str:
    """The converter's program, beside this Python or on the path."""
    found = shutil.which(_CONVERTER, path=str(Path(sys.executable).parent)) or shutil.which(_CONVERTER)
    if found is None:
        raise missing_extra(_CONVERTER, "gguf", f"{_WHERE} --gguf", f"llama.cpp's {_CONVERTER}.py on the folder")
    return found


def _convert(converter: str, folder: Path, file: Path, kind: str) -> None:
    """Run the converter in a process of its own: it brings another copy of the package gguf.

    Raises:
        ModelError: it failed; with what it said last.
    """
    # argument lists, no shell; the program is the package's
    done = subprocess.run(
        [converter, str(folder), "--outfile", str(file), "--outtype", kind], capture_output=True, text=True, check=False
    )
    if done.returncode or not file.is_file():
        file.unlink(missing_ok=True)
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ModelError(
            "the model cannot be converted",
            got=said[-1] if said else f"exit code {done.returncode}",
            where=f"{_CONVERTER} {folder}",
            do="the merged folder is whole; a newer converter may know this kind of model",
        )
