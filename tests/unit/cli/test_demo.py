"""`evolvent demo`: what it shows comes from the memory, and its run folder is one that every other command reads."""

import pytest

import evolvent
from evolvent import demo
from evolvent.cli import main
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.running import Result
from evolvent.runs.shell import Shell
from evolvent.testing.env import check_env

ANSWERS = "evolvent.demo:answer"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "run"
    main(["demo", "--out", str(folder), "--no-open", "--plain"])
    return folder


def test_nothing_before_everything_after(shown, capsys):
    rows = RunFolder.open(shown).read_metrics()
    right = {}
    for row in rows:
        right.setdefault((row["phase"], row["pass"]), []).append(row["success"])
    assert right == {
        ("before", 1): [0] * 8,
        ("stream", 1): [0] * 4,
        ("stream", 2): [1] * 4,
        ("after", 2): [1] * 8,
        ("control", 1): [0] * 4,
    }
    assert not {row["task"] for row in rows if row["phase"] == "stream"} & {
        row["task"] for row in rows if row["phase"] == "after"
    }
    assert (shown / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memory", "explain", "{}/memory.db", "m1"), "from reviewer"),
        (("memory", "audit", "{}/memory.db"), "Health"),
        (("credit", "{}", "--rule", "memlift"), "m4"),
        (("compare", "{}"), "memlift"),
        (("eval", "{}"), "8 of 8, 100 %"),
    ],
)
def test_every_other_command_reads_its_folder(shown, capsys, arguments, said):
    main([word.format(shown) for word in arguments])
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attempts", "says"), [("0", "no number of attempts"), ("-3", "1 to 10,000"), ("2", "not evaluated by several")]
)
def test_several_attempts_at_a_task_are_for_models_that_learned(shown, capsys, attempts, says):
    with pytest.raises(SystemExit) as stopped:
        main(["eval", str(shown), "--attempts", attempts])
    assert stopped.value.code == 2 and says in capsys.readouterr().err


def test_a_long_run_says_how_long_it_will_take(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Shell, "left", property(lambda shell: 600.0))
    main(["demo", "--out", str(tmp_path / "run"), "--no-open", "--plain"])
    assert "task 1/28 · 10 min left" in capsys.readouterr().out


def test_without_the_memory_nothing_is_learned(tmp_path):
    settings = {"env": "evolvent.demo:make", "model": ANSWERS, "train": 4, "heldout": 4}
    result = evolvent.run("no_memory", out=tmp_path / "run", quiet=True, embedder="hash", **settings)
    assert isinstance(result, Result) and result.summary["score"]["value"] == 0.0


def test_the_world_keeps_the_contract_and_ends():
    world = demo.make()
    check_env(world)
    assert len(world.tasks("train", 36, 0)) == 8, "all there are: it is run with the usual sizes, too"
    with pytest.raises(BadInput, match="not a question"):
        demo.answer("Q: Who are you?\nSQL:")
    world.close()


def test_the_agent_follows_the_best_example_of_the_same_question():
    asked = "Q: How much work is still open for Graz?\nSQL:"
    other, same = "Q: What got lost on its way to Oslo?\nSQL: B\n\n", "Q: How much work is still open for Oslo?\nSQL: "
    assert demo.answer(other + asked).endswith("'Graz' AND state = 'open'")
    assert demo.answer(f"{same}first\n\n{same}for 'Oslo'\n\n{other}{asked}") == "for 'Graz'"
