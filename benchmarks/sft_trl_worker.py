"""TRL's side of ``sft_trl.py``; runs in TRL's environment. Reads a JSON object, writes one, as the last line.

In: folder (a model), template (with generation marks), rows, batch, steps, lr, lora_rank, dtype. Out: tokens and mask
of every row, the loss of every step, seconds (wall, cpu) at the start and after every step.
"""

import json
import os
import sys
import tempfile
import time

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

torch.set_num_threads(1)


class Clock(TrainerCallback):
    """Seconds at the beginning and after each step."""

    def __init__(self):
        self.rows = []

    def on_train_begin(self, *_, **__):
        self.rows.append((time.perf_counter(), time.process_time()))

    on_step_end = on_train_begin


def main():
    want = json.load(sys.stdin)
    tokenizer = AutoTokenizer.from_pretrained(want["folder"])
    tokenizer.chat_template = want["template"]
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(want["folder"], dtype=getattr(torch, want["dtype"]))
    conversations = "messages" in want["rows"][0]
    clock, folder = Clock(), tempfile.mkdtemp()
    args = SFTConfig(
        output_dir=folder,
        per_device_train_batch_size=want["batch"],
        max_steps=want["steps"],
        learning_rate=want["lr"],
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_steps=1,
        max_length=None,
        assistant_only_loss=conversations,
        completion_only_loss=not conversations,
        gradient_checkpointing=False,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        train_sampling_strategy="sequential",
        seed=0,
    )
    lora = None
    if want["lora_rank"]:
        lora = LoraConfig(
            r=want["lora_rank"], lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
        )
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_list(want["rows"]),
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[clock],
    )
    told = []
    for row in trainer.train_dataset:
        mask = row.get("assistant_masks") or row.get("completion_mask")
        mask = mask or [int(label != -100) for label in row["labels"]]
        told.append({"input_ids": list(row["input_ids"]), "mask": list(mask)})
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    grads = [line["grad_norm"] for line in trainer.state.log_history if "grad_norm" in line]
    sys.stdout.write(
        "\n" + json.dumps({"told": told, "losses": losses, "grad_norms": grads, "rows": clock.rows}) + "\n"
    )


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
