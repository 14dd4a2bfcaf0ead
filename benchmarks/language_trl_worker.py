"""TRL's GRPOTrainer, timed step by step; run by ``language_trl.py`` with the Python of TRL's environment.

Takes one JSON object of settings on standard input and prints one with the seconds of every step.
"""

import json
import resource
import sys
import tempfile
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Clock(TrainerCallback):
    """Notes the time whenever a step ends, and once before the first."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.rows.append((time.perf_counter(), time.process_time()))

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.rows.append((time.perf_counter(), time.process_time()))


def main() -> None:
    """Train and tell."""
    want = json.load(sys.stdin)
    torch.set_num_threads(1)
    shape = want["shape"]
    tokenizer = AutoTokenizer.from_pretrained(want["model"])
    model = AutoModelForCausalLM.from_pretrained(want["model"], dtype=torch.float32)
    lengths: list[int] = []

    def reward(completion_ids, **kwargs) -> list[float]:
        lengths.extend(len(ids) for ids in completion_ids)
        return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]

    peft = None
    if want["lora_rank"]:
        from peft import LoraConfig

        peft = LoraConfig(
            r=want["lora_rank"],
            lora_alpha=16,
            target_modules=["q_proj", "v_proj"],
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
    clock = Clock()
    with tempfile.TemporaryDirectory() as place:
        config = GRPOConfig(
            output_dir=place,
            use_cpu=True,
            bf16=False,
            fp16=False,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            learning_rate=want["lr"],
            weight_decay=0.0,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            optim="adamw_torch",
            seed=want["seed"],
            per_device_train_batch_size=shape["prompts"] * shape["group"],
            gradient_accumulation_steps=1,
            num_iterations=1,
            num_generations=shape["group"],
            max_completion_length=shape["answer"],
            max_steps=want["steps"],
            temperature=1.0,
            beta=0.0,
            loss_type="grpo",
            scale_rewards="group",
            generation_kwargs={"min_new_tokens": shape["answer"]},
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=config,
            processing_class=tokenizer,
            peft_config=peft,
            train_dataset=Dataset.from_dict({"prompt": want["prompts"]}),
            callbacks=[clock],
        )
        trainer.train()
    sizes = sorted({len(tokenizer(text)["input_ids"]) for text in want["prompts"]})
    facts = {
        "rows": clock.rows,
        "prompt_tokens": sizes,
        "completion_tokens": sorted(set(lengths)),
        "completions": len(lengths),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "trained": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        "versions": versions(),
    }
    print(json.dumps(facts))


def versions() -> dict[str, str]:
    """Of what matters here."""
    from importlib.metadata import version

    return {name: version(name) for name in ("trl", "transformers", "accelerate", "peft", "datasets", "torch")}


if __name__ == "__main__":
    main()
