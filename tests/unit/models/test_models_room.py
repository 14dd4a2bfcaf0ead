"""Room for long prompts, said in the name of a model."""

import pytest

from evolvent import models
from evolvent.core.errors import BadInput
from evolvent.models import weights
from evolvent.models.served import llama


def test_the_name_says_how_much_room_there_is(monkeypatch):
    monkeypatch.setattr(llama, "Llama", lambda path, **options: (str(path), options))
    monkeypatch.setattr(weights, "fetch", lambda name, progress: f"cache/{name}.gguf")
    assert models.load("some/model.gguf,n_ctx=8192") == ("some/model.gguf", {"n_ctx": 8192})
    assert models.load("some/model.gguf") == ("some/model.gguf", {})
    name = "qwen2.5-coder-1.5b"
    assert models.load(f"{name},n_ctx=512") == (f"cache/{name}.gguf", {"n_ctx": 512, "name": name})
    with pytest.raises(BadInput, match="not a number of tokens"):
        models.load("some/model.gguf,n_ctx=much")
