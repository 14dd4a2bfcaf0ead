"""A model that scores commands: what it read for them is on the account."""

import numpy as np

from evolvent.core.protocols import Request
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted


class Reader(Scripted):
    def tokenize(self, text):
        return np.zeros(len(text.split()), np.int32)


def read(model, *choices):
    (answer,) = Served(model)([Request("one two three", 0, 4, ("\n",), choices)])
    return answer.prompt_tokens


def test_what_is_read_to_choose_a_command_counts_as_prompt():
    model = Reader(lambda prompt: "", scores=lambda prompt, text: float(len(text)))
    assert read(model, " go", " wait") == 3
    assert read(model, " go") == 0  # an only action is not scored
    assert read(Scripted(lambda prompt: "", scores=lambda prompt, text: 0.0), " go", " wait") == 0
