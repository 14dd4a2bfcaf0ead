"""BenchMARL's VDN, QMIX or MADDPG on a task of VMAS, judged on the way; run by ``offpolicy.py`` with its packages.

Takes one JSON object of settings on the command line and prints one: returns of greedy attempts by step, and the
seconds without these.
"""

import json
import sys
import tempfile
import time

import torch
from benchmarl.algorithms import MaddpgConfig, QmixConfig, VdnConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from benchmarl_worker import versions

ALGORITHMS = {"vdn": VdnConfig, "qmix": QmixConfig, "maddpg": MaddpgConfig}
TASKS = {"simple_spread": VmasTask.SIMPLE_SPREAD, "balance": VmasTask.BALANCE}


class Watch(Callback):
    """Returns of attempts: the mean over agents, summed over steps."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluations: list[tuple[int, list[float]]] = []

    def on_evaluation_end(self, rollouts) -> None:
        gained = [float(one[("next", "agents", "reward")].mean(-2).sum()) for one in rollouts]
        self.evaluations.append((self.experiment.total_frames, gained))


def main() -> None:
    """Train and tell."""
    want = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    each = want["envs"] * want["horizon"]
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = config.buffer_device = "cpu"
    config.render, config.loggers, config.create_json = False, [], False
    config.evaluation, config.evaluation_interval, config.evaluation_episodes = True, each, want["episodes"]
    config.evaluation_interval *= want["eval_every"]
    config.evaluation_deterministic_actions = True
    config.prefer_continuous_actions = not want["discrete"]
    config.lr, config.gamma, config.clip_grad_val = want["lr"], want["gamma"], 10.0
    config.off_policy_n_envs_per_worker, config.off_policy_collected_frames_per_batch = want["envs"], each
    config.off_policy_n_optimizer_steps = want["horizon"]
    config.off_policy_train_batch_size, config.off_policy_memory_size = want["batch"], want["buffer"]
    config.off_policy_init_random_frames = want["warmup"]
    config.max_n_frames, config.max_n_iters = want["steps"], None
    if want["discrete"]:
        config.exploration_eps_init, config.exploration_eps_end = 1.0, want["epsilon_end"]
        config.exploration_anneal_frames = want["exploration"]
        config.soft_target_update, config.hard_target_update_frequency = False, want["target_every"]
    else:
        config.soft_target_update, config.polyak_tau = True, want["tau"]
    model = MlpConfig.get_from_yaml()
    model.num_cells = want["hidden"]
    task = TASKS[want["scenario"]].get_from_yaml()
    task.config |= {"max_steps": 100}
    watch, begun = Watch(), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        config.save_folder = place
        experiment = Experiment(
            task=task,
            algorithm_config=ALGORITHMS[want["algo"]].get_from_yaml(),
            model_config=model,
            critic_model_config=model,
            seed=want["seed"],
            config=config,
            callbacks=[watch],
        )
        judge, aside = experiment._evaluation_loop, []

        def timed() -> None:
            start = time.perf_counter()
            judge()
            aside.append(time.perf_counter() - start)

        experiment._evaluation_loop = timed
        experiment.run()
        timed()  # after the last step
    seconds = time.perf_counter() - begun - sum(aside)
    print(json.dumps({"evaluations": watch.evaluations, "seconds": seconds, "versions": versions()}))


if __name__ == "__main__":
    main()
