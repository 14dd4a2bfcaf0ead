"""`evolvent runs`: the table, the page as a file, and the local server that follows runs."""

import threading
from http.client import HTTPConnection

import pytest

from evolvent.cli import runs as command
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from sample_run import sample_run
from sample_team_run import sample_team_run


@pytest.fixture
def folder(tmp_path):
    sample_run(tmp_path / "runs" / "a b", tasks=4)
    sample_team_run(tmp_path / "runs" / "seeds" / "seed-0", updates=10, summary=False)
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "config.json").write_text("{")
    (tmp_path / "secret.json").write_text("{}")
    return tmp_path / "runs"


@pytest.fixture
def get(folder):
    with command.server(folder, 0) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()

        def ask(path, host=None):
            connection = HTTPConnection("127.0.0.1", listening.server_port, timeout=300)
            connection.request("GET", path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        yield ask
        listening.shutdown()


def test_the_page_links_the_reports_that_are_there(folder, tmp_path, capsys):
    (folder / "a b" / "report.html").write_text("x")
    command.COMMANDS["runs"]([str(folder), "--plain"])
    said = capsys.readouterr().out
    assert "memlift" in said and "broken" in said and "config.json is not JSON" in said
    html = (folder / "runs.html").read_text()
    assert 'href="a%20b/report.html"' in html and html.count("report.html") == 1
    command.COMMANDS["runs"]([str(folder), "--html", str(tmp_path / "x.html"), "--plain"])
    assert 'href="runs/a%20b/report.html"' in (tmp_path / "x.html").read_text()


def test_the_server_gives_index_reports_and_files(get):
    status, html = get("/")
    assert status == 200 and 'href="/run/a%20b/"' in html and "connect-src 'self'" in html and "setInterval" in html
    status, html = get("/run/a%20b/")
    assert status == 200 and "What memlift learned on analyst" in html and "setInterval" not in html, "it has ended"
    status, html = get("/run/seeds/seed-0/")
    assert status == 200 and "has not ended" in html and "setInterval" in html
    assert get("/run/a%20b/metrics.jsonl")[1].startswith('{"t"')
    assert get("/run/a%20b/no.json")[0] == 404 and get("/run/seeds/")[0] == 302 and get("/run/")[0] == 302


def test_a_report_is_as_new_as_the_run(get, folder):
    assert "11 updates" not in get("/run/seeds/seed-0/")[1]
    with RunFolder.open(folder / "seeds" / "seed-0") as run:
        run.log(17_600, update=11, **{"return": 1.0}, attempts=64)
        assert "11 updates" in get("/run/seeds/seed-0/")[1] and "running" in get("/")[1]
    assert not list(folder.glob("**/report.html")), "the server writes nothing"


@pytest.mark.parametrize(
    "path",
    [
        "/run/../secret.json",
        "/run/..%2fsecret.json",
        "/run/a%20b/../../../secret.json",
        "/run//etc/passwd",
        "/secret.json",
        "/run/a%20b/memory.db",
    ],
)
def test_nothing_but_runs_is_given_out(get, path):
    assert get(path)[0] in (302, 404)


def test_another_site_cannot_read_along(get):
    assert get("/", host="evil.example")[0] == 403 and get("/", host="localhost:1")[0] == 200


def test_a_broken_run_says_what_is_wrong(get):
    status, said = get("/run/bad/")
    assert status == 500 and "not JSON" in said


def test_a_port_that_is_taken(folder):
    with command.server(folder, 0) as first, pytest.raises(BadInput, match="cannot listen"):
        command.server(folder, first.server_port)
    with pytest.raises(BadInput, match="cannot listen"):
        command.server(folder, 99999)
