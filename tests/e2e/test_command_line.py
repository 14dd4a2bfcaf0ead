"""The command line as a user meets it: a process, its output, its exit code, and the folder it leaves."""
# pyright: reportOptionalIterable=false, reportOptionalMemberAccess=false

import json
import signal
import subprocess
import sys
import time

import pytest
from command import evolvent, start

from evolvent.core.folder import RunFolder


def test_help_is_fast_and_imports_nothing_heavy(tmp_path):
    code = (
        "import sys, time; t = time.perf_counter(); sys.argv = ['evolvent', '--help']\n"
        "from evolvent.cli import main; main()\n"
        "bad = {'torch', 'transformers', 'numpy', 'tyro', 'rich'} & set(sys.modules)\n"
        "print('heavy', sorted(bad)); print('seconds', time.perf_counter() - t)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "evolvent run ALGO" in out and "heavy []" in out
    assert float(out.rsplit("seconds ", 1)[1]) < 0.5


def test_only_the_command_line_imports_tyro(tmp_path):
    code = (
        "import sys, pkgutil, importlib, evolvent.core, evolvent.evaluate, evolvent.formulas\n"
        "for room in (evolvent.core, evolvent.evaluate, evolvent.formulas):\n"
        "    for m in pkgutil.iter_modules(room.__path__): importlib.import_module(room.__name__ + '.' + m.name)\n"
        "print(sorted({'tyro', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_run_leaves_a_folder_that_says_everything(tmp_path):
    arguments = ("run", "fake_algorithm", "--seed", 3, "--steps", 20, "--lessons", "failures", "--out", "here/r")
    out, _ = evolvent(*arguments, cwd=tmp_path)
    folder = RunFolder.open(tmp_path / "here/r")
    assert folder.manifest()["config"] == {
        "env": "",
        "model": "none",
        "seed": 3,
        "steps": 20,
        "bias": 0.5,
        "wait_s": 0.0,
        "lessons": ["failures"],
    }
    assert (
        folder.manifest()["command"]
        == "evolvent run fake_algorithm --seed 3 --steps 20 --lessons failures --out here/r"
    )
    assert len(folder.read_metrics()) == 20 and folder.summary()["score"]["name"] == "heads"
    assert "coin 20?" in out and "report: here/r/report.html" in out and (tmp_path / "here/r/report.html").exists()


def test_default_folder_names_what_ran(tmp_path):
    evolvent("run", "fake_algorithm", "--seed", 5, "--steps", 2, cwd=tmp_path)
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.startswith("fake_algorithm-none-5-")


def test_help_of_an_algorithm_shows_every_field_with_its_meaning(tmp_path):
    out, _ = evolvent("run", "fake_algorithm", "--help", cwd=tmp_path)
    for said in ("--bias", "Probability of heads", "--seeds", "--resume", "--wait-s", "Coin: a tiny stand-in"):
        assert said in out


def test_list_reads_paper_levels_and_status(tmp_path):
    out, _ = evolvent("list", "algos", cwd=tmp_path)
    line = next(line for line in out.splitlines() if line.startswith("fake_algorithm"))
    assert "arXiv 0000.00000" in line and "memory, step" in line and "known broken" in line and "Coin: a tiny" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rum",), "did you mean 'run'?"),
        (("run", "fake_algoritm"), "did you mean 'fake_algorithm'?"),
        (("run", "fake_algorithm", "--env", "analist"), "did you mean 'analyst'"),
        (("run", "fake_algorithm", "--model", "missing"), "evolvent list models"),
        (("run", "fake_algorithm", "--resume", "nowhere"), "config.json"),
        (("list", "algo"), "did you mean 'algos'?"),
        (("compare", "nowhere"), "no such folder"),
        (("eval", "nowhere"), "config.json"),
        (("memory", "audit", "nowhere.db"), "there is no memory"),
        (("bench", "recall"), "python -m benchmarks.speed NAME"),
    ],
)
def test_requests_that_cannot_be_met_are_explained_without_a_traceback(tmp_path, arguments, said):
    out, err = evolvent(*arguments, cwd=tmp_path, code=2)
    assert said in err and "Traceback" not in err + out
    assert not list(tmp_path.glob("runs/*")), "nothing is left behind"


def test_a_misspelt_flag_is_refused_with_the_closest(tmp_path):
    _, err = evolvent("run", "fake_algorithm", "--bais", 1, cwd=tmp_path, code=2)
    assert "--bias" in err and "Traceback" not in err


def test_a_run_never_writes_into_a_folder_that_holds_something(tmp_path):
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "r", cwd=tmp_path)
    before = (tmp_path / "r/metrics.jsonl").read_bytes()
    _, err = evolvent("run", "fake_algorithm", "--steps", 2, "--out", "r", cwd=tmp_path, code=2)
    assert "--resume r" in err and (tmp_path / "r/metrics.jsonl").read_bytes() == before


def _interrupted(tmp_path, *arguments):
    process = start("run", "fake_algorithm", "--steps", 40, "--wait-s", "0.05", *arguments, cwd=tmp_path)
    for line in process.stdout:
        if "coin 3?" in line:
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_ctrl_c_finishes_the_task_says_how_to_resume_and_the_numbers_are_the_same(tmp_path):
    code, err = _interrupted(tmp_path, "--out", "r")
    assert code == 130 and "evolvent run fake_algorithm --resume r" in err and "Traceback" not in err
    folder = RunFolder.open(tmp_path / "r")
    assert 3 <= len(folder.read_metrics()) < 40 and not folder.finished
    evolvent("run", "fake_algorithm", "--resume", "r", cwd=tmp_path)
    evolvent("run", "fake_algorithm", "--steps", 40, "--out", "whole", cwd=tmp_path)
    rows = [
        [(row["step"], row["success"]) for row in RunFolder.open(tmp_path / n).read_metrics()] for n in ("r", "whole")
    ]
    assert rows[0] == rows[1]
    assert RunFolder.open(tmp_path / "r").summary() == RunFolder.open(tmp_path / "whole").summary()


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    process = start("run", "fake_algorithm", "--wait-s", 30, "--out", "r", cwd=tmp_path)
    for line in process.stdout:
        if "coins" in line:
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert "finishing the task at hand" in (process.stderr.readline() + process.stderr.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130 and "--resume r" in err and "Traceback" not in err


def test_a_resumed_run_keeps_its_settings(tmp_path):
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "r", cwd=tmp_path)
    _, err = evolvent("run", "fake_algorithm", "--resume", "r", "--steps", 9, cwd=tmp_path, code=2)
    assert "steps 2 → 9" in err
    (tmp_path / "r" / "report.html").unlink()  # as if it had been stopped just before its last page
    out, _ = evolvent("run", "fake_algorithm", "--resume", "r", cwd=tmp_path)
    assert "nothing to do" in out and (tmp_path / "r" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume", "one", "--out", "two"), "stays in its folder"),
        (("--resume", "one", "--seeds", 0, 1), "leave --seeds out"),
        (("--resume", "both"), "--seeds 0 10"),
        (("--resume", "nowhere", "--seeds", 0), "no such folder"),
        (("--resume", "both", "--seeds", 0, 10, "--bias", 0.4), "keeps its settings"),
    ],
)
def test_what_cannot_be_resumed_is_reported_and_nothing_is_written(tmp_path, arguments, said):
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "one", cwd=tmp_path)
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "both", "--seeds", 0, 10, cwd=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    _, err = evolvent("run", "fake_algorithm", *arguments, cwd=tmp_path, code=2)
    assert said in err and "Traceback" not in err, err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_goes_on_under_the_algorithm_that_began_it(tmp_path):
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "a run", cwd=tmp_path)
    _, err = evolvent("run", "no_memory", "--resume", "a run", cwd=tmp_path, code=2)
    assert "a run of another algorithm" in err and "evolvent run fake_algorithm --resume 'a run'" in err


def test_several_seeds_make_one_folder_each_and_a_comparison(tmp_path):
    out, _ = evolvent("run", "fake_algorithm", "--seeds", 0, 1, 2, "--out", "s", cwd=tmp_path)
    seeds = sorted(path.name for path in (tmp_path / "s").iterdir() if path.is_dir())
    assert seeds == ["seed-0", "seed-1", "seed-2"]
    assert [RunFolder.open(tmp_path / "s" / name).manifest()["seed"] for name in seeds] == [0, 1, 2]
    assert (tmp_path / "s/compare.html").exists() and "IQM" in out
    again, _ = evolvent("compare", *sorted((tmp_path / "s").iterdir()), cwd=tmp_path)
    assert "compare.html is a page, no run" in again and "IQM" in again


def test_several_seeds_resume_where_they_stopped(tmp_path):
    code, err = _interrupted(tmp_path, "--seeds", "0", "1", "--out", "s")
    assert code == 130 and "--resume s --seeds 0 1" in err
    evolvent("run", "fake_algorithm", "--resume", "s", "--seeds", 0, 1, cwd=tmp_path)
    for name in ("seed-0", "seed-1"):
        assert len(RunFolder.open(tmp_path / "s" / name).read_metrics()) == 40


def test_eval_calls_the_algorithm_and_keeps_the_result(tmp_path):
    evolvent("run", "fake_algorithm", "--steps", 2, "--out", "r", cwd=tmp_path)
    out, _ = evolvent("eval", "r", "--episodes", 7, cwd=tmp_path)
    assert "evaluating 7" in out and json.loads((tmp_path / "r/eval.json").read_text()) == {"n": 7}


def test_compare_writes_a_page(tmp_path):
    for bias in (0.2, 0.9):
        evolvent("run", "fake_algorithm", "--steps", 30, "--bias", bias, "--out", f"b{bias}", cwd=tmp_path)
    out, _ = evolvent("compare", "b0.2", "b0.9", "--html", "c.html", cwd=tmp_path)
    assert "fake_algorithm (bias=0.9)" in out and "McNemar" in out
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("arguments", [("list", "--plain"), ("--help",), ("run", "fake_algorithm", "--steps", 500)])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path, arguments):
    process = start(*arguments, cwd=tmp_path)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 141 and err == ""
