"""The session of a team run: what it saves when an environment breaks, what it refuses, how it starts and is judged."""

import dataclasses
import importlib
import inspect
import io
import json
import textwrap

import numpy as np
import pytest
import torch

from evolvent import envs
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput, EnvError, ModelError
from evolvent.core.folder import RunFolder
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.credit import agent_gae
from evolvent.envs.team.spread import Spread
from evolvent.evaluate.live import Live
from evolvent.learn import checkpoint
from evolvent.learn.team.batch import View
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views
from evolvent.models.team.actors import Actors
from evolvent.runs.team import run as team_session
from evolvent.runs.team.actors import acting
from evolvent.runs.team.config import Plan
from evolvent.runs.team.evaluation import baselines, random_act
from evolvent.runs.team.run import TeamRun
from run_folders import begin

SMALL = {"envs": 4, "horizon": 6, "eval_every": 0, "eval_episodes": 4, "save_every": 3, "epochs": 1}
TEAMS = ("mat", "pmat", "happo", "hatrpo", "mappo", "ippo", "coma")

pytestmark = pytest.mark.usefixtures("one_thread")


def config_of(algo, **fields):
    kind = importlib.import_module(f"evolvent.algos.{algo}").Config
    known = {field.name for owner in (kind, Plan) for field in dataclasses.fields(owner)}
    small = {"hidden": (8,), "width": 8, "ids": False, **SMALL}
    return with_fields(kind(), **{**{name: value for name, value in small.items() if name in known}, **fields})


def train(path, config, *, resume=False):
    """Run an algorithm in this process; returns what it showed the person who watches."""
    algo = type(config).__module__.rpartition(".")[2]
    out = io.StringIO()
    with begin(path, algo, config, resume=resume) as folder:
        summary = importlib.import_module(f"evolvent.algos.{algo}").run(
            config, folder, Live(True, stream=out), resume=resume
        )
        folder.write_summary(summary)
    return out.getvalue()


def judge(path, **options):
    folder = RunFolder.open(path)
    module = importlib.import_module(f"evolvent.algos.{folder.manifest()['algo']}")
    return module.evaluate(folder, Live(True, stream=io.StringIO()), **options)


def mat(steps=24 * 8, **fields):
    return config_of("mat", **{"env": "spread:n=2,limit=6", "steps": steps, **fields})


# ------------------------------------------------------------------------------------------------ trouble
def test_what_was_learned_is_saved_when_an_environment_breaks(tmp_path, monkeypatch):
    step, taken = Spread.step, []

    def breaking(self, action):
        taken.append(self.n_envs)
        if taken.count(4) == 15 + 6 * 4 + 2:  # both baselines, four updates, and two steps of the fifth
            raise EnvError("the robot fell apart", where="copy 2")
        return step(self, action)

    monkeypatch.setattr(Spread, "step", breaking)
    taken += [4] * 3  # a baseline plays one attempt of six steps in each of four copies
    with pytest.raises(EnvError, match="fell apart"):
        train(tmp_path / "r", mat())
    newest = checkpoint.latest(tmp_path / "r" / "checkpoints")
    assert newest is not None and newest.name.endswith("4"), "the fourth update, though every third is saved"
    monkeypatch.setattr(Spread, "step", step)
    said = train(tmp_path / "r", mat(), resume=True)
    assert "continuing after update 4 of 8" in said
    updates = [row["update"] for row in RunFolder.open(tmp_path / "r").read_metrics() if "update" in row]
    assert updates == list(range(1, 9))


def test_a_run_that_was_stopped_after_its_last_update_only_ends(tmp_path):
    train(tmp_path / "r", mat())
    before = (tmp_path / "r" / "metrics.jsonl").read_text()
    first = json.loads((tmp_path / "r" / "summary.json").read_text())
    (tmp_path / "r" / "summary.json").unlink()
    train(tmp_path / "r", mat(), resume=True)
    assert (tmp_path / "r" / "metrics.jsonl").read_text() == before
    assert json.loads((tmp_path / "r" / "summary.json").read_text()) == first


def test_restarts_that_would_end_every_attempt_are_refused(tmp_path):
    with pytest.raises(BadInput, match="never end"):
        train(tmp_path / "r", mat(env="spread:n=2,limit=19"))


@pytest.mark.parametrize(
    ("error", "told"), [(OSError("no display"), "no display"), (NotImplementedError(), "does not draw here")]
)
def test_an_environment_that_cannot_draw_costs_the_picture_only(tmp_path, monkeypatch, error, told):
    def broken(self):
        raise error

    monkeypatch.setattr(Spread, "render", broken)
    said = train(tmp_path / "r", mat(24))
    assert "no picture" in said and told in said and not (tmp_path / "r" / "behaviour.png").exists()
    assert "NotImplementedError" not in said
    assert (tmp_path / "r" / "summary.json").exists()


def test_attempts_longer_than_the_sheet_are_shown_at_equal_distances():
    env = envs.load_team("spread:n=2,limit=70", 1)
    env.env.render = lambda: np.full((2, 2, 3), env.env._age_B[0], np.uint8)
    player = TeamPlayer(Views(env.team, ids=False, device=torch.device("cpu")), random_act(env.team))
    frames = player.film(env, generator=torch.Generator(), seed=0)
    ages = [int(frame[0, 0, 0]) for frame in frames]
    assert ages[0] == 0 and len(ages) == 8 and 60 <= ages[-1] < 70
    assert max(np.diff(ages)) - min(np.diff(ages)) <= 4


@pytest.mark.parametrize(
    ("algo", "fields", "flag"),
    [
        ("mat", {"lr": -1.0}, "--lr"),
        ("mat", {"lr": float("nan")}, "--lr"),
        ("mat", {"clip": 0.0}, "--clip"),
        ("mat", {"gamma": 1.5}, "--gamma"),
        ("mat", {"width": 0}, "--width"),
        ("mat", {"epochs": 0}, "--epochs"),
        ("mat", {"minibatches": 25}, "--minibatches"),
        ("mat", {"eval_every": -1}, "--eval-every"),
        ("happo", {"hidden": (8, 0)}, "--hidden"),
        ("hatrpo", {"delta": 0.0}, "--delta"),
        ("coma", {"critic_hidden": (0,)}, "--critic-hidden"),
    ],
)
def test_settings_out_of_range_are_named_before_anything_is_played(tmp_path, algo, fields, flag):
    with pytest.raises(BadInput, match=f"where: {flag}"):
        train(tmp_path / "r", config_of(algo, env="permutation:n=3", steps=24, **fields))
    assert RunFolder.open(tmp_path / "r").read_metrics() == []


def test_every_number_of_a_team_learner_has_a_range():
    from evolvent.runs.team import checks as team_checks

    free = {"seed"}
    for algo in TEAMS:
        kind = importlib.import_module(f"evolvent.algos.{algo}").Config
        for field in (*dataclasses.fields(kind), *dataclasses.fields(Plan)):
            if field.type in ("int", "float", "tuple[int, ...]") and field.name not in free:
                assert team_checks._bounds(field.name)[0] is not None, f"{algo}: {field.name}"


def test_who_watches_is_shown_what_is_being_played(tmp_path):
    said = train(tmp_path / "r", mat())
    assert said.index("playing 4 attempts with random actions and as many without; then 8 x 24 steps") < said.index(
        "playing 4 attempts, greedy"
    )
    assert "playing 4 attempts, actions sampled" in said


# ------------------------------------------------------------------------------------------------ frozen
@pytest.mark.parametrize("algo", TEAMS)
def test_every_team_learner_plays_its_checkpoint_with_the_numbers_of_its_run(tmp_path, algo):
    train(tmp_path / "r", config_of(algo, env="permutation:n=3", steps=96, ids=True))
    summary = RunFolder.open(tmp_path / "r").summary()
    result = judge(tmp_path / "r")
    assert result["greedy"] == summary["greedy"] and result["sampled"] == summary["sampled"]
    assert result["random"]["value"] == summary["baseline"]["value"] and result["update"] == summary["updates"]
    assert judge(tmp_path / "r", episodes=7)["n"] == 7


def test_numbers_are_also_measured_against_doing_nothing_choices_are_not(tmp_path):
    train(tmp_path / "numbers", mat(env="spread:n=3,limit=6"))
    summary, result = RunFolder.open(tmp_path / "numbers").summary(), judge(tmp_path / "numbers")
    assert summary["idle"]["name"] == "no action" and result["idle"]["value"] == summary["idle"]["value"]
    team = TeamSpec(("a", "b"), 3, (ActionSpec(dims=2),) * 2)
    assert list(baselines(team)) == ["random", "idle"]
    view = View(torch.ones(5, 2, 3), torch.ones(5, 6))
    assert torch.equal(baselines(team)["idle"](view, True, torch.Generator()), torch.zeros(5, 2, 2))
    assert list(baselines(TeamSpec(("a", "b"), 3, (ActionSpec(choices=4),) * 2))) == ["random"]


def test_an_environment_with_longer_attempts_can_be_played_too(tmp_path):
    """18 steps between restarts while training, which a frozen policy does not know."""
    train(tmp_path / "r", mat())
    assert judge(tmp_path / "r", env="spread:n=3,limit=30")["greedy"]["length_mean"] == 30


def test_weights_that_do_not_fit_another_team_say_why(tmp_path):
    train(tmp_path / "r", mat(24, ids=True))
    with pytest.raises(ModelError, match="do not fit") as error:
        judge(tmp_path / "r", env="spread:n=3,limit=6")
    assert "--no-ids" in str(error.value) and "trained on spread:n=2,limit=6" in str(error.value)


@pytest.mark.parametrize("algo", TEAMS)
def test_an_evaluation_trains_nothing_and_opens_no_copies_to_train_in(tmp_path, monkeypatch, algo):
    train(tmp_path / "r", config_of(algo, env="spread:n=2,limit=6,discrete=true", steps=24, envs=4))
    opened, load = [], envs.load_team

    def counted(spec, n_envs, **options):
        opened.append(n_envs)
        return load(spec, n_envs, **options)

    def refused(*_, **__):
        raise AssertionError("an evaluation trains")

    with monkeypatch.context() as during:
        during.setattr(envs, "load_team", counted)
        for owner, name in ((TeamRun, "__init__"), (Steps, "__init__"), (torch.optim.Optimizer, "__init__")):
            during.setattr(owner, name, refused)
        judged = judge(tmp_path / "r", episodes=3)
    assert opened == [1, 3, 3, 3], "one copy shows the team; random, greedy and sampled play the attempts"
    assert judged["n"] == 3
    again = judge(tmp_path / "r")
    assert again["greedy"] == RunFolder.open(tmp_path / "r").summary()["greedy"]


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    begin(tmp_path / "r", "mat", mat())
    with pytest.raises(BadInput, match="no checkpoint"):
        judge(tmp_path / "r")


# ------------------------------------------------------------------------------------------------ another start
@pytest.mark.parametrize("algo", ["mat", "pmat", "ippo"])
def test_another_run_is_the_start(tmp_path, algo):
    shared = {"shared": True} if algo == "ippo" else {}
    train(tmp_path / "a", config_of(algo, env="spread:n=2,limit=6", steps=48, **shared))
    still = {"lr": 0.0, "critic_lr": 0.0} if algo == "ippo" else {"lr": 0.0}
    init = str(tmp_path / "a")
    same = config_of(algo, env="spread:n=2,limit=6", steps=24, init=init, **still, **shared)
    assert "starting with the weights of" in train(tmp_path / "b", same)
    greedy = [RunFolder.open(tmp_path / name).summary()["greedy"]["value"] for name in ("a", "b")]
    assert greedy[0] == greedy[1], "nothing was learned: it plays like the run it came from"


def test_a_start_that_is_not_there_is_refused_before_anything_is_played(tmp_path):
    with pytest.raises(BadInput):
        train(tmp_path / "r", mat(init=str(tmp_path / "nothing")))
    assert RunFolder.open(tmp_path / "r").read_metrics() == []


def test_the_loop_in_the_docstring_runs(tmp_path):
    """The example of ``runs.team.run`` as it stands there, with a network and a step of learning put around it."""
    example = inspect.getdoc(team_session).split("\n\n")[1]
    source = "def run(config, folder, live, resume=False):\n" + textwrap.indent(textwrap.dedent(example), "    ")
    config = config_of("mappo", env="spread:n=2,limit=6", steps=24 * 2)
    team = envs.load_team(config.env, 1).team
    actors = Actors(team, team.obs_dim, hidden=(8,), shared=True).to(config.plan.device)
    critic = torch.nn.Linear(team.state_dim, 1).to(config.plan.device)

    def value(view):
        return critic(view.state).expand(-1, 2)

    space = {
        "open_team": team_session.open_team,
        "torch": torch,
        "agent_gae": agent_gae,
        "actors": actors,
        "value": value,
        "act": acting(actors),
        "adam": torch.optim.Adam(actors.parameters()),
        "learn": lambda batch, adv: {"loss": float(adv.abs().mean())},
    }
    exec(source, space)
    with begin(tmp_path, "mappo", config) as folder:
        summary = space["run"](config, folder, Live(True, stream=io.StringIO()))
    assert summary["updates"] == 2 and summary["algo"] == "mine"
    assert [row["loss"] > 0 for row in folder.read_metrics() if "update" in row] == [True, True]


@pytest.mark.parametrize(
    "spec", ["mpe:simple_push", "mpe:simple_tag", "vmas:simple_adversary", "pettingzoo:mpe2.simple_crypto_v3"]
)
def test_a_game_of_two_sides_is_refused_before_anything_is_learned(tmp_path, spec):
    pytest.importorskip(spec.partition(":")[0] if spec[:4] == "vmas" else "mpe2")
    with pytest.raises(BadInput, match="no team"):
        train(tmp_path / "a", config_of("ippo", env=spec, steps=24))
    train(tmp_path / "b", config_of("ippo", env=spec, steps=24, opposed=True))


def test_rewards_of_their_own_do_not_make_agents_opponents(tmp_path):
    pytest.importorskip("lbforaging")
    train(tmp_path, config_of("ippo", env="lbf:Foraging-5x5-3p-2f-v3", steps=24, eval_episodes=16))
