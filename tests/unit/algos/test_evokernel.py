"""EvoKernel end to end, its model a script that can follow one lesson: what it learns, remembers, hands on."""

import io
import json
import re
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from evolvent import Memory
from evolvent.algos import evokernel
from evolvent.algos.evokernel import session
from evolvent.algos.evokernel.texts import PRACTICES, TEMPLATES, lesson_of
from evolvent.cli import main
from evolvent.core import config as configs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.envs.text import kernels, kernels_build, kernels_run
from evolvent.envs.text.kernels_build import Compiler
from evolvent.envs.text.kernels_run import Speed
from evolvent.envs.text.kernels_tasks import BY_NAME
from evolvent.evaluate.live import Live
from evolvent.models.served.scripted import Scripted
from evolvent.running import write_report
from sample_programs_run import FAST, KERNELS, Writer, begin, live, played, replaced

(GOOD,) = (lesson for lesson in PRACTICES if FAST in lesson)

try:
    kernels.Bench().close()
except EnvError as error:  # pragma: no cover - a machine without a compiler
    pytest.skip(f"kernels cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture(name="quick")
def quick_clock(monkeypatch):
    """A clock that says the same, and a judge that draws the same: what it drew stands in its words."""
    judge = kernels.Bench.judge
    monkeypatch.setattr(kernels.Bench, "judge", lambda self, *given, **more: judge(self, *given, **{"seed": 0, **more}))
    for name, other in replaced().items():  # by the fixture that tests replace more with: it is undone in order
        monkeypatch.setattr(kernels, name, other)


def rows(path):
    """Lines of the log without what a clock says."""
    logged = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("t", "seconds")} for row in logged]


def test_drafts_until_one_is_right_then_refines_and_learns_which_lesson_helps(tmp_path, quick):
    summary = played(tmp_path / "run", epsilon=0.0)
    logged = rows(tmp_path / "run")
    assert [row["phase"] for row in logged[:4]] == ["draft"] * 4 and {row["phase"] for row in logged[4:]} == {"refine"}
    assert [row["gate"] for row in logged[:4]] == ["compile", "compile", "", ""]
    assert [row["reward"] for row in logged[:4]] == [-1, -1, 1, 1]
    assert summary["right"]["successes"] == 2 and summary["score"]["value"] == 1.0
    good = next(a for a in summary["advice"] if a["body"] == GOOD)
    # once every kernel has what it brings, it brings nothing more and sinks: what counts is how high it rose
    highest = {}
    for row in logged[4:]:
        for item in row["advice"]:
            highest[item["id"]] = max(highest.get(item["id"], 0.0), row["values"][item["id"]])
    assert good["gains"] == 2 and highest.pop(good["id"]) > 1.05 > 1.0 >= max(highest.values())
    wrong = [row for row in logged if row["phase"] == "refine" and row["gate"]]
    assert all(row["reward"] == -1 for row in wrong)


def test_the_world_of_naive_kernels_begins_with_them_and_they_get_faster(tmp_path, quick):
    config, folder = begin(tmp_path / "run", env="kernels:faster", epsilon=0.0)
    said = io.StringIO()
    with folder:
        summary = evokernel.run(config, folder, Live(plain=True, stream=said), model=Writer())
    logged = rows(tmp_path / "run")
    assert {row["phase"] for row in logged} == {"refine"} and [row["start"] for row in logged[:2]] == [0, 0]
    assert logged[0]["best_before"] == 1.0 and summary["faster"]["successes"] == 2
    assert "begins with its naive kernel" in said.getvalue() and "from naive C" in said.getvalue()
    page = write_report(tmp_path / "run").read_text()
    assert all(f"attempt {row['attempt']}, refine" in page for row in logged)


def test_a_run_from_naive_kernels_goes_on_with_the_same_start_points(tmp_path, quick):
    played(tmp_path / "whole", env="kernels:faster")
    config, folder = begin(tmp_path / "run", env="kernels:faster")
    model = Writer()
    write, asked = model._write, []

    def stopping(prompt):
        asked.append(prompt)
        if len(asked) == 6:
            raise Interrupted
        return write(prompt)

    with folder, pytest.raises(Interrupted):
        evokernel.run(config, folder, live(), model=Scripted(stopping))
    with RunFolder.open(tmp_path / "run") as again:
        evokernel.run(config, again, live(), resume=True, model=Writer())
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_a_start_point_is_chosen_among_all_however_few_memories_are_looked_at(tmp_path):
    with Memory(tmp_path / "m.db", reward_range=session.REWARDS) as memory:
        made = [
            memory.remember("dot", f"/* {i} */", kind="start", metadata={"kernel": "dot"}, value=i / 20, merge=None)
            for i in range(20)
        ]
        work: Any = SimpleNamespace(name="dot", key="dot", starts=dict.fromkeys(made), best=made[0])
        config = evokernel.Config(epsilon=0.0, multiplier=1)
        opened: Any = SimpleNamespace(memory=memory, others={"dot": ["sum"]})
        context = evokernel._context(config, opened, work, 1)
        assert context.origin == made[-1]


def test_where_a_right_kernel_is_there_nothing_can_be_drafted(tmp_path, quick):
    with pytest.raises(BadInput, match="nothing is drafted"):
        played(tmp_path / "run", env="kernels:faster", refine=False)


def test_values_are_of_a_stage_and_of_what_was_shown(tmp_path, quick):
    played(tmp_path / "run", epsilon=0.0)
    logged = rows(tmp_path / "run")
    with Memory(tmp_path / "run" / "memory.db") as memory:
        items = {item.id: item for item in memory.items()}
        assert {"template", "practice", "trace", "failure", "start"} <= {item.kind for item in items.values()}
        by_stage = {}
        for row in logged:
            for id_ in row["values"]:
                by_stage.setdefault(id_, set()).add(row["phase"])
        for id_, stages in by_stage.items():
            values = memory.explain(id_).to_dict()["values"]
            assert {value["stage"] for value in values} == stages
        starts = [item for item in items.values() if item.kind == "start"]
        assert all(item.metadata["kernel"] in KERNELS for item in starts)
        fast = [item for item in starts if FAST in item.body]
        assert fast and all(item.parents for item in fast)
        assert memory.rebuild_values() == 0


def test_memories_of_other_kernels_are_recalled_never_its_own(tmp_path, quick):
    played(tmp_path / "run", epsilon=0.5)
    with Memory(tmp_path / "run" / "memory.db") as memory:
        own = {item.id: item.metadata.get("kernel") for item in memory.items()}
    for row in rows(tmp_path / "run"):
        assert all(own[item["id"]] != row["kernel"] for item in row["advice"])
        assert row["origin"] == "" or own[row["origin"]] == row["kernel"]


@pytest.mark.parametrize("after", [1, 5, 9])
def test_a_run_that_was_stopped_ends_with_the_same_numbers(tmp_path, quick, after):
    played(tmp_path / "whole")
    config, folder = begin(tmp_path / "cut")
    seen = []

    class Stopper(Live):
        def task(self, i, n, **more):
            seen.append(i)
            folder.interrupt.requested = i == after

    with folder, pytest.raises(Interrupted):
        evokernel.run(config, folder, Stopper(plain=True, stream=io.StringIO()), model=Writer())
    again = Writer()
    for row in rows(tmp_path / "cut"):
        again.left[row["kernel"]] -= row["phase"] == "draft"
    with RunFolder.open(tmp_path / "cut") as folder:
        evokernel.run(config, folder, live(), resume=True, model=again)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    values = []
    for name in ("cut", "whole"):
        with Memory(tmp_path / name / "memory.db") as memory:
            values.append([(i.id, i.kind, i.body, i.value, i.n) for i in memory.items()])
    assert values[0] == values[1]


@pytest.mark.parametrize("given", [False, True])
def test_a_run_that_was_killed_before_its_memory_was_there_begins_with_all_of_it(tmp_path, quick, given):
    more = {}
    if given:
        played(tmp_path / "first")
        more = {"memory": str(tmp_path / "first")}
    played(tmp_path / "whole", **more)
    config, folder = begin(tmp_path / "cut", **more)
    folder.close()
    if given:
        (folder.path / "memory.part").write_bytes(b"half a copy")
        (folder.path / "memory.part-wal").write_bytes(b"and its log")
    if not given:  # opened, nothing in it yet
        Memory(folder.path / "memory.db", policy="evokernel", reward_range=session.REWARDS).close()
    with RunFolder.open(tmp_path / "cut") as folder:
        evokernel.run(config, folder, live(), resume=True, model=Writer())
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert {path.name for path in folder.path.glob("memory*")} == {"memory.db"}


def test_what_is_no_memory_of_programs_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "page").write_text("<html>" * 999)
    with Memory(tmp_path / "other", reward_range=(0.0, 1.0)) as memory:
        memory.remember("a", "b")
    for name in ("empty", "page", "other"):
        config, folder = begin(tmp_path / f"run-{name}", memory=str(tmp_path / name))
        with folder, pytest.raises(BadInput, match=f"(?s)not a memory of programs.*{name}.*--memory"):
            evokernel.run(config, folder, live())
        assert not list(folder.path.glob("memory*"))


def test_a_run_that_another_version_began_goes_on_in_its_own_order(tmp_path, quick, monkeypatch):
    config = evokernel.Config(count=4, budget=2)
    drawn = [task.kind for task in kernels.make().tasks("train", 4, 0)]
    seen, out = [], io.StringIO()

    class Stopper(Live):
        def task(self, i, n, **more):
            seen.append(i)
            folder.interrupt.requested = i == 6

    fields = configs.to_json(config)
    folder = RunFolder.create(tmp_path / "run", algo="evokernel", config=fields, env="kernels", seed=0, command="")
    with monkeypatch.context() as patch, folder, pytest.raises(Interrupted):
        # as drawn: so it once began
        patch.setattr(session, "sorted", lambda names, key=None: list(names), raising=False)
        evokernel.run(config, folder, Stopper(plain=True, stream=out), model=Scripted({"*": "prose"}))
    with RunFolder.open(tmp_path / "run") as folder:
        evokernel.run(config, folder, live(), resume=True, model=Scripted({"*": "prose"}))
    assert [row["kernel"] for row in rows(tmp_path / "run")] == drawn * 2 and len(set(drawn)) == 4


def test_a_compiler_that_vanishes_is_no_fault_of_the_programs(tmp_path, quick, monkeypatch):
    written = iter(range(99))

    class Removes(Writer):
        def _write(self, prompt):
            if next(written) == 5:  # after two right drafts
                (tmp_path / "cc").unlink()
            return super()._write(prompt)

    (tmp_path / "cc").write_text('#!/bin/sh\nexec /usr/bin/cc "$@"\n')
    for part in (tmp_path / "cc", tmp_path, tmp_path.parent, tmp_path.parent.parent):  # the jail may be another user's
        part.chmod(0o755)
    compiler = Compiler("cc", (str(tmp_path / "cc"),), (str(tmp_path),))
    monkeypatch.setattr(kernels, "find_compiler", lambda: compiler)
    monkeypatch.setattr(kernels, "compiled", kernels_build.compiled)  # every time
    with pytest.raises(EnvError, match=r"(?s)attempts at the last programs broke.*nothing compiles C any more"):
        played(tmp_path / "run", Removes())
    logged = rows(tmp_path / "run")
    assert {row["gate"] for row in logged[5:]} == {"harness"} and not any(row["valid"] for row in logged[5:])
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert not any("any more" in item.body for item in memory.items())


def test_what_was_learned_is_handed_on_without_what_it_holds_of_the_same_kernels(tmp_path, quick):
    first = played(tmp_path / "first", epsilon=0.0)
    before = (tmp_path / "first" / "memory.db").read_bytes()
    summary = played(tmp_path / "next", epsilon=0.0, memory=str(tmp_path / "first"))
    with Memory(tmp_path / "next" / "memory.db") as memory:
        archived = memory.items("archived")
        assert archived and {item.metadata["kernel"] for item in archived} == set(KERNELS)
        assert len([i for i in memory.items() if i.kind == "template"]) == len(TEMPLATES)  # not seeded twice
    assert (tmp_path / "first" / "memory.db").read_bytes() == before
    learned = next(a for a in first["advice"] if a["body"] == GOOD)
    shown = [a for row in rows(tmp_path / "next") for a in row["advice"] if a["id"] == learned["id"]]
    assert not shown or shown[0]["value"] == pytest.approx(learned["value"], abs=1e-3)
    with Memory(tmp_path / "next" / "memory.db") as memory:
        (value,) = memory.explain(learned["id"]).to_dict()["values"]
        assert value["n"] == learned["shown"] + len(shown) and summary["steps"] == 16


@pytest.mark.parametrize(
    "arm",
    [
        {"refine": False, "select": "none"},
        {"select": "none"},
        {"select": "similar"},
        {"select": "random"},
        {"select": "none", "lesson": GOOD},
    ],
)
def test_the_controls(tmp_path, quick, arm):
    model = Writer()
    summary = played(tmp_path / "run", model, **arm)
    logged = rows(tmp_path / "run")
    assert {row["phase"] for row in logged} == ({"draft"} if arm.get("refine") is False else {"draft", "refine"})
    if arm["select"] == "none":
        assert not summary["advice"] and not any(row["values"] for row in logged)
    if arm["select"] in ("random", "similar"):
        assert summary["advice"] and not any(row["values"] for row in logged)
    if arm.get("refine") is False:
        assert not any("The last try failed" in prompt for prompt in model.prompts)
    if "lesson" in arm:
        assert all(GOOD in prompt for prompt in model.prompts) and summary["faster"]["successes"] == 2


def test_an_answer_in_prose_costs_an_attempt_and_teaches_nothing(tmp_path, quick):
    summary = played(tmp_path / "run", Scripted({"*": "I would vectorise the loop."}))
    assert summary["right"]["successes"] == 0 and {row["gate"] for row in rows(tmp_path / "run")} == {"text"}
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert {item.source for item in memory.items()} == {"seed"}


def test_a_sandbox_that_always_fails_ends_the_run_and_changes_no_value(tmp_path, quick, monkeypatch):
    def broken(*_):
        raise kernels_run.Wrong("no process starts", harness=True)

    monkeypatch.setattr(kernels, "check", broken)
    monkeypatch.setattr(kernels.Bench, "_reference", lambda *_: (b"", 1))
    with pytest.raises(EnvError, match=r"(?s)3 of 3 attempts at the last programs broke.*no process starts"):
        played(tmp_path / "run", Scripted({"*": BY_NAME["dot"].source}))
    logged = rows(tmp_path / "run")
    assert [(row["gate"], row["valid"], row["error"]) for row in logged] == [("harness", 0, "no process starts")] * 3
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert all(item.n == 0 for item in memory.items())


def test_an_attempt_that_the_world_breaks_costs_that_attempt(tmp_path, quick, monkeypatch):
    judge, asked = kernels.Bench.judge, []

    def sometimes(self, operator, answer, **more):
        asked.append(operator.name)
        if len(asked) in (3, 8):
            raise EnvError("the machine hiccups", where=operator.name)
        return judge(self, operator, answer, **more)

    monkeypatch.setattr(kernels.Bench, "judge", sometimes)
    out = io.StringIO()
    config, folder = begin(tmp_path / "run")
    with folder:
        summary = evokernel.run(config, folder, Live(plain=True, stream=out), model=Writer())
    logged = rows(tmp_path / "run")
    assert [row["step"] for row in logged if not row["valid"]] == [3, 8] and len(logged) == 16
    assert all("the machine hiccups" in row["error"] for row in logged if not row["valid"])
    assert out.getvalue().count("broke") == 2 and "not judged: the machine hiccups" in out.getvalue()
    assert summary["right"]["successes"] == 2
    judged = Counter((item["id"], row["phase"]) for row in logged if row["valid"] for item in row["advice"])
    assert judged and {(one["id"], one["stage"]): one["shown"] for one in summary["advice"]} == judged
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert not any("hiccups" in item.body for item in memory.items())


def own(tmp_path, broken):
    """A file of operators; the references of those that are ``broken`` raise."""
    (tmp_path / "mine.py").write_text(f"""
from evolvent.envs.text.kernels_operator import Operator

def cube(x, n):
    return x**3

def away(x, n):
    raise ValueError("nobody wrote this reference")

OPERATORS = [Operator(name, "third power", "const float* x, float* out, int n", away if name in {broken!r} else cube,
                      "x: n; out: n", {{"n": 600}}, 1e-4, "for (int i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i];")
             for name in ("one", "two", "three", "four")]
""")
    return f"kernels:own={tmp_path}/mine.py"


CUBE = "void kernel(const float* x, float* out, int n) { for (int i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i]; }"


def test_a_kernel_that_nobody_can_judge_is_left_out_and_the_run_goes_on(tmp_path, quick):
    out, config = (
        io.StringIO(),
        evokernel.Config(env=own(tmp_path, ("one", "two", "three")), kernels=("one", "two", "three", "four"), budget=5),
    )
    folder = begin(tmp_path / "run")[1]
    with folder:
        summary = evokernel.run(config, folder, Live(plain=True, stream=out), model=Scripted({"*": CUBE}))
    logged = rows(tmp_path / "run")
    tried = {name: [row["valid"] for row in logged if row["kernel"] == name] for name in config.kernels}
    assert tried == {"one": [0] * 3, "two": [0] * 3, "three": [0] * 3, "four": [1] * 5}
    assert [row["step"] for row in logged if row["kernel"] == "four"] == [4, 8, 12, 16, 20]
    said = out.getvalue()
    assert said.count("is left out") == 3 and "mine.py, line 8, in away" in said and "goes on with the other" in said
    assert summary["right"] | {"ci95": 0} == {"n": 1, "successes": 1, "rate": 1.0, "ci95": 0} and summary["judged"] == 1


def test_a_run_goes_on_without_the_kernels_it_had_left_out(tmp_path, quick):
    env, said = own(tmp_path, ("one",)), []

    def stopping(prompt):
        said.append(prompt)
        if len(said) == 9:
            raise Interrupted
        return CUBE

    for name, model in (("whole", Scripted({"*": CUBE})), ("run", Scripted(stopping))):
        config, folder = evokernel.Config(env=env, kernels=("one", "two"), budget=6), begin(tmp_path / name)[1]
        with folder, suppress(Interrupted):
            evokernel.run(config, folder, live(), model=model)
    with RunFolder.open(tmp_path / "run") as again:
        evokernel.run(config, again, live(), resume=True, model=Scripted({"*": CUBE}))
    assert rows(tmp_path / "run") == rows(tmp_path / "whole") and len(rows(tmp_path / "run")) == 9


def test_where_no_kernel_can_be_judged_the_run_ends_with_the_line_that_failed(tmp_path, quick):
    config = evokernel.Config(env=own(tmp_path, ("one",)), kernels=("one",), budget=5)
    folder = begin(tmp_path / "run")[1]
    with folder, pytest.raises(EnvError, match=r"(?s)3 of 3 attempts .*nobody wrote this.*mine.py, line 8, in away"):
        evokernel.run(config, folder, live(), model=Scripted({"*": CUBE}))


def test_a_run_that_the_world_ended_goes_on_before_the_attempts_that_broke(tmp_path, quick, monkeypatch):
    played(tmp_path / "whole")
    judge, left = kernels.Bench.judge, iter(range(5))

    def broken(self, *args, **more):
        if next(left, None) is None:
            raise EnvError("the disk is away")
        return judge(self, *args, **more)

    with monkeypatch.context() as patch, pytest.raises(EnvError, match="6 of 10 attempts at the last programs broke"):
        patch.setattr(kernels.Bench, "judge", broken)
        played(tmp_path / "run")
    again, config = Writer(), begin(tmp_path / "other")[0]
    for row in rows(tmp_path / "run"):
        again.left[row["kernel"]] -= row["phase"] == "draft" and row["valid"]
    with RunFolder.open(tmp_path / "run") as folder:
        evokernel.run(config, folder, live(), resume=True, model=again)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_the_report_shows_lineages_and_is_written_of_a_run_that_goes_on(tmp_path, quick):
    played(tmp_path / "run")
    html = write_report(tmp_path / "run").read_text()
    for part in (
        "Where each program came from",
        "The fastest kernel beside the reference",
        "what it changes",
        "What each memory was worth",
        "+#pragma GCC optimize",
        "3.00× naive C [2.70, 3.30]",
    ):
        assert part in html, part
    assert not re.search(r"<script", html)
    before, _, folded = html.partition("What each memory was worth")[2].partition("<details")
    assert before.count("<tr>") == 1 + 5 and "fast-math" in before  # a telephone shows the best few; a click the others
    n = len(json.loads((tmp_path / "run" / "summary.json").read_text())["advice"])
    assert n > 5 and folded.partition("</details>")[0].count("<tr>") == 1 + n
    (tmp_path / "run" / "summary.json").unlink()
    assert "This run has not ended" in write_report(tmp_path / "run").read_text()


def test_the_first_minute_says_what_is_tried_what_goes_on_and_how_long_it_takes(tmp_path, quick):
    out, said = io.StringIO(), []

    class Terminal(Live):  # what a terminal shows in place of a spinner
        def status(self, text):
            said.append(text)

    config, folder = begin(tmp_path / "run")
    screen = Terminal(plain=True, stream=out)
    with folder:
        evokernel.run(config, folder, screen, model=Writer())
    lines = out.getvalue().splitlines()
    assert lines[0] == "2 kernels, up to 8 attempts each: dot, matvec" and "sandbox" in lines[1]
    assert len(said) == 1 and said[0].startswith("dot, draft 1: the model writes") and "1 of 16" in said[0]
    said.clear()
    screen.plain = False
    config, folder = begin(tmp_path / "again")
    with folder:
        evokernel.run(config, folder, screen, model=Writer())
    assert len(said) == 16 and "left" not in said[0] and all("left" in text for text in said[1:])


def test_what_is_drawn_begins_with_the_shortest(tmp_path, quick):
    config, out = evokernel.Config(count=100, budget=1), io.StringIO()
    folder = RunFolder.create(tmp_path / "run", algo="evokernel", config={}, env="", seed=0, command="")
    with folder:
        evokernel.run(config, folder, Live(plain=True, stream=out), model=Scripted({"*": "prose"}))
    sizes = [len(BY_NAME[row["kernel"]].source) for row in rows(tmp_path / "run")]
    assert len(sizes) == 20 and sizes == sorted(sizes)
    assert "kernels has fewer train kernels than the 100 asked for: 20" in out.getvalue()


def test_what_cannot_be_run_is_said_before_anything_is_loaded(tmp_path):
    for number, (more, named) in enumerate(
        [
            ({"env": "arithmetic"}, "kernels"),
            ({"env": "kernels:timed=false"}, "leave timed=false out"),
            ({"memory": "nowhere"}, "no such memory"),
        ]
    ):
        config, folder = begin(tmp_path / str(number), **more)
        with folder, pytest.raises(BadInput, match=named):
            evokernel.run(config, folder, live())
    config = evokernel.Config(kernels=("dott",))
    folder = RunFolder.create(tmp_path / "x", algo="evokernel", config={}, env="", seed=0, command="")
    with folder, pytest.raises(BadInput, match="dott"):
        evokernel.run(config, folder, live())
    for wrong in ({"budget": 0}, {"k": 0}, {"epsilon": 2.0}, {"temperature": -1.0}, {"alpha": -0.1}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            evokernel.Config(**wrong)


def test_a_gain_teaches_its_own_new_lines():
    before = "void kernel(const float* x, int n) {\n    float s = 0;\n}"
    after = '#pragma GCC optimize("fast-math")\nvoid kernel(const float* restrict x, int n) {\n    float s = 0;\n}'
    assert lesson_of(before, after) == (
        'Write `#pragma GCC optimize("fast-math")` and `void kernel(const float* restrict x, int n) {`.'
    )
    long = "\n".join(f"    out[{i}] = x[{i}];" for i in range(2000))
    other = long.replace(";", " + y;").replace("out[7]", "__builtin_trap(), out[7]")
    assert lesson_of(long, other) == "Write `__builtin_trap(), out[7] = x[7] + y;`."  # no line for line comparison
    assert lesson_of(before, before) == lesson_of(before, before.replace("s = 0", "s = 0.0f")) == ""


def test_a_copy_is_as_fast_as_it_was_whatever_the_clock_says(tmp_path, monkeypatch):
    ratios = iter([2.0, 2.9, 1.4])
    monkeypatch.setattr(kernels, "measured", lambda *_: Speed(ratio := next(ratios), ratio, ratio, 1.0))
    monkeypatch.setattr(kernels, "sets_for", lambda *_: 1)
    config = evokernel.Config(kernels=("dot",), budget=3)
    folder = RunFolder.create(
        tmp_path / "run", algo="evokernel", config={}, env="", seed=0, command="", kind="programs"
    )
    with folder:
        summary = evokernel.run(config, folder, live(), model=Scripted({"*": BY_NAME["dot"].source}))
    assert [row["ratio"] for row in rows(tmp_path / "run")] == [2.0] * 3 and summary["kernels"][0]["best"] == 2.0
    assert [row["reward"] for row in rows(tmp_path / "run")] == [1.0, 0.0, 0.0]
    with Memory(tmp_path / "run" / "memory.db") as memory:
        assert sum(item.kind == "start" for item in memory.items()) == 1


def test_a_run_that_cannot_be_evaluated_says_what_to_do(tmp_path, quick, capsys):
    played(tmp_path / "run")
    with pytest.raises(SystemExit):
        main(["eval", str(tmp_path / "run")])
    assert f"--split heldout --memory {tmp_path / 'run'}" in capsys.readouterr().err
