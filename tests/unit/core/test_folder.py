"""The run folder: whole lines, atomic summary, torn tails, resume, secrets, and Ctrl-C as a request."""

import json
import math
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.folder import Interrupt, RunFolder
from evolvent.core.jsonfile import cut_torn_line, mask_secrets, write_atomic


class Recorded:
    """Stands for an episode: the folder only calls ``to_dict``."""

    def __init__(self, name):
        self.name = name

    def to_dict(self):
        return {"id": self.name, "text": "naïve – 東京"}


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(
        tmp_path / "run", algo="memlift", config={"k": 3}, env="analyst", seed=4, command=["evolvent", "run"]
    ) as made:
        yield made


def test_config_says_what_ran_and_where_without_names(folder):
    content = json.loads((folder.path / "config.json").read_text())
    assert content["algo"] == "memlift" and content["seed"] == 4 and content["config"] == {"k": 3}
    assert content["versions"]["numpy"] == np.__version__
    assert set(content["machine"]) == {"cpu", "cores", "memory_gib", "system", "python"}
    assert os.uname().nodename not in re.findall(r"[\w.-]+", json.dumps(content))


def test_home_folder_is_stored_as_tilde_and_comes_back(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    made = RunFolder.create(
        tmp_path / "r",
        algo="a",
        config={"model": "/home/somebody/m.gguf", "ks": ("a", 1)},
        env="e",
        seed=0,
        command="evolvent run a --model /home/somebody/m.gguf",
    )
    assert "somebody" not in (made.path / "config.json").read_text()
    assert made.config == {"model": "/home/somebody/m.gguf", "ks": ["a", 1]}


def test_refuses_a_folder_that_holds_something(folder):
    with pytest.raises(BadInput, match="--resume"):
        RunFolder.create(folder.path, algo="a", config={}, env="e", seed=0, command="")


def test_refuses_what_is_no_run_folder(tmp_path):
    with pytest.raises(BadInput, match=r"config\.json"):
        RunFolder.open(tmp_path)


def test_lines_are_on_disk_at_once_and_plain_json(folder):
    folder.log(1, success=np.int64(1), reward=np.float32(0.5), lift=math.nan, ok=np.bool_(True), ids=("m1",))
    line = (folder.path / "metrics.jsonl").read_text()
    assert line.endswith("\n")
    row = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert {k: row[k] for k in ("step", "success", "reward", "lift", "ok", "ids")} == {
        "step": 1,
        "success": 1,
        "reward": 0.5,
        "lift": None,
        "ok": True,
        "ids": ["m1"],
    }
    assert row["t"] >= 0


def test_half_a_character_survives(folder):
    folder.log(1, text="a\ud800b")
    folder.write_summary({"text": "\udfff"})
    assert folder.read_metrics()[0]["text"] == "a\ud800b" and folder.summary() == {"text": "\udfff"}


def test_objects_that_are_not_json_are_refused_and_nothing_is_written(folder):
    with pytest.raises(BadInput, match="not a JSON value"):
        folder.log(1, x=object())
    folder.log(2, x=1)
    assert [row["step"] for row in folder.read_metrics()] == [2]


def test_torn_last_line_is_ignored_by_readers_and_cut_by_the_next_writer(folder):
    folder.log(1, x=1)
    folder.close()
    path = folder.path / "metrics.jsonl"
    with path.open("ab") as file:
        file.write(b'{"t": 1.0, "step": 2, "x')
    again = RunFolder.open(folder.path)
    assert [row["step"] for row in again.read_metrics()] == [1]
    again.log(2, x=2)
    assert [row["step"] for row in again.read_metrics()] == [1, 2]


@pytest.mark.parametrize("tail", [0, 1, 65535, 65536, 200_000])
def test_cut_torn_line_finds_the_last_newline_at_any_distance(tmp_path, tail):
    path = tmp_path / "f"
    path.write_bytes(b"whole\n" + b"x" * tail)
    assert cut_torn_line(path) == tail
    assert path.read_bytes() == b"whole\n"


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b'{"a"')
    assert cut_torn_line(path) == 4 and path.read_bytes() == b""


def test_truncate_drops_later_steps_from_both_files_and_time_goes_on(folder):
    for step in range(1, 6):
        folder.log(step, x=step)
        folder.episode(Recorded(f"e{step}"))
    folder.truncate(3)
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3]
    assert [row["id"] for row in folder.read_episodes()] == ["e1", "e2", "e3"]
    folder.log(4, x=40)
    rows = folder.read_metrics()
    assert rows[-1]["x"] == 40 and rows[-1]["t"] >= rows[-2]["t"]


def test_another_total_counts_once_the_run_goes_on(folder):
    folder.log(1)
    folder.write_summary({"score": 1})
    folder.close()
    again = RunFolder.open(folder.path)
    before = again.manifest()
    again.extend({**before["config"], "steps": 9}, {"steps": (5, 9)}, "evolvent run x --steps 9")
    assert again.manifest() == before and again.finished, "what fails before it goes on changes nothing"
    again.truncate(1)
    after = again.manifest()
    assert after["config"] == {**before["config"], "steps": 9} and not again.finished
    assert after["extended"][0]["changed"] == {"steps": [5, 9]} and after["extended"][0]["command"].endswith("9")
    assert {k: v for k, v in after.items() if k not in ("config", "extended")} == {
        k: v for k, v in before.items() if k != "config"
    }


def test_a_run_that_is_going_is_not_cut_by_another_process(folder):
    folder.log(1)
    folder.log(2)
    with pytest.raises(BadInput, match="another process"):
        RunFolder.open(folder.path).truncate(1)
    assert [row["step"] for row in folder.read_metrics()] == [1, 2]


def test_a_run_is_alone_in_its_folder_before_it_has_written_a_line(folder):
    with folder.alone():
        with pytest.raises(BadInput, match="another process"), RunFolder.open(folder.path).alone():
            pass
        assert RunFolder.open(folder.path).read_metrics() == []  # whoever reads is not in the way
    with RunFolder.open(folder.path).alone():
        pass


def test_time_continues_after_opening(folder):
    folder.log(7)
    folder.close()
    path = folder.path / "metrics.jsonl"
    path.write_text(json.dumps({"t": 1000.0, "step": 7}) + "\n")
    again = RunFolder.open(folder.path)
    again.log(8)
    assert 1000.0 <= again.read_metrics()[-1]["t"] < 1060.0


def test_a_broken_line_in_the_middle_is_named_with_its_number(folder):
    (folder.path / "metrics.jsonl").write_text('{"t": 0, "step": 1}\nnonsense\n{"t": 0, "step": 2}\n')
    with pytest.raises(BadInput, match=r"metrics\.jsonl:2"):
        folder.read_metrics()


def test_two_writers_are_refused(folder):
    folder.log(1)
    with pytest.raises(BadInput, match="another process"):
        RunFolder.open(folder.path).log(2)


def test_summary_is_replaced_whole(folder):
    assert not folder.finished
    with pytest.raises(BadInput, match="--resume"):
        folder.summary()
    folder.write_summary({"score": {"value": 0.5}})
    folder.write_summary({"score": {"value": 0.75}})
    assert folder.finished and folder.summary() == {"score": {"value": 0.75}}
    assert not list(folder.path.glob(".*tmp"))


def test_atomic_write_keeps_the_old_file_when_the_write_fails(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    write_atomic(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"


def test_keys_are_masked_everywhere_in_the_folder(folder, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    folder.log(1, note="key sk-abcdefghijklmnopqrstuv and correct-horse-battery")
    folder.write_summary({"url": "https://user:pass@host/v1", "text": 'it is "correct-horse-battery"'})
    text = "".join(p.read_text() for p in folder.path.iterdir())
    assert "abcdefghij" not in text and "horse" not in text and "pass@" not in text
    assert folder.summary()["url"] == "https://***@host/v1"


def test_masking_leaves_ordinary_text_alone():
    text = "SELECT AVG(arr_delay) FROM flights WHERE carrier='UA' -- task-12 http://127.0.0.1:8080/v1"
    assert mask_secrets(text) == text


def test_first_interrupt_is_a_request_second_one_stops():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_may_be_entered_again_inside():
    before = signal.getsignal(signal.SIGINT)
    interrupt = Interrupt()
    with interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        with interrupt:
            assert interrupt.requested
    assert signal.getsignal(signal.SIGINT) is before
    with interrupt:
        assert not interrupt.requested


def test_killed_writer_leaves_only_whole_lines(tmp_path):
    code = (
        "import sys; from evolvent.core.folder import RunFolder\n"
        "f = RunFolder.create(sys.argv[1], algo='a', config={}, env='e', seed=0, command='')\n"
        "for i in range(10**6): f.log(i, text='x' * 500); i == 50 and print('go', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "r")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    process.kill()
    process.wait()
    folder = RunFolder.open(tmp_path / "r")
    steps = [row["step"] for row in folder.read_metrics()]
    assert len(steps) > 50 and steps == list(range(len(steps)))
    folder.log(len(steps))
    assert folder.read_metrics()[-1]["step"] == len(steps)
