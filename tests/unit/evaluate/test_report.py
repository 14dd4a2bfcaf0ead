"""The report: built from the folder's files alone, complete, self-contained, and no text in it is ever code."""
# pyright: reportOptionalMemberAccess=false

import io
import json
import re
from html.parser import HTMLParser

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.against import paired
from evolvent.evaluate.blocks import Line, Number
from evolvent.evaluate.live import Live
from evolvent.evaluate.outcome import tell
from evolvent.evaluate.pages.svg import bars, curves
from evolvent.running import page_of, write_report
from evolvent.runs.account import series
from evolvent.runs.account.tasks import PHASES, pairs
from sample_run import sample_run

NASTY = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x1b\x00</pre></style>"
VOID = {"meta", "br", "wbr", "img", "input", "line", "circle", "polyline", "polygon"}


class Page(HTMLParser):
    """Collects tags, attributes and text; checks that elements nest."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.ways, self.open, self.text = [], [], [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "srcset", "data")]
        self.ways += [value for name, value in attrs if name == "href"]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = write_report(sample_run(tmp_path_factory.mktemp("run") / "r"))
    return Page(path.read_text(encoding="utf-8"))


def test_nothing_is_fetched_and_nothing_runs(page):
    assert "script" not in page.tags and "link" not in page.tags and not page.links
    assert set(page.ways) >= {"config.json", "metrics.jsonl", "../"}


def test_every_part_is_there(page):
    for part in (
        "What memlift learned on analyst",
        "qwen2.5-coder-1.5b",
        "held-out success after learning",
        "95 % interval",
        "exact McNemar p",
        "One task, before and after",
        "before: wrong",
        "Success while learning",
        "Phases",
        "Passes over the tasks",
        "The most valuable memories",
        "right in 13 of 14 attempts",
        "The least valuable memories",
        "adds −0.31 [−0.52",
        "Health of the memory",
        "outcomes a memory",
        "Every task",
        "shown: m1, m11",
        "left out on purpose: m30",
        "SELECT COUNT(*)",
        "Every field",
        "evolvent run memlift --seed 0",
    ):
        assert part in page.words, part
    assert page.tags.count("svg") == 2 and page.tags.count("details") >= 7


def test_the_numbers_are_those_of_the_folder(tmp_path):
    path = sample_run(tmp_path / "r")
    words = Page(write_report(path).read_text()).words
    rows = RunFolder.open(path).read_metrics()
    for phase, label in PHASES.items():
        hits = [row["success"] for row in rows if row["phase"] == phase]
        assert f"{label} {len(hits)} {sum(hits)} {100 * sum(hits) / len(hits):.0f} %" in words


def test_text_from_tasks_models_and_memories_is_never_markup(tmp_path):
    html = write_report(sample_run(tmp_path / "r", tasks=13, nasty=NASTY)).read_text(encoding="utf-8")
    page = Page(html)
    assert "script" not in page.tags and "img" not in page.tags and "<script>alert" not in html
    assert "<script>alert(1)</script>" in page.words, "it is shown as text"
    assert "\x00" not in html and "\x1b" not in html


def test_light_and_dark_and_a_phone(page, tmp_path):
    html = write_report(sample_run(tmp_path / "r")).read_text(encoding="utf-8")
    for need in ("prefers-color-scheme: dark", 'name="viewport"', "@media (max-width", "color-scheme: light dark"):
        assert need in html


def test_a_run_that_has_not_ended_has_a_report_too(tmp_path):
    path = sample_run(tmp_path / "r", summary=False)
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"t": 3, "st')
    assert "has not ended" in Page(write_report(path).read_text()).words


def test_a_run_without_a_single_line_has_a_report_too(tmp_path):
    RunFolder.create(tmp_path / "r", algo="rag", config={}, env="analyst", seed=0, command="")
    assert "What rag learned on analyst" in Page(write_report(tmp_path / "r").read_text()).words


def test_half_characters_do_not_break_the_page(tmp_path):
    path = write_report(sample_run(tmp_path / "r", tasks=4, nasty="\ud800 東京 😀"))
    assert "� 東京 😀" in path.read_text(encoding="utf-8")


def test_outcomes_that_say_nothing_are_not_counted(tmp_path):
    path = sample_run(tmp_path / "r", tasks=4)
    rows = RunFolder.open(path).read_metrics()
    lines = [json.dumps({**row, "valid": 0} if row["phase"] == "before" else row) + "\n" for row in rows]
    (path / "metrics.jsonl").write_text("".join(lines))
    assert PHASES["before"] not in Page(write_report(path).read_text()).words


def test_a_long_run_keeps_its_page_readable(tmp_path):
    html = write_report(sample_run(tmp_path / "r", tasks=450, passes=1)).read_text(encoding="utf-8")
    assert html.count("and 50 more in episodes.jsonl") == 4 and html.count('class="task"') == 1600


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(BadInput):
        write_report(tmp_path)


# ------------------------------------------------------------------------------------------------ pictures
def _numbers(svg, name):
    return [float(value) for value in re.findall(rf'\b{name}="(-?[\d.]+)"', svg)]


@pytest.mark.parametrize("values", [[0.5], [0.0, 1.0], [0.2] * 30])
def test_curves_stay_inside_their_picture(values):
    x = tuple(range(len(values)))
    line = Line("a<b", x, tuple(values), (None, *[0.0] * (len(x) - 1)), (None, *[1.0] * (len(x) - 1)))
    svg = curves([line], ticks=[(i, str(i)) for i in x], x_label="x", y_label="y")
    Page(svg)
    assert all(0 <= v <= 460 for v in _numbers(svg, "cx")) and all(0 <= v <= 260 for v in _numbers(svg, "cy"))
    assert "a&lt;b" in svg


@pytest.mark.parametrize("values", [[-3.0, 12.0], [5.0, 5.0], [1e-6, 2e-6], [0.0, 1e9]])
def test_scores_that_are_no_rates_get_a_scale_of_their_own(values):
    line = Line("a", (0, 1), tuple(values), (None, None), (None, None))
    svg = curves([line], ticks=[(0, "0"), (1, "1")], x_label="x", y_label="y", rates=False)
    assert all(12 <= v <= 218 for v in _numbers(svg, "cy"))
    Page(bars([Number("a", values[0], (float("nan"), float("nan"))), Number("b", values[1])], rates=False))


def test_a_picture_of_nothing_is_still_a_picture():
    Page(curves([], ticks=[], x_label="x", y_label="y"))


# ------------------------------------------------------------------------------------------------ series
def _rows(outcomes, **more):
    return [{"task": f"t{i}", "success": ok, **more} for i, ok in enumerate(outcomes)]


def test_pairs_are_matched_by_task_not_by_position():
    a, b = _rows([1, 1, 0, 1]), _rows([0, 1, 0, 0])[::-1]
    test = paired(*({(0, row["task"]): row["success"] for row in rows} for rows in (a, b)))
    assert (test.n, test.only_a, test.only_b, test.difference) == (4, 2, 0, 0.5)
    assert test.p == 0.5 and test.lo <= 0.5 <= test.hi
    assert paired({(0, "t0"): 1}, {(3, "t0"): 1}) is None, "another run's task is another one"
    (comparison,) = pairs("before", a, b)
    assert comparison.pairs == (("t0", 1, 0), ("t1", 1, 1), ("t2", 0, 0), ("t3", 1, 0))
    assert pairs("before", a, _rows([1])[:0]) == [] == pairs("before", a, [*b, b[0]]), "none, or one of them twice"


def test_blocks_cover_every_task_once():
    rows = _rows([0, 1] * 10)
    cut = series.blocks(rows, 6)
    assert [row for _, part in cut for row in part] == rows and len(cut) == 6
    assert [name for name, _ in series.blocks(_rows([1, 0, 1]), 6)] == ["1", "2", "3"]


def test_an_agent_without_tokens_has_none_and_a_short_run_has_its_seconds(tmp_path):
    """A function has no tokens: a dash, not 0; one second is not "1 seconds"."""
    path = sample_run(tmp_path / "r", tasks=4)
    rows = [{**row, "tokens": 0} for row in RunFolder.open(path).read_metrics()]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = RunFolder.open(path).summary()
    RunFolder.open(path).write_summary({**summary, "seconds": 1.2, "tokens": 0})
    html = write_report(path).read_text(encoding="utf-8")
    words = Page(html).words
    assert " 1 s ·" in words and "seconds ·" not in words and "tokens ·" not in words
    body = html.index("<tbody>", html.index("<h2>Phases"))
    first = html[body : html.index("</tr>", body)]
    assert first.count('<td class="n">–</td>') == 1, "tokens"
    assert "memories with an outcome" in words and "83 %" in words


def test_the_terminal_names_the_most_valuable_memories(tmp_path):
    path, said = sample_run(tmp_path / "run"), io.StringIO()
    summary = json.loads((path / "summary.json").read_text())
    run = RunFolder.open(path)
    tell(run, page_of(run), Live(plain=True, stream=said), path / "report.html")
    assert "The most valuable memories" in said.getvalue()
    assert summary["top_memories"] and all(m["body"] in said.getvalue() for m in summary["top_memories"][:3])
