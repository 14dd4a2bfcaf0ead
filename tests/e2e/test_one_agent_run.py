"""A run of one agent with a replay buffer through the command line: killed, continued, judged, compared, played."""

import json
import shlex
import signal
import time
from functools import partial

import command
import torch

from evolvent import envs
from evolvent.algos import dqn
from evolvent.core.folder import RunFolder
from run_folders import stable, weights

evolvent = partial(command.evolvent, trains=True)
WORDS = shlex.split(
    "--env gymnasium:CartPole-v1,max_episode_steps=40 --steps 2400 --horizon 50 --warmup 100 --batch 8 --hidden 8 "
    "--n-step 3 --buffer 900 --eval-every 10 --eval-episodes 4 --save-every 4 --plain"
)


def test_killed_continued_judged_compared_and_played(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown, _ = evolvent("run", "dqn", *WORDS, "--out", "whole", cwd=tmp_path)
    assert "update 48/48" in shown and "random actions" in shown and "report:" in shown
    cut, log = tmp_path / "cut", tmp_path / "cut" / "metrics.jsonl"
    process, until = command.start("run", "dqn", *WORDS, "--out", "cut", cwd=tmp_path), time.monotonic() + 180
    while time.monotonic() < until and process.poll() is None:
        if log.exists() and '"update": 25,' in log.read_text():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (cut / "summary.json").exists(), "the run was over before it could be killed"
    evolvent("run", "dqn", "--resume", "cut", "--plain", cwd=tmp_path)
    assert stable(cut) == stable(tmp_path / "whole") and weights(cut) == weights(tmp_path / "whole")

    evolvent("eval", "cut", "--episodes", "4", cwd=tmp_path)
    judged = json.loads(next(tmp_path.glob("cut/**/eval*.json")).read_text())
    summary = json.loads((cut / "summary.json").read_text())
    assert judged["greedy"]["returns"] == summary["greedy"]["returns"] and judged["agents"] == ["agent0"]
    evolvent("run", "dqn", *WORDS, "--double", "--steps", "1000", "--out", "double", cwd=tmp_path)
    compared, _ = evolvent("compare", "cut", "double", cwd=tmp_path)
    assert "double" in compared
    page = (cut / "report.html").read_text()
    assert "return, greedy" in page and "Who earned" not in page  # there is nobody else

    policy = dqn.policy(RunFolder.open(cut))
    env, generator = envs.load_team("gymnasium:CartPole-v1,max_episode_steps=40", 4), torch.Generator()
    played = policy.play(env, episodes=4, greedy=True, generator=generator, seed=0)
    assert len(played["return"]) == 4 and played["return"].max() <= 40
