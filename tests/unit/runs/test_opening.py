"""Environment, model and memory of a run: in which order they are opened, what is refused, and what is left then."""

from dataclasses import dataclass

import pytest

from evolvent import envs, models
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.memory.memory import Memory
from evolvent.models.served.scripted import Scripted
from evolvent.runs.opening import FILE, Wanted, opened


@dataclass(frozen=True)
class Settings:
    env: str = "chain"
    model: str = "any"
    seed: int = 0


@pytest.fixture(name="said")
def what_is_opened_and_closed(monkeypatch):
    said = []

    def telling(what, open_, given):
        said.append(f"open {what}")
        made = open_(*given)
        close = made.close

        def closing():
            said.append(f"close {what}")
            close()

        made.close = closing
        return made

    real = envs.load
    monkeypatch.setattr(envs, "load", lambda *given: telling("world", real, given))
    monkeypatch.setattr(models, "load", lambda name, progress: telling("model", Scripted, ({"*": "a"},)))
    ready = embedders.ready
    monkeypatch.setattr(
        embedders, "ready", lambda name, progress: said.append(f"try {name}") or ready("hash:64", progress=progress)
    )
    return said


@pytest.fixture(name="folder")
def a_folder(tmp_path):
    with RunFolder.create(tmp_path / "run", algo="test", config={}, env="chain", seed=0, command="test") as folder:
        yield folder


def opening(folder, said=None, *, resume=False, config=Settings(), **wanted):
    def prepare(env):
        if said is not None:
            said.append("prepare")
        return env.name

    wanted = Wanted("rag", **wanted)
    return opened(config, folder, Live(plain=True), wanted, resume=resume, model=None, prepare=prepare)


def test_what_is_cheap_comes_first_and_the_memory_last(folder, said, monkeypatch):
    with opening(folder, said, reward_range=(-2.0, 2.0)) as (env, model, memory, prepared):
        assert said == ["open world", "prepare", f"try {embedders.DEFAULT}", "open model"]
        assert prepared == env.name and model is not None and memory.bank.reward_range == (-2.0, 2.0)
        monkeypatch.setattr(memory, "close", lambda: said.append("close memory"))
    assert said[4:] == ["close memory", "close model", "close world"]


def test_a_run_whose_model_is_missing_leaves_no_memory_and_no_world(folder, said, monkeypatch):
    def missing(*_, **__):
        raise ModelError("no such weights")

    monkeypatch.setattr(models, "load", missing)
    with pytest.raises(ModelError), opening(folder, said):
        pass
    assert not (folder.path / FILE).exists() and said[-1] == "close world"


def test_a_new_run_has_no_memory_yet_and_an_evaluated_one_has(folder, said):
    with pytest.raises(BadInput, match="no memory yet"), opening(folder, resume=None):
        pass
    for resume in (False, True, None):
        with opening(folder, resume=resume, compares=False, embedder="hash:64"):
            pass
    said.clear()
    with pytest.raises(BadInput, match="already holds a memory"), opening(folder):
        pass
    assert said == [], "before anything is opened"


def test_a_memory_that_is_there_keeps_what_compares_its_texts(folder, said):
    Memory(folder.path / FILE, embedder="hash:32", policy="rag").close()
    with opening(folder, resume=True) as (_, _, memory, _):
        assert memory.embedder.id == embedders.load("hash:32").id
    assert not any(word.startswith("try") for word in said)


def test_what_writes_is_a_model(folder, said):
    without = Settings(model="none")
    with (
        pytest.raises(BadInput, match=r"(?s)guides are written.*--model"),
        opening(folder, config=without, writes="guides are written by a model"),
    ):
        pass
    with opening(folder, config=without) as (_, model, _, _):
        assert model is None
