"""BenchMARL's MAPPO on VMAS simple_spread, timed iteration by iteration; run by ``marl_benchmarl.py`` with its Python.

Takes one JSON object of settings on the command line and prints one with the seconds of every iteration.
"""

import json
import sys
import tempfile
import time

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig


class Clock(Callback):
    """Notes the time whenever an iteration has learned."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[float, float]] = []

    def on_train_end(self, training_td, group) -> None:
        self.rows.append((time.perf_counter(), time.process_time()))


def main() -> None:
    """Train and tell."""
    want = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = config.buffer_device = want["device"]
    config.evaluation, config.render, config.loggers, config.create_json = False, False, [], False
    config.lr, config.adam_eps, config.clip_grad_val = want["lr"], 1e-5, want["grad_clip"]
    config.gamma = want["gamma"]
    config.on_policy_n_envs_per_worker = want["envs"]
    config.on_policy_collected_frames_per_batch = want["envs"] * want["horizon"]
    config.on_policy_n_minibatch_iters = want["epochs"]
    config.on_policy_minibatch_size = want["envs"] * want["horizon"] // want["minibatches"]
    config.max_n_iters, config.max_n_frames = want["iterations"], None
    algorithm = MappoConfig.get_from_yaml()
    algorithm.clip_epsilon, algorithm.entropy_coef, algorithm.lmbda = want["clip"], want["entropy"], want["gae_lambda"]
    model = MlpConfig.get_from_yaml()
    model.num_cells = want["hidden"]
    task = VmasTask.SIMPLE_SPREAD.get_from_yaml()
    task.config |= {"max_steps": 100, "n_agents": 3}
    clock = Clock()
    with tempfile.TemporaryDirectory() as place:
        config.save_folder = place
        experiment = Experiment(
            task=task,
            algorithm_config=algorithm,
            model_config=model,
            critic_model_config=model,
            seed=want["seed"],
            config=config,
            callbacks=[clock],
        )
        experiment.run()
    sizes = {name: sum(p.numel() for p in net.parameters()) for name, net in experiment.group_policies.items()}
    print(json.dumps({"rows": clock.rows, "parameters": sizes, "versions": versions()}))


def versions() -> dict[str, str]:
    """Of what matters here."""
    from importlib.metadata import version

    return {name: version(name) for name in ("benchmarl", "torchrl", "tensordict", "vmas", "torch")}


if __name__ == "__main__":
    main()
