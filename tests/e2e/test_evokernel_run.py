"""EvoKernel and other systems on the world of kernels, through the command line, with a scripted model."""

import importlib.util
import json
import os

import pytest
from command import evolvent, start

from evolvent.core.errors import EnvError
from evolvent.envs.text.kernels import Bench
from evolvent.envs.text.kernels_tasks import BY_NAME

try:
    Bench().close()
except EnvError as error:  # pragma: no cover - a machine without a compiler
    pytest.skip(f"kernels cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "replies.json"
    program = '#pragma GCC optimize("fast-math")\n' + BY_NAME["dot"].source
    path.write_text(json.dumps({"replies": {"*": f"```c\n{program}```\n"}}))
    return f"scripted:{path}"


def test_a_run_tells_an_attempt_a_line_and_shows_the_fastest_beside_the_reference(tmp_path, script):
    arguments = ("--model", script, "--kernels", "dot", "--budget", 3, "--plain")
    out, _ = evolvent("run", "evokernel", *arguments, "--out", "run", cwd=tmp_path)
    assert "dot, draft 1" in out and "dot, refine 2" in out and "× naive C [" in out and "the best so far" in out
    assert "The reference for dot" in out and "The fastest, attempt" in out and "report:" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["right"]["successes"] == 1 and summary["kernels"][0]["best"] > 1.15
    html = (tmp_path / "run" / "report.html").read_text()
    assert "Where each program came from" in html and "nothing: it is a copy" in html
    out, _ = evolvent("run", "evokernel", "--resume", "run", "--plain", cwd=tmp_path)
    assert "has ended" in out
    arguments = ("--model", script, "--kernels", "matvec", "--budget", 1, "--memory", "run", "--plain")
    out, _ = evolvent("run", "evokernel", *arguments, "--out", "next", cwd=tmp_path)
    assert "matvec, draft 1" in out and "wrong" in out


@pytest.mark.parametrize("system", ["no_memory", "rag"])
def test_other_systems_write_kernels_too(tmp_path, script, system):
    arguments = (
        "--env",
        "kernels:timed=false",
        "--model",
        script,
        "--train",
        2,
        "--heldout",
        1,
        "--passes",
        1,
        "--plain",
    )
    evolvent("run", system, *arguments, "--out", "run", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["valid"] for row in rows) and {row["phase"] for row in rows} >= {"before", "stream", "after"}


def no_compiler_on_the_path(folder, **more):
    return os.environ | {"PATH": str(folder)} | more


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs the wheel ziglang")
def test_the_wheel_compiles_where_the_path_has_no_compiler(tmp_path, script):
    arguments = ("--env", "kernels", "--model", script, "--kernels", "dot", "--budget", 2, "--plain", "--out", "run")
    evolvent("run", "evokernel", *arguments, cwd=tmp_path, env=no_compiler_on_the_path(tmp_path))
    data = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert data["right"]["successes"] == 1


def test_with_neither_it_is_said_what_to_install_before_the_model_is_loaded(tmp_path, script):
    # an installed wheel is hidden
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'ziglang' else find(name, *more)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    arguments = ("--env", "kernels", "--model", script, "--kernels", "dot", "--plain", "--out", "run")
    env = no_compiler_on_the_path(tmp_path / "empty", PYTHONPATH=path)
    run = start("run", "evokernel", *arguments, cwd=tmp_path, env=env)  # afresh: a warm process has its finders already
    _, err = run.communicate(timeout=300)
    assert run.returncode == 2, err
    assert "nothing compiles C here" in err and "apt install gcc libc6-dev" in err and "kernels" in err
    assert "loading" not in err and "Traceback" not in err


def test_a_kernel_that_there_is_not_is_named(tmp_path, script):
    _, err = evolvent("run", "evokernel", "--model", script, "--kernels", "dott", "--out", "x", cwd=tmp_path, code=2)
    assert "dott" in err and "matvec" in err and not (tmp_path / "x").exists()
