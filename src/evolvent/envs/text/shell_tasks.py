"""Small jobs for a shell: the files, what is asked, what must be there in the end, and commands that do it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_WORDS = ("apple", "berry", "cedar", "delta", "ember", "fjord", "grape", "hazel", "iris", "jade", "kelp", "lilac")
_FOLDERS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Job:
    """One job. ``goal``: the files that must be there with their words, ``None`` = must be gone."""

    asked: str
    files: Mapping[str, str]
    goal: Mapping[str, str | None]
    expert: tuple[str, ...]


def count(r: random.Random) -> Job:
    """Lines with a word."""
    word = r.choice(_WORDS)
    lines = [f"{r.choice(_WORDS)} {r.choice(_WORDS)}" for _ in range(r.randint(8, 14))] + [f"{word} at the end"]
    number = sum(word in line for line in lines)
    return Job(
        f"Write how many lines of log.txt contain the word {word} into answer.txt.",
        {"log.txt": _text(lines)},
        {"answer.txt": f"{number}"},
        (f"grep -c {word} log.txt > answer.txt",),
    )


def move(r: random.Random) -> Job:
    """Files with one ending, into a folder."""
    names = r.sample(_WORDS, 6)
    ending, folder = r.choice(("csv", "log", "dat")), r.choice(_FOLDERS)
    files = {f"{name}.{ending if i < 3 else 'txt'}": f"{r.randint(1, 99)}" for i, name in enumerate(names)}
    goal: dict[str, str | None] = {name: None for name in files if name.endswith(ending)}
    goal |= {f"{folder}/{name}": files[name] for name in list(goal)}
    return Job(
        f"Move all files that end in .{ending} into a new folder {folder}.",
        files,
        goal,
        (f"mkdir {folder}", f"mv *.{ending} {folder}/"),
    )


def rename(r: random.Random) -> Job:
    """One file gets another name."""
    names = r.sample(_WORDS, 4)
    files = {f"{name}.txt": f"{r.randint(1, 99)}" for name in names[:3]}
    old, new = f"{names[0]}.txt", f"{names[3]}.md"
    return Job(f"Rename {old} to {new}.", files, {old: None, new: files[old]}, (f"mv {old} {new}",))


def empty(r: random.Random) -> Job:
    """Empty files go."""
    names = r.sample(_WORDS, 6)
    files = {f"{name}.txt": "" if i < 3 else f"{r.randint(1, 99)}" for i, name in enumerate(names)}
    goal = {name: None for name, text in files.items() if not text}
    return Job("Delete all files that are empty, and no others.", files, goal, ("find . -type f -empty -delete",))


def unique(r: random.Random) -> Job:
    """Sorted, each once."""
    words = [r.choice(_WORDS) for _ in range(r.randint(8, 12))]
    return Job(
        "Write the words of names.txt in alphabetical order, each of them once, into sorted.txt.",
        {"names.txt": _text(words)},
        {"sorted.txt": _text(sorted(set(words)))},
        ("sort -u names.txt > sorted.txt",),
    )


def total(r: random.Random) -> Job:
    """The sum of a column."""
    rows = [(r.choice(_WORDS), r.randint(1, 60)) for _ in range(r.randint(4, 8))]
    files = {"table.csv": _text([f"{name},{n}" for name, n in rows])}
    return Job(
        "Write the sum of the second column of table.csv into answer.txt.",
        files,
        {"answer.txt": f"{sum(n for _, n in rows)}"},
        ("awk -F, '{s += $2} END {print s}' table.csv > answer.txt",),
    )


def replace(r: random.Random) -> Job:
    """A word for another, in all files."""
    old, new, *others = r.sample(_WORDS, 6)
    files = {f"{name}.txt": f"{old} {r.choice(others)} {old}" for name in others[:3]}
    goal = {name: text.replace(old, new) for name, text in files.items()}
    return Job(
        f"Put the word {new} in place of {old} in all .txt files.", files, goal, (f"sed -i s/{old}/{new}/g *.txt",)
    )


def joined(r: random.Random) -> Job:
    """Parts in order."""
    parts = [r.choice(_WORDS) for _ in range(r.randint(3, 5))]
    files = {f"part{i + 1}.txt": f"{word}\n" for i, word in enumerate(parts)}
    return Job(
        "Write the contents of part1.txt, part2.txt and so on, in this order, into all.txt.",
        files,
        {"all.txt": _text(parts)},
        ("cat part*.txt > all.txt",),
    )


def found(r: random.Random) -> Job:
    """Where is it?"""
    code = f"{r.choice(_WORDS)}-{r.randint(100, 999)}"
    folders = r.sample(_FOLDERS, 3)
    files = {f"{folder}/{name}.txt": f"{r.randint(1, 99)}" for folder in folders for name in r.sample(_WORDS, 2)}
    place = r.choice(sorted(files))
    files[place] = f"{files[place]} {code}"
    return Job(
        f"Write the path of the file that contains {code} into answer.txt, such as north/{_WORDS[0]}.txt.",
        files,
        {"answer.txt": place},
        (f"grep -rl {code} {' '.join(folders)} > answer.txt",),
    )


def trail(r: random.Random) -> Job:
    """A note leads to a file that leads to a number: it takes looking."""
    first, last = r.sample(_WORDS, 2)
    number = r.randint(100, 999)
    files = {f"{word}.txt": f"{r.randint(100, 999)}" for word in _WORDS if word not in (first, last)}
    files |= {"start.txt": f"see {first}.txt", f"{first}.txt": f"see {last}.txt", f"{last}.txt": f"{number}"}
    return Job(
        "start.txt names a file, which names another one, which holds a number. Write the number into answer.txt.",
        files,
        {"answer.txt": f"{number}"},
        ("cat start.txt", f"cat {first}.txt", f"cat {last}.txt", f"echo {number} > answer.txt"),
    )


KINDS: dict[str, Callable[[random.Random], Job]] = {
    kind.__name__: kind for kind in (count, move, rename, empty, unique, total, replace, joined, found, trail)
}


def job(kind: str, number: int) -> Job:
    """A job of a kind, always the same for its number."""
    return KINDS[kind](random.Random(f"shell/{kind}/{number}"))


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
