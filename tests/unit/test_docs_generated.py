"""Pages that are generated stand in the docs as their generators write them now."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_speed_page_is_that_of_its_result_file():
    spec = importlib.util.spec_from_file_location("speed_page", ROOT / "benchmarks" / "speed_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "results" / "memory-speed.md").read_text("utf-8")
    assert written == module.page(json.loads(module.SOURCE.read_text("utf-8")))
