"""ETPO, ArCHer, MARFT and the preference learners from end to end on a tiny random model: they learn what they must,
and a run that was killed goes on to the same numbers."""

import json
from importlib import import_module

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import catalogue
from evolvent.algos.etpo.soft_q_net import SLOW, Q, SoftQ, SoftQConfig, continuations, places_of
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.credit import step_preferred, step_wanted, step_win_rate, token_guided, token_soft_bellman
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.batch import token_batch
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.play.workflow import Workflow, workflow
from evolvent.runs.language.config import Plan
from evolvent.runs.language.pairs import FIELDS, Recorded, find_pairs, read_pairs
from evolvent.runs.language.system import compared
from language_runs import killed_in_update
from run_folders import begin, stable

SUM = "arithmetic:addition,shots=2"
SETTINGS = {
    "etpo": {"env": "microwave:step_limit=3", "critic_lr": 0.05, "polyak": 0.5, "minibatches": 2},
    "archer": {"env": "microwave:step_limit=3", "warmup": 1, "passes": 2, "draws": 5, "capacity": 11},
    "marft": {"env": SUM, "interval": 1, "kl_stop": 0.0},
    "dpo": {"env": "microwave:step_limit=3"},
    "sppo": {"env": "microwave:step_limit=3"},
    "kto": {"env": SUM, "wanted": 2.0},
    "tgdpo": {"env": "microwave:step_limit=3", "reward_updates": 1},
}

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=512)


def settings(name, folder, **more):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, **more.pop("plan", {}))
    base = {"model": folder, "updates": 2, "prompts": 2, "group": 3, "lr": 0.01}
    return import_module(f"evolvent.algos.{name}").Config(**(base | SETTINGS[name] | more), plan=plan)


def start(name, config, path, *, resume=False):
    with begin(path, name, config, resume=resume) as made, Live(plain=True) as live:
        return import_module(f"evolvent.algos.{name}").run(config, made, live, resume=resume)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_run_goes_on_to_the_same_numbers(name, folder, tmp_path):
    config = settings(name, folder, updates=3)
    want = start(name, config, tmp_path / "whole")
    with killed_in_update(2):
        start(name, config, tmp_path / "cut")
    found = start(name, config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    moved = [row for row in stable(tmp_path / "whole") if row.get("grad_norm", 0) > 0]
    assert moved and all(row.get("gap", 0.0) < 1e-4 for row in moved)


@pytest.mark.parametrize("name", ["etpo", "marft", "tgdpo"])
def test_what_was_learned_is_evaluated_frozen(name, folder, tmp_path):
    want = start(name, settings(name, folder), tmp_path / "run")
    with Live(plain=True) as live:
        evaluated = catalogue.system(name).evaluate()(RunFolder.open(tmp_path / "run"), live, 2)
    assert evaluated["greedy"]["value"] == want["greedy"]["value"] and evaluated["sampled"]["n"] == 2
    assert evaluated["n"] == evaluated["tasks"] == (2 if name == "marft" else 1)  # the microwave is one task


# ---------------------------------------------------------------------------------------------------- ETPO
def bandit(model, paid):
    """One attempt for each action of two tokens; the second one is forced in the first two actions."""
    actions = [model.encode(text) for text in paid]
    context = model.encode("Which? ")
    episodes = []
    for text, ids in zip(paid, actions, strict=True):
        e = Episode("bandit", group="g")
        e.observe("Which?", token_ids=context, parent=-1)
        e.act(text, token_ids=ids, choices=actions, reward=paid[text])
        e.end(terminated=True, success=True)
        episodes.append(e)
    return episodes, context, actions


def test_etpo_moves_the_policy_to_the_prior_tilted_by_what_is_paid(folder):
    model = language.load(folder, dtype="float32", adapters=("policy", Q, SLOW))
    beta, paid = 0.5, {"ax": 0.0, "bx": 0.6, "cy": -0.3, "cz": 0.8}
    values = SoftQ(model, SoftQConfig(beta=beta, polyak=0.3), lr=0.03)
    optimizer = torch.optim.AdamW(model.trainable("policy"), lr=0.01)
    rule, generator = token_soft_bellman.Config(beta=beta), torch.Generator().manual_seed(0)
    episodes, context, actions = bandit(model, paid)
    for _ in range(80):
        values.note(episodes)
        ledger = token_soft_bellman.assign(episodes, rule)
        metrics = values.learn(episodes, ledger, optimizer, epochs=1, minibatches=1, generator=generator)

    def probabilities(adapter):
        table = [Row(context, ids, tuple(actions)) for ids in actions]
        with torch.no_grad():
            return model.logprobs(table, adapter=adapter).logp_K.reshape(4, 2).sum(1).exp().cpu().numpy()

    tilted = probabilities(None) * np.exp(np.array(list(paid.values())) / beta)
    np.testing.assert_allclose(probabilities("policy"), tilted / tilted.sum(), atol=0.02)
    best = beta * np.log(tilted.sum())
    assert episodes[0].notes["value"][0] == pytest.approx(best, abs=0.03)
    assert metrics["kl_ref"] > 0.01
    assert metrics["soft_value"] > 0


def test_a_forced_token_is_worth_what_it_leads_to(folder):
    model = language.load(folder, dtype="float32", adapters=("policy", Q, SLOW))
    values = SoftQ(model, SoftQConfig(gamma=0.5), lr=0.1)
    _, context, actions = bandit(model, dict.fromkeys(("ax", "bx", "cy", "cz"), 1.0))
    two = Episode("two", group="g")
    for reward in (0.0, 3.0):
        two.observe("Which?", token_ids=context, parent=-1)
        two.act("ax", token_ids=actions[0], logp=[-1.0, 0.0], choices=actions, reward=reward)
    two.observe("Which?", token_ids=context, parent=-1)
    two.end(truncated=True, choices=actions)
    values.note([two])
    target = token_soft_bellman.assign([two], token_soft_bellman.Config(gamma=0.5)).values("token")
    start_value = two.final_value
    assert start_value == pytest.approx(0.0, abs=1e-6)  # values are 0 at first, and the policy is the prior
    # the second token of "ax" is forced: its value is the reward and what follows, and so is the first one's target
    np.testing.assert_allclose(two.notes["value"], [0.0, 0.0, 0.0, 3.0], atol=1e-6)
    np.testing.assert_allclose(target, [0.0, 0.0, 3.0, 3.0], atol=1e-6)


def test_free_text_sums_over_the_whole_vocabulary(folder):
    model = language.load(folder, dtype="float32", adapters=("policy", Q, SLOW))
    tiny_language.stir(model)
    values = SoftQ(model, SoftQConfig(beta=0.2, micro_tokens=64), lr=0.1)
    with torch.no_grad():
        for p in (*values.head.parameters(), *values.slow.parameters()):
            p.normal_(generator=torch.Generator().manual_seed(3))
    e = Episode("free")
    ids = model.encode("3 + 4")
    e.observe("sum", token_ids=model.encode("Sum: "), parent=-1)
    e.act("3 + 4", token_ids=ids, logp=[-1.0] * len(ids))
    e.end(terminated=True)
    values.note([e])
    row = [Row(model.encode("Sum: "), ids)]
    with torch.no_grad():
        policy, base = (
            model.logprobs(row, adapter=a, want=("logits",)).logits_KV.log_softmax(-1) for a in ("policy", None)
        )
        hidden = model.states(row, adapter=SLOW)
        q = (
            values.slow.state(hidden)
            + values.slow.word(hidden) @ model.network.get_output_embeddings().weight.T / 32**0.5
        )
    np.testing.assert_allclose(e.notes["expected_q"], (policy.exp() * q).sum(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(e.notes["kl"], (policy.exp() * (policy - base)).sum(-1), rtol=1e-3, atol=1e-5)


def test_places_are_given_in_pieces_that_cover_all_positions_once(folder, monkeypatch):
    monkeypatch.setattr("evolvent.algos.etpo.soft_q_net.NUMBERS", 100)
    choices = tuple(np.array(c, np.int32) for c in ([1, 2, 3], [1, 4], [5, 6]))
    rows_ = [Row(np.ones(1, np.int32), np.array([1, 4], np.int32), choices), Row(np.ones(1, np.int32), np.arange(7))]
    assert [continuations(rows_[0], k) for k in range(2)] == [[1, 5], [2, 4]]
    found = list(places_of(rows_, 100, 32, torch.device("cpu")))
    assert sorted(np.concatenate([p.at for p in found]).tolist()) == list(range(9))
    taken = {
        int(a): int(t if p.support_UN is None else p.support_UN[i, t])
        for p in found
        for i, (a, t) in enumerate(zip(p.at, p.taken_U, strict=True))
    }
    assert [taken[i] for i in range(9)] == [1, 4, *range(7)]
    assert len(found) == 7 + 2


def test_etpo_refuses_choices_of_whole_actions(folder, tmp_path):
    with pytest.raises(BadInput, match="--act"):
        start("etpo", settings("etpo", folder, act="word"), tmp_path / "run")


# ---------------------------------------------------------------------------------------------------- ArCHer
def test_archer_trains_the_critics_alone_first_and_forgets_the_oldest(folder, tmp_path):
    start("archer", settings("archer", folder), tmp_path / "run")
    first, second = (row for row in stable(tmp_path / "run") if "update" in row)
    assert "grad_norm" not in first and second["grad_norm"] > 0
    with RunFolder.open(tmp_path / "run") as made:
        speeds = [row["trained_per_s"] for row in made.read_metrics() if "update" in row]
    assert speeds[0] == 0 < speeds[1], "no policy was trained while the critics were alone"
    assert second["replay"] == 11 and second["tokens"] > 0


def test_archer_learns_what_is_worth_more(folder):
    from evolvent.algos.archer.utterance import UtteranceCriticConfig as Rates
    from evolvent.algos.archer.utterance import UtteranceCritics

    model = language.load(folder, dtype="float32")
    critics = UtteranceCritics(model.states, model.width, model.context, Rates(lr=3e-3, gamma=0.5), seed=1)
    episodes = []
    for _ in range(2):
        for first, reward in (("a", 0.0), ("b", 1.0)):
            e = Episode("two turns")
            for said, paid in ((first, 0.0), ("c", reward)):
                e.observe("", token_ids=model.encode(f"{first if paid or said == 'c' else '?'}: "), parent=-1)
                e.act(said, token_ids=model.encode(said), reward=paid)
            e.end(terminated=True)
            episodes.append(e)
    critics.add(episodes)
    generator = torch.Generator().manual_seed(0)
    drawn = critics.draw(100, generator)
    assert len(drawn) == len(critics) == 8
    said = [
        model.encode("c" if b"?" not in model.decode(s.context).encode() else "ab"[i % 2]) for i, s in enumerate(drawn)
    ]
    for _ in range(12):
        metrics = critics.learn(drawn, said, passes=10, batch=8, generator=generator)
    assert metrics["q_loss"] < 0.01
    critics.note(episodes[:2])
    low, high = (e.notes["q1"] for e in episodes[:2])
    np.testing.assert_allclose([low[0], high[0], low[1], high[1]], [0.0, 0.5, 0.0, 1.0], atol=0.12)


# ---------------------------------------------------------------------------------------------------- MARFT
def weights(path, name):
    from safetensors.numpy import load_file

    return load_file(path / "model" / name / "adapter_model.safetensors")


@pytest.mark.parametrize("level", ["action", "token"])
def test_only_the_chosen_agent_moves(level, folder, tmp_path):
    config = settings("marft", folder, updates=6, level=level, interval=5, plan={"sampled": 1})  # one update
    start("marft", config, tmp_path / "one")
    first = {name: weights(tmp_path / "one", name) for name in ("solver", "checker")}
    assert any(np.abs(t).max() > 0 for key, t in first["solver"].items() if "lora_B" in key)
    assert all(np.abs(t).max() == 0 for key, t in first["checker"].items() if "lora_B" in key)
    start("marft", settings("marft", folder, updates=1, level=level, interval=0), tmp_path / "all")
    both = weights(tmp_path / "all", "checker")
    assert any(np.abs(t).max() > 0 for key, t in both.items() if "lora_B" in key)


def test_a_team_is_recorded_agent_by_agent(folder, tmp_path):
    names = ("planner", "solver<", "checker<planner+solver: Check it.")
    start(
        "marft", settings("marft", folder, updates=1, interval=0, agents=names, plan={"record": 99}), tmp_path / "run"
    )
    e = Episode.from_dict(next(RunFolder.open(tmp_path / "run").read_episodes()))
    assert e.agents_T == ["planner", "solver", "checker"] and e.turn_T.tolist() == [0, 0, 0]
    seen = {node.agent: node.text for node in e.nodes if node.kind == "observation"}
    said = {node.agent: node.text for node in e.nodes if node.step is not None}
    assert seen["solver"] == seen["planner"] == e.task_id.split("/")[-1]
    assert seen["checker"] == f"{seen['planner']}\nplanner: {said['planner']}\nsolver: {said['solver']}"
    assert "Check it." in tiny_text(folder, e.context_ids(2)) and "Check it." not in tiny_text(folder, e.context_ids(1))
    assert e.rewards_T[:2].tolist() == [0.0, 0.0]


def test_free_words_and_choices_stand_side_by_side(folder, tmp_path):
    config = settings("marft", folder, env="microwave:step_limit=3", interval=0, plan={"record": 99})
    start("marft", config, tmp_path / "run")
    assert all(row["gap"] < 1e-4 for row in stable(tmp_path / "run") if "update" in row)
    e = Episode.from_dict(next(RunFolder.open(tmp_path / "run").read_episodes()))
    assert e.agents_T == ["solver", "checker"] * (e.n_steps // 2)
    assert [bool(e.choices(t)) for t in range(2)] == [False, True]
    n = int(e.tokens_per_step_T[0])
    np.testing.assert_allclose(e.notes["action_logp"][:n], e.logp[:n].sum(), rtol=1e-5)
    assert -np.log(len(e.choices(1))) * 50 < e.notes["action_logp"][n] <= 0
    assert e.turn_T.tolist() == [t // 2 for t in range(e.n_steps)] and e.rewards_T[0] == 0.0


def tiny_text(folder, ids):
    return "".join(tiny_language.tokenizer().convert_ids_to_tokens(ids.tolist()))


def test_one_agent_alone_is_a_team_of_one(folder, tmp_path):
    start("marft", settings("marft", folder, updates=1, agents=("solver",), group=6), tmp_path / "run")
    e = Episode.from_dict(next(RunFolder.open(tmp_path / "run").read_episodes()))
    assert e.agents_T == ["solver"]
    assert (tmp_path / "run" / "model" / "adapter_config.json").is_file()


def test_a_prompt_that_fits_no_agent_is_said(folder, tmp_path):
    (tmp_path / "long.py").write_text(
        f"PROMPTS = [{{'prompt': '{'x' * 600}' + i * 'y'}} for i in range(5)]\ndef reward(c, p): return 1.0\n"
    )
    with pytest.raises(EnvError, match=r"not even the first answer fits[^?]*at most 512 tokens[^?]*task graded:long"):
        start("marft", settings("marft", folder, env=f"graded:{tmp_path / 'long.py'}"), tmp_path / "run")


def test_workflows_are_read_from_words_and_ordered():
    team = workflow(("a", "b<", "c<b: Say more."))
    assert team.order() == [["a", "b"], ["c"]] and team.names == ("a", "b", "c")
    assert team.member("c").reads == ("b",)
    assert team.member("c").profile == "Say more."
    assert workflow(("a", "b", "c")).member("c").reads == ("a", "b")
    for words in (("a<b", "b<a"), ("a", "a"), ("a<z",), ("no name",), ()):
        with pytest.raises(BadInput):
            workflow(words)
    assert isinstance(team, Workflow)


# ---------------------------------------------------------------------------------------------------- preferences
def write_pairs(path, n=4, end="\n"):
    lines = [{"prompt": f"{i} + {i} =", "chosen": f" {2 * i}{end}", "rejected": f" {9 - i}{i}{end}"} for i in range(n)]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("name", "beta"), [("dpo", 0.1), ("sppo", 0.05), ("kto", 0.1), ("tgdpo", 0.1)])
@pytest.mark.parametrize("style", ["plain", "chat"])
def test_the_margin_of_recorded_pairs_rises(name, beta, style, folder, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.jsonl")
    more = {"reward_updates": 1} if name == "tgdpo" else {}
    config = settings(
        name, folder, updates=8, env=SUM, pairs=pairs, prompts=4, beta=beta, lr=0.02, plan={"style": style}, **more
    )
    start(name, config, tmp_path / "run")
    logged = [row for row in stable(tmp_path / "run") if "update" in row]
    assert logged[0]["margin"] == pytest.approx(0.0, abs=1e-5)
    assert logged[-1]["margin"] > 0.5 and logged[-1]["accuracy"] >= 0.75
    assert all("gap" not in row for row in logged)  # nobody here sampled them
    assert {row["sampled_per_s"] for row in RunFolder.open(tmp_path / "run").read_metrics() if "update" in row} == {0.0}


def read(tmp_path, model, *lines, **settings):
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = find_pairs(str(tmp_path / "pairs.jsonl"))
    assert pairs is not None
    return read_pairs(pairs, model, **{"chat": False, **settings})


@pytest.mark.parametrize(
    ("stop", "texts", "end"),
    [
        (("\n",), ("4", "5"), "\n"),
        (("\n",), ("4\n", "5"), "\n"),  # not twice
        (("\n", "END"), ("a\nb", "c"), "END"),  # an end that stands inside an answer is none
        (("\n",), ("a\nb", "c"), "<|im_end|>"),
        ((), ("4", "5"), "<|im_end|>"),
    ],
)
def test_answers_in_words_end_as_attempts_end(folder, tmp_path, stop, texts, end):
    model = language.load(folder)
    ((chosen, rejected),) = read(tmp_path, model, dict(zip(FIELDS, ("2 + 2 =", *texts), strict=True)), stop=stop)
    said = [model.decode(one.token_ids) for one in (chosen, rejected)]
    assert said == [text.removesuffix(end) + end for text in texts]
    assert (int(chosen.token_ids[-1]) in model.end_ids) == (end == "<|im_end|>")
    assert model.decode(chosen.context_ids(0)) == "2 + 2 ="


USER, OTHER = {"role": "user", "content": "2 + 2 ="}, {"role": "system", "content": "Add."}
FOUR, FIVE = ({"role": "assistant", "content": str(n)} for n in (4, 5))


def in_parts(message):
    return {**message, "content": [{"type": "text", "text": text} for text in ("", message["content"])]}


@pytest.mark.parametrize(
    ("prompt", "chosen", "rejected"),
    [
        ("Q: two and two?\nA:", " four", " five"),  # neither inside a word, nor behind its space
        ("Q: two and two?\nA:", " four", " four or five"),
        ("\n\nHuman: hi\n\nAssistant: ho\n\nHuman: 2 + 2\n\nAssistant:", " It is 4.", " I would say 5."),
    ],
)
def test_texts_may_hold_their_prompt(tmp_path, prompt, chosen, rejected):
    line = {"chosen": prompt + chosen, "rejected": prompt + rejected, "score_chosen": 9.0}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(line) + "\n")
    pairs = find_pairs(str(tmp_path / "pairs.jsonl"))
    assert pairs is not None and pairs.texts == ((1, dict(zip(FIELDS, (prompt, chosen, rejected), strict=True))),)


@pytest.mark.parametrize("style", ["plain", "chat"])
def test_the_end_of_a_preferred_answer_becomes_likelier(folder, tmp_path, style):
    pairs = write_pairs(tmp_path / "pairs.jsonl", end="")
    found, before = find_pairs(pairs), language.load(folder)
    assert found is not None
    start(
        "dpo",
        settings("dpo", folder, updates=8, env=SUM, pairs=pairs, prompts=4, plan={"style": style}),
        tmp_path / "a",
    )
    after = language.load(str(tmp_path / "a" / "model"))
    groups = read_pairs(found, before, chat=style == "chat", stop=("\n",))
    rows = [Row(chosen.context_ids(0), chosen.token_ids) for chosen, _ in groups]
    with torch.no_grad():
        ends = [[float(model.logprobs([row]).logp_K[-1]) for row in rows] for model in (before, after)]
    assert np.mean(ends[1]) > np.mean(ends[0]), ends


@pytest.mark.parametrize("template", [tiny_language.TEMPLATE, tiny_language.THINKING])
@pytest.mark.parametrize(
    ("line", "before"),
    [
        ({"prompt": [USER], "chosen": [FOUR], "rejected": [FIVE]}, [USER]),
        ({"prompt": [OTHER, USER], "chosen": [FOUR], "rejected": [FIVE], "id": 3}, [OTHER, USER]),
        ({"chosen": [USER, FOUR], "rejected": [USER, FIVE]}, [USER]),
        ({"prompt": "2 + 2 =", "chosen": [USER, FOUR], "rejected": [USER, FIVE]}, [USER]),
        ({"prompt": "2 + 2 =", "chosen": [FOUR], "rejected": [FIVE]}, [USER]),
        ({"prompt": [USER, FIVE, USER], "chosen": [FOUR], "rejected": [FIVE]}, [USER, FIVE, USER]),
        ({name: [in_parts(said)] for name, said in zip(FIELDS, (USER, FOUR, FIVE), strict=True)}, [USER]),
    ],
)
def test_pairs_of_messages_are_read_by_the_template(tmp_path, line, before, template):
    model = language.load(tiny_language.write(tmp_path / "tiny", template=template))
    ((chosen, rejected),) = read(tmp_path, model, line)
    for one, said in ((chosen, FOUR), (rejected, FIVE)):
        whole = model.decode(model.chat([*before, said], open=False))
        assert whole.startswith(model.decode(one.context_ids(0)) + model.decode(one.token_ids))
        assert model.decode(one.token_ids) == f"{said['content']}<|im_end|>"


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": [USER], "chosen": [USER, FOUR], "rejected": [OTHER, FIVE]},
        {"chosen": [FOUR], "rejected": [FIVE]},
        {"prompt": [USER], "chosen": [FOUR, FIVE], "rejected": [FIVE]},
        {"prompt": [USER], "chosen": [USER], "rejected": [FIVE]},
        {"prompt": [USER], "chosen": [{"role": "assistant", "content": None}], "rejected": [FIVE]},
        {"prompt": [USER], "chosen": "4", "rejected": "5"},
        {"chosen": "4", "rejected": "5"},
        {"prompt": [USER], "chosen": [], "rejected": [FIVE]},
    ],
)
def test_messages_that_are_no_pair_are_refused(tmp_path, line):
    with pytest.raises(BadInput, match=r"not a pair|not one answer each"):
        read(tmp_path, None, line)


def test_attempts_of_a_run_are_pairs_for_another(folder, tmp_path):
    start("dpo", settings("dpo", folder, updates=2, group=6, plan={"record": 99}), tmp_path / "first")
    some = settings("dpo", folder, updates=3, pairs=str(tmp_path / "first"))
    start("dpo", some, tmp_path / "second")
    logged = [row for row in stable(tmp_path / "second") if "update" in row]
    assert logged[0]["compared"] >= 2 and logged[-1]["margin"] > logged[0]["margin"]
    start("tgdpo", settings("tgdpo", folder, reward_from=str(tmp_path / "first")), tmp_path / "third")
    assert {row["stage"] for row in stable(tmp_path / "third") if "update" in row} == {2.0}
    before, after = weights(tmp_path / "first", ""), weights(tmp_path / "third", "reward")
    assert all(np.array_equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "nothing to compare"), ("not json\n", "not JSON"), ('{"prompt": "a", "chosen": "b"}\n', "not a pair")],
)
def test_pairs_that_cannot_be_read(text, message, folder, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        start("dpo", settings("dpo", folder, pairs=str(tmp_path / "pairs.jsonl")), tmp_path / "run")


def test_attempts_of_another_model_are_refused(folder, tmp_path):
    lines = []
    for reward in (0.0, 1.0):
        e = Episode("t", group="g")
        e.observe("q", token_ids=[5, 6], parent=-1)
        e.act("yes", token_ids=[7, 8, 9], logp=[-1.0, -1.0, -1.0], reward=reward)
        e.end(terminated=True, success=bool(reward))
        lines.append(json.dumps(e.to_dict()))
    (tmp_path / "episodes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match="another model"):
        start("dpo", settings("dpo", folder, pairs=str(tmp_path)), tmp_path / "run")


def test_every_pass_shows_every_group_once_and_the_same_for_the_same_number():
    groups = [[Episode(f"t{i}", id=str(i))] for i in range(5)]
    some = Recorded(groups, 2, seed=0)
    ids = [e.id for update in range(5) for e in some(update)[0]]
    assert sorted(ids[:5]) == sorted(ids[5:]) == list("01234")
    assert [e.id for e in some(3)[0]] == [e.id for e in Recorded(groups, 2, seed=0)(3)[0]]
    assert len(Recorded(groups, 9, seed=0)(1)[0]) == 5


def returns(*values, group="g", success=None):
    out = []
    for value in values:
        e = Episode("t", group=group)
        e.observe("q", token_ids=[1], parent=-1)
        e.act("a", token_ids=[2, 3], logp=[-1.0, -1.0], reward=value)
        e.end(terminated=True, success=success)
        out.append(e)
    return out


def test_sides_of_groups():
    episodes = [*returns(1.0, 0.0, 2.0, 0.0), *returns(1.0, 1.0, group="flat"), *returns(3.0, group="one")]
    pairs = step_preferred.assign(episodes)
    np.testing.assert_array_equal(pairs.values("step"), [np.nan, -1, 1, np.nan, np.nan, np.nan, np.nan])
    assert compared(pairs) == {"compared": 2.0}
    np.testing.assert_allclose(
        step_win_rate.assign(episodes).values("step"), [1 / 6, -1 / 3, 1 / 2, -1 / 3, 0, 0, np.nan], atol=1e-12
    )
    np.testing.assert_array_equal(step_wanted.assign(episodes[:2]).values("step"), [1, -1])
    np.testing.assert_array_equal(step_wanted.assign(returns(1.0, success=False)).values("step"), [-1])
    for episode in episodes:
        episode.note("guide", [2.0, -2.0])
    guided = token_guided.assign(episodes, token_guided.Config(alpha=0.5, beta=1.0))
    np.testing.assert_array_equal(guided.values("token")[2:6], [0, -2, 2, 0])
    assert len(token_batch(episodes, guided, level="token").units) == 4
