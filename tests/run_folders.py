"""Runs in a folder as the tests begin, break and compare them."""

import json

from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder


class Killed(BaseException):
    """What a signal does: nothing after it runs."""


def begin(path, algo, config, *, resume=False):
    """The folder of a run with this config, new or gone on with."""
    if resume:
        return RunFolder.open(path)
    return RunFolder.create(
        path, algo=algo, config=to_json(config), env=config.env, seed=config.seed, command="test", kind=config.KIND
    )


def timeless(rows):
    """Lines of the metrics without what depends on the clock."""
    return [{k: v for k, v in row.items() if k not in ("t", "seconds") and not k.endswith("_s")} for row in rows]


def stable(path):
    """All lines of the metrics of a run without what depends on the clock."""
    return timeless(json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines())


def weights(path):
    """The newest checkpoint of a run: its name and its tensors."""
    from safetensors.torch import load_file

    newest = sorted((path / "checkpoints").glob("step-*"))[-1]
    return newest.name, {name: tensor.tolist() for name, tensor in load_file(newest / "tensors.safetensors").items()}
