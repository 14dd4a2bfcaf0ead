"""Live output: at once, plain where nobody sees colours, and text from outside never read as markup."""

import io
import math

import pytest

from evolvent.evaluate.live import Live, cell_text, interval, one_line, plain_table


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _say_everything(live):
    live.phase("stream [bold]pass 1[/bold]")
    live.status("loading")
    live.task(
        3, 24, question="How many\nflights [red]x[/red]?", action="SELECT 1", ok=False, note="m1 · 0.8", seconds=2.5
    )
    live.table("Result", ["phase", "n"], [["before", 24], ["after", None]])
    live.note("done [/x]")
    live.close()


def test_plain_lines_where_the_stream_is_no_terminal():
    out = io.StringIO()
    live = Live(stream=out)
    assert live.plain
    _say_everything(live)
    said = out.getvalue()
    assert "\x1b" not in said
    assert "[ 3/24] wrong   2.5s  How many flights [red]x[/red]?  -> SELECT 1  | m1 · 0.8\n" in said
    assert "before  24\nafter    –\n" in said


def test_rich_on_a_terminal_shows_the_same_text_and_reads_no_markup():
    out = Terminal()
    live = Live(stream=out)
    assert not live.plain
    _say_everything(live)
    said = out.getvalue()
    assert "\x1b[" in said
    for text in ("[bold]pass 1[/bold]", "[red]x[/red]?", "SELECT 1", "m1 · 0.8", "✗", "done [/x]"):
        assert text in said


@pytest.mark.parametrize("plain", [True, False])
def test_escape_sequences_of_a_model_do_not_reach_the_terminal(plain):
    out = Terminal()
    live = Live(plain, stream=out)
    live.task(1, 1, question="\x1b]0;owned\x07\x1b[2J", action="\x1b[31mred\r", ok=True, note="\x08\x08")
    live.note("a\x1b[2Jb")
    live.table("\x1b[2J", ["\x1b[2J"], [["\x1b[2J"]])
    said = out.getvalue()
    assert "\x1b]0" not in said and "\x1b[2J" not in said and "\x07" not in said and "\x08" not in said
    assert r"a\x1b[2Jb" in said and r"\x1b]0;owned\x07" in said, "they are seen"


def test_each_line_is_written_before_the_call_returns():
    flushed = []

    class Stream(io.StringIO):
        def flush(self):
            flushed.append(self.getvalue())

    live = Live(True, stream=Stream())
    live.phase("first")
    assert flushed and "first" in flushed[-1]


def test_long_texts_stay_on_one_plain_line():
    out = io.StringIO()
    Live(True, stream=out).task(1, 9, question="q" * 5000, action="a\n" * 900, ok=True)
    assert out.getvalue().count("\n") == 1 and len(out.getvalue()) < 500


def test_tables_align():
    assert plain_table(["a", "long"], [["x", "1"], ["yy", "22"]], [False, True]) == [
        "a   long",
        "--  ----",
        "x      1",
        "yy    22",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (math.nan, "–"), (True, "yes"), (0.123456, "0.1235"), (1234567, "1234567"), ("a\nb", "a b")],
)
def test_cells(value, said):
    assert cell_text(value) == said


def test_intervals_in_words():
    assert interval(0.71, (0.51, 0.85)) == "71 % [51, 85]"
    assert interval(0.71, None) == "71 %" and interval(0.71, (math.nan, math.nan)) == "71 %"
    assert interval(12.5, (10, 15), rate=False) == "12.5 [10.0, 15.0]"
    assert interval(0.093751, (0.0412, 0.1723), rate=False) == "0.09 [0.04, 0.17]"
    assert (
        interval(-0.001, (-12.0, 11.0), rate=False) == "0 [-12, 11]"
        and interval(0.093751, None, rate=False) == "0.0938"
    )
    assert interval(12345.6, (11000.0, 13000.0), rate=False) == "12,346 [11,000, 13,000]"
    assert interval(None, None) == "–"
    assert one_line("a\t\n b\x00c") == r"a b\x00c"


def test_how_far_long_work_is_and_how_long_it_takes_is_reported_now_and_then(monkeypatch):
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr("evolvent.evaluate.live.time.monotonic", lambda: now[0])
    with Live(plain=True, stream=out) as live:
        advance = live.advancing("the value learns", every=10.0)
        for second in range(1, 41):
            now[0] = float(second)
            advance(second / 40)
    lines = [line for line in out.getvalue().splitlines() if "learns" in line]
    assert lines == [
        "… the value learns",
        *(f"… the value learns, {p} %, {s} s left" for p, s in ((25, 30), (50, 20), (75, 10))),
    ]
