"""What can be known without the model is said before it is loaded; whatever reaches the loader here fails the test."""

import json
from importlib import import_module

import pytest

import tiny_language
from evolvent.algos import grpo
from evolvent.core.errors import BadInput, MissingExtra
from evolvent.evaluate.live import Live
from evolvent.models.language import model as language
from evolvent.runs.language.config import LEAST, MOST, Plan
from evolvent.runs.language.frozen import evaluate_language
from evolvent.runs.language.start import Needs
from run_folders import begin

folder = tiny_language.fixture(max_position_embeddings=512)
TASK = 'PROMPTS = [{"prompt": str(i)} for i in range(10)]\ndef reward(completion, prompt): return 0.0\n'
KITCHEN = "microwave:step_limit=3"


@pytest.fixture
def no_loader(monkeypatch):
    """Nothing is loaded: whoever asks gets an error."""

    def load(*args, **options):
        raise AssertionError("the model was loaded before the settings were checked")

    monkeypatch.setattr(language, "load", load)


def run(name, path, **settings):
    plan = {"dtype": "float32", "eval_tasks": 2} | settings.pop("plan", {})
    module = import_module(f"evolvent.algos.{name}")
    kind = module.Config.__dataclass_fields__["plan"]
    made = (kind.default_factory if callable(kind.default_factory) else Plan)()
    base = {"model": "nothing", "updates": 60, "prompts": 1, "group": 2}
    config = module.Config(**base | settings, plan=type(made)(**plan))
    with begin(path, name, config) as opened, Live(plain=True) as live:
        return module.run(config, opened, live)


FULL = {"plan": {"lora_rank": 0}}
CASES = [
    # the frozen model is needed
    *((name, FULL, "frozen model is needed") for name in ("grpo", "dpo", "kto", "sppo", "rloo", "flow_grpo")),
    *((name, FULL, "frozen model is needed") for name in ("evol_rl", "poad", "ntpo", "twosome", "spa", "archer")),
    ("marft", {**FULL, "agents": ("solver",)}, "frozen model is needed"),
    ("marft", FULL, "need adapters"),
    ("oprl", FULL, "need adapters"),
    ("etpo", FULL, "need adapters"),
    ("tgdpo", FULL, "need adapters"),
    # the memory beside the weights
    ("grpo", {"plan": {"memory": "memlft"}}, "unknown policy[^?]*memlift"),
    ("grpo", {"plan": {"memory": "none"}}, "shows nothing"),
    ("grpo", {"plan": {"memory": "memlift", "lessons": ("successes", "wisdom")}}, "no such kind of lesson[^?]*wisdom"),
    # how actions are chosen
    ("twosome", {"act": "trie"}, "not trained as wholes"),
    ("marft", {"act": "trie"}, "not trained as wholes"),
    *((name, {"act": "word", "env": KITCHEN}, "every token") for name in ("oprl", "rloo", "aepo", "hapo")),
    ("etpo", {"act": "word"}, "policy over tokens"),
    # what the environment pays
    ("g_ra", {"env": "GRADED"}, "does not pay this kind of reward[^?]*format"),
    ("g_ra", {"kinds": ("format", "style+format"), "gates": (0.0, 0.0)}, "style[^?]*it pays format"),
    ("g_ra", {"gates": ()}, "one gate for each level"),
    ("refine", {}, "does not pay this kind of reward[^?]*process"),
    ("spa", {"env": "GRADED"}, "does not pay this kind of reward[^?]*executed"),
    # environments
    ("grpo", {"env": "nowhere"}, "unknown environment"),
    ("grpo", {"env": "spread"}, "team environment"),
    ("grpo", {"env": "arithmetic:roots"}, "unknown variant"),
    ("grpo", {"env": "arithmetic:largest,hints=2"}, "unknown option"),
    ("grpo", {"env": "graded:nowhere.py"}, "no such file"),
    # settings of one algorithm
    ("dapo", {"overlong_buffer": 0}, "not a buffer"),
    ("dapo", {"draws": 0}, "out of bounds"),
    ("opmd", {"baseline": "log_avg_exp", "opmd": 0.0}, "tau is not above 0"),
    ("etpo", {"beta": 0.0}, "no best policy"),
    ("hbpo", {"budgets": ()}, "budgets of tokens"),
    ("hbpo", {"budgets": (512, 0)}, "budgets of tokens"),
    ("tgdpo", {"reward_from": "nowhere"}, "no adapter there"),
    *((name, {"pairs": "nowhere"}, "no such file") for name in ("dpo", "kto", "sppo", "tgdpo")),
    ("dpo", {"pairs": "PAIRS"}, "not a pair"),
    ("dpo", {"pairs": "EMPTY"}, "nothing to compare"),
    ("evol_rl", {"embedder": "hash:3"}, "not a dimension"),
    ("archer", {"critic_lr": -1.0}, "critic-lr"),
    ("oprl", {"prm_lr": float("nan")}, "prm-lr"),
    ("marft", {"agents": ("a", "a")}, "distinct names"),
    *(("ts_llm", {"value_lambda": x}, "0 to 1[^?]*--value-lambda") for x in (-1.0, 2.0, float("nan"))),
    ("ts_llm", {"widths": ()}, "numbers 1 to 1,000,000[^?]*--widths[^?]*leave it out for 10"),
    ("ts_llm", {"widths": (4, 0)}, "--widths"),
    ("ts_llm", {"longest": -1}, "--longest"),
    *(("openr", {name: x}, f"--{name}") for name in ("process", "outcome") for x in (-1.0, float("inf"))),
    ("spc", {"env": "chain", "anchor": float("nan")}, "--anchor"),
    *((name, {"clip": float("nan")}, "range out of bounds") for name in ("spc", "satori", "grpo")),
    *(
        ("b_coder", {"env": "program:easy", name: x}, f"--{name}")
        for name, x in (("gamma", 2.0), ("gamma", float("nan")), ("alpha", 0.0), ("ce", -5.0), ("kept", -1))
    ),
    ("poad", {"gae_lambda": 7.0}, "0 to 1[^?]*--gae-lambda"),
    ("grpo", {"kl": -1.0}, "--kl"),
    # of all of them
    ("grpo", {"model": "none"}, "weights of a model are trained[^?]*--model"),
    ("grpo", {"lr": -1e-3}, "--lr"),
    ("grpo", {"temperature": 0.0}, "greedy"),
    ("grpo", {"clip": -0.1}, "range out of bounds"),
    ("grpo", {"temperature": float("nan")}, "greedy"),
    ("grpo", {"grad_clip": float("nan")}, "no gradient norm"),
    ("grpo", {"updates": 10**9, "prompts": 100}, "more tasks than a run can draw[^?]*--minutes"),
    ("grpo", {"plan": {"threads": 2**40}}, "0 to 4,096[^?]*--threads"),
    ("grpo", {"plan": {"device": "gpu"}}, "no such device"),
    ("grpo", {"plan": {"dtype": "float17"}}, "no such dtype"),
    ("grpo", {"plan": {"sampler": "vllm", "lora_rank": 0}}, "vLLM samples from adapters"),
]


@pytest.mark.usefixtures("no_loader")
@pytest.mark.parametrize(("name", "settings", "what"), CASES, ids=lambda x: str(x)[:40])
def test_what_does_not_fit_is_said_before_the_model_is_loaded(name, settings, what, tmp_path):
    (tmp_path / "my.py").write_text(TASK)
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"prompt": "a", "chosen": "b"}) + "\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    places = {
        "GRADED": f"graded:{tmp_path}/my.py",
        "PAIRS": f"{tmp_path}/pairs.jsonl",
        "EMPTY": f"{tmp_path}/empty.jsonl",
    }
    settings = {key: places.get(value, value) if isinstance(value, str) else value for key, value in settings.items()}
    with pytest.raises(BadInput, match=what):
        run(name, tmp_path / "run", **settings)


@pytest.mark.usefixtures("no_loader")
@pytest.mark.parametrize("name", sorted(LEAST))
def test_no_count_is_too_small_or_without_end(name, tmp_path):
    holders = {
        "draws": "dapo",
        "passes": "archer",
        "capacity": "archer",
        "progress_passes": "spa",
        "stale": "spear",
        "replay_size": "spear",
        "limit": "hbpo",
        "length": "dr_grpo",
        "critic_epochs": "poad",
        "warmup": "archer",
        "whole": "aepo",
        "interval": "marft",
        "reward_updates": "tgdpo",
        **dict.fromkeys(("imitate", "rounds", "shown"), "satori"),
        **dict.fromkeys(("rollouts", "simulations", "widths", "longest", "keep"), "ts_llm"),
        **dict.fromkeys(("questions", "samples"), "openr"),
        **dict.fromkeys(("gamma", "gae_lambda"), "poad"),
        **dict.fromkeys(("alpha", "ce", "kept"), "b_coder"),
    }
    algo = holders.get(name, "grpo")
    inside = name in type(import_module(f"evolvent.algos.{algo}").Config().plan).__dataclass_fields__
    own = name in import_module(f"evolvent.algos.{algo}").Config.__dataclass_fields__
    assert own or inside
    for i, count in enumerate((LEAST[name] - 1, *([MOST[name] + 1] if name in MOST else []))):
        facts = {name: (count,) if name == "widths" else count}
        with pytest.raises(BadInput, match=f"--{name.replace('_', '-')}|length"):
            run(algo, tmp_path / f"run{i}", **(facts if own else {"plan": facts}))


@pytest.mark.usefixtures("no_loader")
def test_a_missing_sampler_is_said_first(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="vllm"):
        run("grpo", tmp_path / "run", plan={"sampler": "vllm"})


def test_an_embedder_without_weights_is_said_first(no_loader, tmp_path, monkeypatch):
    from evolvent.memory.embedders import SentenceTransformer

    def missing(self):
        raise MissingExtra("not installed")

    monkeypatch.setattr(SentenceTransformer, "_loaded", missing)
    with pytest.raises(MissingExtra, match="not installed"):
        run("evol_rl", tmp_path / "run", embedder="no-where")


def test_every_look_at_a_right_setting_reaches_the_loader(no_loader, tmp_path):
    fits = [
        ("grpo", {**FULL, "kl": 0.0}),
        ("rloo", {**FULL, "kl_reward": 0.0}),
        ("reinforce", FULL),
        ("g_ra", {}),
        ("refine", {"env": KITCHEN}),
        ("spa", {"env": KITCHEN}),
        ("spa", {"env": "GRADED", "grounding": 0.0}),
        ("aepo", {"act": "word"}),
        ("oprl", {"act": "word"}),
        ("twosome", {}),
        ("marft", {"level": "token", "act": "trie"}),
        ("opmd", {"opmd": 0.0}),
    ]
    (tmp_path / "my.py").write_text(TASK)
    for number, (name, settings) in enumerate(fits):
        if settings.get("env") == "GRADED":
            settings = settings | {"env": f"graded:{tmp_path}/my.py"}
        with pytest.raises(AssertionError, match="was loaded"):
            run(name, tmp_path / str(number), **settings)


def test_an_evaluation_elsewhere_is_refused_before_the_model_is_loaded(folder, tmp_path, monkeypatch):
    config = grpo.Config(model=folder, updates=1, prompts=1, group=2, plan=Plan(dtype="float32", eval_tasks=2))
    with begin(tmp_path / "run", "grpo", config) as opened, Live(plain=True) as live:
        grpo.run(config, opened, live)
        monkeypatch.setattr(language, "load", None)
        with pytest.raises(BadInput, match="unknown environment"):
            evaluate_language(grpo.Config, opened, live, env="nowhere")


def test_nothing_is_needed_by_default():
    assert Needs() == Needs(base="", whole=False, tokens=False, kinds=())
