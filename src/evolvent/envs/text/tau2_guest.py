"""The tools of tau2's retail shop, run in the sandbox: they are another's code, fetched, not shipped.

The wheel's data model and tools need pydantic and its own base classes; the few lines below stand for both. What a
model says enters as the name of a tool and JSON values.
"""

from __future__ import annotations

import zipfile
from functools import lru_cache
from pathlib import Path

from evolvent.envs.text._places import Place
from evolvent.sandbox import Guest, Limits, Sandbox

DATA = "tau2/data/tau2/domains/retail/"
LIMITS = Limits(wall=30.0, cpu=600.0)
_PLACE = Place(lambda: Sandbox("python"))
_TAKEN = ("data_model", "tools")
_PYDANTIC = '''
"""Models of annotated fields: made of JSON values, as deep as they go, and given back as such."""
import functools
import typing


@functools.cache
def hints(model):
    return typing.get_type_hints(model)


def Field(default=..., **about):
    return default


def made(hint, value):
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return {key: made(inner[1], one) for key, one in value.items()}
    if origin is list:
        return [made(inner[0], one) for one in value]
    if origin is typing.Union:
        return value if not isinstance(value, dict) else next(made(one, value) for one in inner if fits(one, value))
    if isinstance(hint, type) and issubclass(hint, BaseModel) and isinstance(value, dict):
        return hint(**value)
    if hint is str and not isinstance(value, str):  # what a model calls with ends in fields of texts
        raise ValueError("Input should be a valid string")
    return float(value) if hint is float else value


def fits(model, value):
    tags = [(name, typing.get_args(hint)) for name, hint in hints(model).items()]
    return all(value.get(name) in tag for name, tag in tags if tag and isinstance(tag[0], str))


def given(value):
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {key: given(one) for key, one in value.items()}
    return [given(one) for one in value] if isinstance(value, (list, tuple)) else value


class BaseModel:
    def __init__(self, **values):
        for name, hint in hints(type(self)).items():
            value = values.get(name, getattr(type(self), name, None))
            setattr(self, name, made(hint, None if value is ... else value))

    def model_dump(self):
        return {name: given(value) for name, value in vars(self).items()}
'''
_TOOLKIT = """
import enum


class ToolType(str, enum.Enum):
    READ, WRITE, THINK, GENERIC = "read", "write", "think", "generic"


def is_tool(kind=ToolType.READ):
    return lambda function: setattr(function, "tool", True) or function


class ToolKitBase:
    def __init__(self, db):
        self.db = db
"""
_ASKED = '''
import inspect, json, pickle, typing
from pathlib import Path
from pydantic import given
from tau2.domains.retail.data_model import RetailDB
from tau2.domains.retail.tools import RetailTools

FRESH = pickle.dumps(RetailDB(**json.loads(Path(__file__).with_name("db.json").read_text())))
KNOWN = {name: one for name, one in vars(RetailTools).items() if getattr(one, "tool", False)}
NAMES = {str: "string", bool: "boolean", float: "number", int: "integer"}
shops = {}


def begin(who):
    """A shop as it is when an attempt begins."""
    shops[who] = RetailTools(pickle.loads(FRESH))


def use(who, name, arguments):
    """What a tool says, as the benchmark shows it."""
    try:
        if name not in KNOWN:
            raise ValueError(f"Tool '{name}' not found.")
        found = given(KNOWN[name](shops[who], **arguments))
    except Exception as error:
        return f"Error: {error}"
    return found if isinstance(found, str) else json.dumps(found, default=str)


def alike(one, other):
    """Whether two shops hold the same."""
    return given(shops[one].db) == given(shops[other].db)


def schemas():
    """The tools as endpoints describe them, from their docstrings."""
    return [schema(name, one) for name, one in KNOWN.items()]


def schema(name, function):
    said, _, rest = inspect.getdoc(function).partition("Args:")
    lines = [one.strip().partition(":") for one in rest.partition("Returns:")[0].splitlines()]
    about = {name: text.strip() for name, _, text in lines}
    types = {key: hint for key, hint in typing.get_type_hints(function).items() if key != "return"}
    fields = {key: {**kind(hint), "description": about.get(key, "")} for key, hint in types.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"name": name, "description": " ".join(said.split()), "parameters": parameters}


def kind(hint):
    inner = typing.get_args(hint)
    return {"type": "array", "items": {"type": NAMES[inner[0]]}} if inner else {"type": NAMES[hint]}
'''


class Shop:
    """The shop in a process of its own, for one attempt after another; see ``_ASKED`` for what it does.

    Raises:
        GuestError: the process ended, by a limit for example; of every call.
    """

    def __init__(self, wheel: Path) -> None:
        self._guest: Guest = _PLACE.enter(self).open(dict(_files(wheel)), "asked", LIMITS)
        self.call = self._guest.call

    def close(self) -> None:
        """End the process."""
        self._guest.close()
        _PLACE.leave(self)


@lru_cache(maxsize=2)
def _files(wheel: Path) -> tuple[tuple[str, str | bytes], ...]:
    with zipfile.ZipFile(wheel) as archive:
        home = "tau2/domains/retail"
        files = [(f"{home}/{name}.py", archive.read(f"{home}/{name}.py")) for name in _TAKEN]
        files.append(("db.json", archive.read(f"{DATA}db.json")))
    folders = ("tau2", "tau2/domains", home, "tau2/environment")
    return (
        *files,
        *((f"{folder}/__init__.py", "") for folder in folders),
        (f"{home}/utils.py", "RETAIL_DB_PATH = None\n"),
        ("tau2/environment/db.py", "from pydantic import BaseModel as DB\n"),
        ("tau2/environment/toolkit.py", _TOOLKIT),
        ("pydantic.py", _PYDANTIC),
        ("asked.py", _ASKED),
    )
