"""CreativeGame end to end, its model a script and its browser one that reads: lineages, memory, fallback, resume."""

import io
import json
from dataclasses import replace

import pytest

from evolvent import Memory, envs
from evolvent.algos import creative_game
from evolvent.algos.creative_game import planning
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.envs.text.games import Judge
from evolvent.envs.text.games_mechanics import GAMES
from evolvent.envs.text.games_page import blocks_of
from evolvent.evaluate.live import Live
from evolvent.models.served.scripted import Scripted
from evolvent.running import write_report
from evolvent.sandbox.browser import POLICY
from sample_games_run import Writer, begin, live, played, seen


@pytest.fixture(name="browser", autouse=True)
def fake_browser():
    with seen():
        yield


def rows(path):
    """Lines of the log without what a clock says."""
    logged = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("t", "seconds")} for row in logged]


def page(path, step):
    return (path / "games" / f"{step}.html").read_text()


def test_versions_are_a_tree_and_keep_what_their_parent_has(tmp_path):
    summary = played(tmp_path / "run")
    logged = rows(tmp_path / "run")
    by_step = {row["step"]: row for row in logged}
    assert len(logged) == 9 and [row["lineage"] for row in logged[:3]] == ["catch", "dodge", "collect"]
    for row in logged:
        parent = by_step.get(row["parent"])
        assert row["depth"] == (parent["depth"] + 1 if parent else 1)
        assert (parent is None) == (row["phase"] == "v1")
        assert list(blocks_of(page(tmp_path / "run", row["step"]))) == row["mechanics"] and POLICY in page(
            tmp_path / "run", 1
        )
        if parent:
            gone = {one["mechanic"] for one in row["changes"] if one["what"] == "remove"}
            assert parent["lineage"] == row["lineage"]
            assert set(parent["mechanics"]) - gone < set(row["mechanics"]) and not gone & set(row["mechanics"])
        assert [call["stage"] for call in row["calls"] if call["iteration"] == 1] == [
            *([] if parent else ["skeleton"]),
            "feature",
            "visual",
        ]
    assert summary["iterations"][0]["n"] == 21 and summary["score"]["n"] == summary["calls"]
    assert sum(one["n"] for one in summary["depths"]) == summary["calls"]


def test_plans_remove_what_is_over_used_and_take_over_what_another_lineage_has(tmp_path):
    summary = played(tmp_path / "run", versions=4)
    logged = {row["step"]: row for row in rows(tmp_path / "run")}
    first, later = [row for row in logged.values() if row["depth"] == 1], [r for r in logged.values() if r["depth"] > 1]
    assert not any(row["changes"] or row["plan"]["remove"] for row in first)
    assert summary["changes"]["removed"] > 0 < summary["changes"]["taken"]
    with Memory(tmp_path / "run" / "memory.db") as memory:
        parents = {item.id: item.parents for item in memory.items()}
    for row in later:
        parent, aim = logged[row["parent"]], row["plan"]
        assert set(aim["preserve"]) | set(aim["remove"]) == set(parent["mechanics"])
        assert not {"walk", GAMES[row["lineage"]]} & set(aim["remove"])
        assert set(row["mechanics"]) == {*aim["preserve"], *aim["recombine"], *row["added"]}, "template or model"
        for one in row["changes"]:
            assert one["done"] and one["words"] == ""
            if one["what"] == "remove":
                assert [one["mechanic"]] == aim["remove"] and one["why"] in ("over-used", "discouraged")
                continue
            origin = logged[one["from"]["step"]]
            assert origin["lineage"] == one["from"]["lineage"] != row["lineage"] and origin["step"] < row["step"]
            codes = [blocks_of(page(tmp_path / "run", step))[one["mechanic"]] for step in (origin["step"], row["step"])]
            assert codes[0] == codes[1] and origin["memory"] in parents[row["memory"]]
            assert origin["memory"] in row["values"], "it shares in what the version earned"


def test_a_change_after_which_the_page_fails_is_not_made_and_is_reported(tmp_path, monkeypatch):
    judge, failing = Judge.judge, []

    def strict(self, page, source):  # nothing plays without magnet, and nothing with what it took over
        found = judge(self, page, source)
        bare = source == "" and "// mechanic: magnet" not in page
        if bare or (source and source in failing):
            return replace(found, gate="browser", words="s.shot is not there")
        return found

    take = planning.recombination

    def taken(*arguments):
        found = take(*arguments)
        failing.extend([found[0].code] if found[0] else [])
        return found

    monkeypatch.setattr(Judge, "judge", strict)
    monkeypatch.setattr(planning, "recombination", taken)
    summary = played(tmp_path / "run", versions=2, epsilon=0.0)
    undone = [one for row in rows(tmp_path / "run") for one in row["changes"] if not one["done"]]
    assert {one["what"] for one in undone} == {"remove", "take"} and summary["changes"]["undone"] == len(undone)
    for row in rows(tmp_path / "run")[3:]:
        assert "magnet" in row["mechanics"] and row["signals"]["realised"] < 1.0
    html = write_report(tmp_path / "run").read_text()
    assert "not done: remove magnet, the page then fails (s.shot is not there)" in html and "Plan: preserve" in html


def test_plans_that_only_add(tmp_path):
    summary = played(tmp_path / "run", versions=3, change="add")
    assert summary["changes"] == {"removed": 0, "taken": 0, "undone": 0}
    logged = {row["step"]: row for row in rows(tmp_path / "run")}
    for row in logged.values():
        assert not row["parent"] or set(logged[row["parent"]]["mechanics"]) < set(row["mechanics"])


def test_the_model_says_what_goes_and_what_is_taken_over(tmp_path):
    class Chooser(Writer):
        def _write(self, prompt):
            if "should dodge lose" in prompt:
                return " magnet, I think" if "magnet" in prompt else " none"
            if "should dodge take over" in prompt:
                return " fruit"
            return " none" if "should" in prompt else super()._write(prompt) if "Task:" in prompt else "more fun"

    played(tmp_path / "run", model=Chooser(), plan="model", versions=2, epsilon=0.0)
    logged = rows(tmp_path / "run")[3:]
    assert [(one["what"], one["mechanic"]) for one in logged[1]["changes"]] == [("remove", "magnet"), ("take", "fruit")]
    assert not logged[0]["changes"] and not logged[2]["changes"]
    html = write_report(tmp_path / "run").read_text()
    assert "removed magnet (model), took fruit of catch v2, added" in html


def test_a_failure_is_reported_repaired_or_stood_in_for(tmp_path):
    prompts = Writer(never=("fruit", "rocks", "coins"), late=())
    played(tmp_path / "run", model=prompts, versions=1)
    (catch, *_) = rows(tmp_path / "run")
    tries = [call for call in catch["calls"] if call["stage"] == "skeleton"]
    assert [call["gate"] for call in tries] == ["browser"] * 3 and catch["added"]["fruit"] == "template"
    again = [text for text in prompts.prompts if "This failed (" in text]
    assert any("broken is not defined" in text for text in again)
    bare = played(
        tmp_path / "bare", model=Writer(never=("fruit", "rocks", "coins"), late=()), versions=1, fallback=False
    )
    assert "fruit" not in rows(tmp_path / "bare")[0]["mechanics"]
    assert bare["nodes"]["by_template"] == 0


def test_a_template_hides_no_failure_of_the_model(tmp_path):
    def of(name, **more):
        played(tmp_path / name, versions=1, lineages=1, epsilon=0.0, **more)
        (row,) = rows(tmp_path / name)
        return row

    good = of("good", model=Writer(never=(), late=(), prose=()))
    feature = next(call["mechanic"] for call in good["calls"] if call["stage"] == "feature")
    bad = of("bad", model=Writer(never=(feature,), late=(), prose=()))
    assert bad["mechanics"] == good["mechanics"] and bad["added"][feature] == "template"
    assert bad["signals"]["runtime_ok"] == 0 and good["reward"] > bad["reward"]
    assert bad["values"][bad["idea"]] < good["values"][good["idea"]]


def test_what_was_recalled_is_settled_and_lineages_stay_apart(tmp_path):
    played(tmp_path / "run", versions=4, epsilon=0.3)
    logged = rows(tmp_path / "run")
    with Memory(tmp_path / "run" / "memory.db") as memory:
        items = {item.id: item for item in memory.items()}
        assert {"mechanic", "node", "code", "failure"} == {item.kind for item in items.values()}
        nodes = {row["memory"]: row for row in logged}
        for row in logged:
            assert row["idea"] in row["values"]
            for id_ in row["values"]:
                if items[id_].kind == "node":
                    taken = [one["from"]["step"] for one in row["changes"] if one["what"] == "take"]
                    assert nodes[id_]["step"] in [row["parent"], *taken]
                    assert nodes[id_]["step"] in taken or nodes[id_]["lineage"] == row["lineage"]
        assert memory.rebuild_values() == 0
    assert all(call["advice"] for row in logged[3:] for call in row["calls"])


@pytest.mark.parametrize("after", [1, 4, 8])
def test_a_run_that_was_stopped_ends_with_the_same_numbers(tmp_path, after):
    played(tmp_path / "whole", plan="memory")
    config, folder = begin(tmp_path / "cut")

    class Stopper(Live):
        def task(self, i, n, **more):
            folder.interrupt.requested = i == after

    with folder, pytest.raises(Interrupted):
        creative_game.run(config, folder, Stopper(plain=True, stream=io.StringIO()), model=Writer())
    with RunFolder.open(tmp_path / "cut") as folder:
        creative_game.run(config, folder, live(), resume=True, model=Writer())
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    values = []
    for name in ("cut", "whole"):
        with Memory(tmp_path / name / "memory.db") as memory:
            values.append([(i.id, i.kind, i.body, i.value, i.n) for i in memory.items()])
    assert values[0] == values[1]


@pytest.mark.parametrize("select", ["similar", "random", "none"])
def test_controls(tmp_path, select):
    played(tmp_path / "run", select=select, versions=2)
    logged = rows(tmp_path / "run")
    if select == "none":
        assert not any(row["values"] or any(call["advice"] for call in row["calls"]) for row in logged)
    else:
        assert all(row["idea"] for row in logged)


def test_ideas_of_the_model_go_into_the_archive_and_prose_is_none(tmp_path):
    said = {
        "mirror": "Mirror: the keys left and right change places every ten seconds",
        "prose": "I would add more fun!",
    }
    for name, answer in said.items():

        class Thinker(Writer):
            def _write(self, prompt, answer=answer):
                if "One more rule" in prompt:
                    return answer
                if "Add mirror:" in prompt.split("Task: ")[-1]:
                    return "```js\nmechanics.push({ step(s) { s.mirror = s.t % 1200 > 600; } });\n```"
                return super()._write(prompt)

        played(tmp_path / name, model=Thinker(), plan="model", versions=1, lineages=2)
        first, second = rows(tmp_path / name)
        with Memory(tmp_path / name / "memory.db") as memory:
            new = [item for item in memory.items() if item.kind == "mechanic" and item.metadata["lineage"]]
        if name == "mirror":
            assert first["added"]["mirror"] == second["added"]["mirror"] == "model"
            assert [item.body for item in new] == [said["mirror"].replace("Mirror", "mirror")]
            assert new[0].n == 0 and first["idea"] == ""
        else:
            assert not new and first["idea"]


def test_a_model_that_writes_prose_makes_games_of_templates_or_none(tmp_path):
    prose = Scripted({"*": "Sure! Games are fun."})
    summary = played(tmp_path / "run", model=prose, versions=1, lineages=1)
    assert summary["score"]["value"] == 0.0 and summary["nodes"]["by_template"] == 3
    (row,) = rows(tmp_path / "run")
    assert {call["gate"] for call in row["calls"]} == {"text"} and row["reward"] < 0.2
    assert row["reward"] == pytest.approx(0.25 * 0.5 * (0.25 + 0.2 + 0.2 + 0.1 * 0.8))


def test_a_whole_page_is_asked_for_and_taken(tmp_path):
    whole = (
        "<!doctype html><canvas id=c></canvas><script>const g = c.getContext('2d'); let x = { y: 0 };\n"
        "// mechanic: walk\nmechanics = []; addEventListener('keydown', () => { x.y += 1; });\n// end\n"
        "function loop() { g.fillRect(x.y, 0, 9, 9); requestAnimationFrame(loop); }\nloop();</script>"
    )
    model = Scripted({"*": f"```html\n{whole}\n```"})
    played(tmp_path / "run", model=model, versions=1, lineages=1, write="page")
    assert "This is the page so far" in model.prompts[0] and POLICY in page(tmp_path / "run", 1)


def test_a_rating_counts_for_its_share(tmp_path):
    class Rater(Writer):
        def _write(self, prompt):
            return " 10, very" if "Rating:" in prompt else super()._write(prompt)

    played(tmp_path / "plain", versions=1, lineages=1)
    played(tmp_path / "rated", versions=1, lineages=1, judge=True, model=Rater())
    plain, rated = rows(tmp_path / "plain")[0], rows(tmp_path / "rated")[0]
    assert rated["rating"] == 10 and rated["reward"] == pytest.approx(plain["reward"] + 0.15)


def test_the_report_shows_the_lineages_and_frames_that_are_confined(tmp_path):
    played(tmp_path / "run")
    html = write_report(tmp_path / "run").read_text()
    assert html.count('sandbox="allow-scripts"') == 9 and "allow-same-origin" not in html
    assert html.count("data:image/jpeg;base64,") == 9 and "frame-src 'self'" in html
    assert "played in Chrome/0" in html and "script-src" not in html.split("</head>")[0]


def test_static_validation_alone_is_a_choice_that_is_said(tmp_path):
    summary = played(tmp_path / "run", env="games:browser=false", versions=1)
    assert summary["browser"] is None
    assert "no browser: judged by their text" in write_report(tmp_path / "run").read_text()


def test_without_a_browser_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.undo()
    import evolvent.envs.text.games as games
    from evolvent.sandbox import browser

    monkeypatch.setattr(games, "find_browser", browser.find_browser)
    monkeypatch.setenv("EVOLVENT_CHROMIUM", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvError, match=r"chromium-headless-shell.*browser=false"):
        envs.load("games")
    envs.load("games:browser=false").close()


def test_bad_input(tmp_path):
    with pytest.raises(BadInput, match="games"):
        played(tmp_path / "a", env="arithmetic:largest")
    with pytest.raises(BadInput, match="more lineages than games"):
        played(tmp_path / "b", lineages=9)
    with pytest.raises(BadInput, match="iterations"):
        creative_game.Config(iterations=0)
