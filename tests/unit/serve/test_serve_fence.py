"""The fence stays one block whatever stands in the notes, and is taken out of what comes back."""

import json

import pytest

from evolvent.memory.items import Recalled
from evolvent.serve.fence import CUT, MOST, PREFACE, clean, fenced, notes_of, stripped
from payloads import PAYLOADS, RECEIPT

OPEN, CLOSE = f'<evolvent-notes receipt="{RECEIPT}">', f'</evolvent-notes receipt="{RECEIPT}">'


def item(body, key="a task", id="m1"):
    return Recalled(id, key, body, "case", "neutral", 0.5, 1, 0.1, 0.9, 0.9, 0.9, 1.0, "")


def test_two_hundred_payloads_stay_one_fence():
    assert len(set(PAYLOADS)) == 200
    for payload in PAYLOADS:
        notes = notes_of([item(payload), item("harmless", key=payload, id="m2")])
        block = fenced(RECEIPT, notes)
        first, preface, *lines, last = block.split("\n")
        assert (first, preface, last) == (OPEN, PREFACE, CLOSE)
        assert len(block.splitlines()) == len(lines) + 3 and block.count("evolvent-notes") == 2
        assert [set(json.loads(line)) for line in lines] == [{"id", "when", "note"}] * len(notes)
        assert [json.loads(line)["id"] for line in lines] == ["m1", "m2"][: len(notes)]
        assert block.isprintable() or all(c.isprintable() or c == "\n" for c in block)
        assert stripped(f"before {block} after") == "before  after"


@pytest.mark.parametrize("text", ["plain", "naïve café 中文 🙂", "x = a < b\n\tif x:", "<div>ok</div>"])
def test_what_is_harmless_stays_as_it_is(text):
    assert clean(text) == text


def test_long_notes_are_cut_and_say_so_and_the_last_ones_have_no_room():
    notes = notes_of([item("long " * 1000, id=f"m{i}") for i in range(5)])
    assert [note["cut"] for note in notes] == [True] * 3 and all(note["body"].endswith(CUT) for note in notes)
    assert sum(len(note["key"]) + len(note["body"]) for note in notes) <= MOST
    assert notes_of([]) == [] and fenced(RECEIPT, []) == ""


def test_only_whole_blocks_are_taken_out():
    other = OPEN.replace("r12", "r13")
    assert stripped(f"a{OPEN}b") == f"a{OPEN}b" and stripped(f"a{CLOSE}b") == f"a{CLOSE}b"
    assert stripped(f"a{OPEN}x{other}y{CLOSE}b") == "ab"
    assert stripped(f"a{other}x{OPEN}y{CLOSE}b") == f"a{other}xb"
    assert stripped(f"{OPEN}1{CLOSE} and {OPEN}2{CLOSE}") == " and "
