"""A random language model of a few kilobytes, with a tokenizer of single characters, as a folder like any other."""

import string
from pathlib import Path

import pytest
import torch

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'tool' and loop.first %}{{ raise_exception('no call before') }}"
    "{% endif %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'].split('</think>')[-1] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


def tokenizer(template=TEMPLATE):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {"<unk>": 0} | {c: i + 1 for i, c in enumerate(string.printable)}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.add_tokens([AddedToken("<think>", special=False)])
    fast.chat_template = template
    return fast


def write(folder: Path, *, kind="LlamaConfig", seed=0, template=TEMPLATE, **settings) -> str:
    """The folder, with weights and tokenizer in it."""
    import transformers

    words = tokenizer(template)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"num_key_value_heads": 2, "vocab_size": len(words), "max_position_embeddings": 256}
    ends = {"eos_token_id": words.eos_token_id, "bos_token_id": None, "pad_token_id": None}
    config = getattr(transformers, kind)(
        **(size | ends | {"initializer_range": 0.4, "attention_dropout": 0.3} | settings)
    )
    torch.manual_seed(seed)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def fixture(**settings):
    """A fixture for a module of tests: such a folder, written once."""

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory):
        return write(tmp_path_factory.mktemp("tiny") / "model", **settings)

    return folder


def stir(model, scale=0.2, seed=1):
    """Give every adapter an effect: LoRA begins with none."""
    generator = torch.Generator().manual_seed(seed)
    for name in model.adapters:
        for parameter in model.trainable(name):
            parameter.data += scale * torch.randn(parameter.shape, generator=generator).to(parameter)
    return model
