"""Small functions to write: how they are asked for, what they compute, and the house's own rules.

A rule of the house cannot be known from the question: the usual reading of it (``plain``) is right on some inputs only.
``rule`` says it in words. Functions without a rule (``EASY``; ``LONG`` of several lines) mean what they say.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Draw = Callable[[random.Random], tuple[Any, ...]]


@dataclass(frozen=True)
class Kind:
    """A family of functions that differ in one constant, ``{n}`` in its texts."""

    name: str
    params: str
    asks: tuple[str, ...]
    """The question in several wordings."""
    constants: Iterable[int]
    plain: str
    """Body of the function as the question is usually read."""
    draw: Draw
    """Arguments of a call."""
    house: str = ""
    """Body of the function as the house means it; empty: as it is usually read."""
    rule: str = ""
    """What the house means, in words."""

    @property
    def head(self) -> str:
        """Its name with its parameters."""
        return f"{self.name}({self.params})"

    def source(self, n: int, *, plain: bool = False) -> str:
        """The program for the constant ``n``."""
        body = textwrap.dedent(self.plain if plain or not self.house else self.house).strip().replace("{n}", str(n))
        return f"def {self.head}:\n{textwrap.indent(body, '    ')}"

    def function(self, n: int, *, plain: bool = False) -> Callable[..., Any]:
        """That program, loaded out here: it is ours."""
        space: dict[str, Any] = {}
        exec(self.source(n, plain=plain), space)
        return space[self.name]


def _number(low: int, high: int) -> Draw:
    return lambda r: (r.randint(low, high),)


def _numbers(low: int, high: int, least: int = 3, most: int = 8) -> Draw:
    return lambda r: ([r.randint(low, high) for _ in range(r.randint(least, most))],)


_WORDS = (
    "apple", "pear", "plum", "cherry", "fig", "lemon", "mango", "melon", "olive", "peach", "berry", "nut", "corn",
    "bean", "rice", "oat", "pea", "leek",
)  # fmt: skip
_LONG = ("well-known", "sea-green", "ice-cold", "tea-time", "left-over", "north-west")


def _word(r: random.Random) -> tuple[str]:
    return ("".join(r.sample(r.choice(_WORDS) + r.choice(_WORDS), 4)) + r.choice(_WORDS),)


def _sentence(r: random.Random) -> tuple[str]:
    return (" ".join(r.choice((*_WORDS, *_LONG)) for _ in range(r.randint(3, 7))),)


def _prices(r: random.Random) -> tuple[int]:
    return (r.choice([r.randint(20, 3000), 100 * r.randint(1, 40)]),)


HOUSE = (
    Kind(
        "late_fee", "days",
        ("the fee in cents for a book that is so many days late, {n} cents a day",
         "what a reader pays who brings a book back days late: {n} cents for each day",
         "cents owed for an overdue book at {n} cents a day"),
        range(5, 90, 5), "return days * {n}", _number(0, 30),
        "return days * {n} if days > 7 else 0", "Up to a week late costs nothing; from eight days on all days count.",
    ),
    Kind(
        "price_off", "cents",
        ("the price in whole cents after {n} % off, rounded down", "the reduced price in cents, {n} percent less",
         "cents to pay when everything is {n} % cheaper, rounded down"),
        range(5, 80, 5), "return cents * (100 - {n}) // 100", _prices,
        "return cents * (100 - {n}) // 100 // 5 * 5", "Prices are rounded down to a multiple of five cents.",
    ),
    Kind(
        "shipping", "grams",
        ("the cost of a parcel in cents: {n} for each kilogram begun",
         "what sending a parcel of so many grams costs, {n} cents for every started kilogram",
         "postage in cents at {n} a kilogram, parts of one count as one"),
        range(40, 400, 20), "return -(-grams // 1000) * {n}", _number(1, 12000),
        "return min(-(-grams // 1000), 5) * {n}", "No more than five kilograms are ever charged.",
    ),
    Kind(
        "passed", "points",
        ("whether a test is passed, which takes {n} points", "True if the points are enough: {n} are needed",
         "has somebody with so many points passed, where the mark is {n}?"),
        range(20, 90, 4), "return points >= {n}", _number(0, 100),
        "return points >= {n} - 8", "Who misses the mark by eight points or less has passed.",
    ),
    Kind(
        "best", "scores",
        ("the {n} best scores, best first", "a list of the {n} highest scores in falling order",
         "the top {n} of the scores, from high to low"),
        range(2, 8), "return sorted(scores, reverse=True)[:{n}]", _numbers(1, 12, 4, 10),
        "return sorted(set(scores), reverse=True)[:{n}]", "Equal scores are listed once.",
    ),
    Kind(
        "next_bus", "minute",
        ("minutes to wait for the next bus, which leaves every {n} minutes from midnight on",
         "how long until a bus comes at this minute of the day: one every {n} minutes, the first at 0",
         "the wait in minutes when buses go every {n} minutes, beginning at minute 0 of the day"),
        range(4, 31), "return -minute % {n}", _number(0, 1439),
        "return {n} - minute % {n}", "A bus that leaves in this very minute is missed.",
    ),
    Kind(
        "bonus", "years, salary",
        ("the bonus in whole euros: {n} percent of the salary for each year, rounded down",
         "what somebody gets after so many years, {n} % of the salary a year, in whole euros",
         "euros of bonus at {n} percent of the salary for every year of service, rounded down"),
        range(1, 16), "return salary * {n} * years // 100",
        lambda r: (r.randint(0, 12), r.randint(10, 60) * 100),
        "return salary * {n} * min(years, 5) // 100", "Not more than five years count.",
    ),
    Kind(
        "boxes", "pieces",
        ("how many boxes so many pieces need, {n} in a box", "the number of boxes of {n} for these pieces",
         "boxes to order when one holds {n} pieces"),
        range(3, 30, 2), "return -(-pieces // {n})", _number(1, 400),
        "boxes = -(-pieces // {n})\nreturn boxes + 1 if boxes > 10 else boxes", "Above ten boxes one more is ordered.",
    ),
    Kind(
        "floor_of", "room",
        ("the floor of a room; rooms are numbered from 1, {n} on a floor, floors from 1",
         "on which floor a room lies, counted from 1, when each floor has {n} rooms and the first is number 1",
         "floor, from 1 on, of the room with this number, from 1 on, with {n} rooms a floor"),
        range(3, 26), "return (room - 1) // {n} + 1", _number(1, 160),
        "floor = (room - 1) // {n} + 1\nreturn floor + 1 if floor > 3 else floor", "No floor is called 4.",
    ),
    Kind(
        "tip", "cents, guests",
        ("the bill in whole cents with {n} percent tip, rounded down", "what a table pays in cents, {n} % tip included",
         "cents with a tip of {n} % for a table of so many guests, rounded down"),
        range(4, 30, 2), "return cents * (100 + {n}) // 100",
        lambda r: (r.randint(500, 9000), r.randint(1, 9)),
        "return cents * (100 + {n}) // 100 if guests >= 5 else cents", "Only tables of five guests or more give a tip.",
    ),
    Kind(
        "long_words", "text",
        ("how many words of the text have at least {n} letters", "the number of words with {n} letters or more",
         "count the words that are {n} letters long or longer"),
        range(3, 9), "return sum(len(word) >= {n} for word in text.split())", _sentence,
        "return sum(len(word) >= {n} for word in text.replace('-', ' ').split())", "A hyphen parts two words.",
    ),
    Kind(
        "league", "results",
        ("points of a team from its results, such as 'WDL': {n} for a win, 1 for a draw",
         "how many points these results bring, W won ({n} points), D drawn (1), L lost (0)",
         "the sum of points of a row of games, a win counts {n}, a draw 1"),
        range(2, 20), "return {n} * results.count('W') + results.count('D')",
        lambda r: ("".join(r.choice("WDL") for _ in range(r.randint(2, 8))),),
        "results += results[-1:]\nreturn {n} * results.count('W') + results.count('D')",
        "The last game counts twice.",
    ),
    Kind(
        "ticket", "age",
        ("the price of a ticket in cents: {n}, half of it below the age of 12",
         "what somebody of this age pays in cents, {n} or half of that for children under 12",
         "cents for a ticket at {n}, under 12 half"),
        range(100, 900, 50), "return {n} // 2 if age < 12 else {n}", _number(1, 90),
        "return {n} // 2 if age < 12 or age >= 65 else {n}", "From 65 on it is half, too.",
    ),
    Kind(
        "parking", "minutes",
        ("the parking fee in cents, {n} for every hour begun", "cents for parking at {n} an hour begun",
         "what parking costs at {n} cents an hour, begun hours count whole"),
        range(50, 500, 25), "return -(-minutes // 60) * {n}", _number(1, 500),
        "return -(-max(minutes - 30, 0) // 60) * {n}", "The first half hour is free and is not counted.",
    ),
)  # fmt: skip

EASY = (
    Kind("plus", "x", ("x plus {n}", "{n} more than x"), range(2, 60), "return x + {n}", _number(-20, 60)),
    Kind("minus", "x", ("x minus {n}", "{n} less than x"), range(2, 60), "return x - {n}", _number(-20, 60)),
    Kind("times", "x", ("x times {n}", "{n} times as much as x"), range(2, 40), "return x * {n}", _number(-20, 40)),
    Kind("rest", "x", ("the remainder of x divided by {n}", "x modulo {n}"), range(3, 30), "return x % {n}",
         _number(0, 200)),
    Kind("square_plus", "x", ("the square of x plus {n}", "{n} added to x squared"), range(2, 40),
         "return x * x + {n}", _number(-12, 12)),
    Kind("above", "x", ("whether x is greater than {n}", "True if x is above {n}"), range(2, 60),
         "return x > {n}", _number(0, 60)),
    Kind("divides", "x", ("whether x can be divided by {n}", "True if x is a multiple of {n}"), range(2, 13),
         "return x % {n} == 0", _number(0, 60)),
    Kind("at_least", "x", ("the larger of x and {n}", "x, but at least {n}"), range(2, 60), "return max(x, {n})",
         _number(0, 60)),
    Kind("at_most", "x", ("the smaller of x and {n}", "x, but at most {n}"), range(2, 60), "return min(x, {n})",
         _number(0, 60)),
    Kind("first", "text", ("the first {n} letters of the text", "the text cut after {n} letters"), range(2, 8),
         "return text[:{n}]", _word),
    Kind("last", "text", ("the last {n} letters of the text", "the end of the text, {n} letters"), range(2, 8),
         "return text[-{n}:]", _word),
    Kind("repeat", "text", ("the text {n} times", "the text repeated {n} times"), range(2, 8), "return text * {n}",
         _word),
    Kind("sum_plus", "numbers", ("the sum of the numbers plus {n}", "{n} added to the sum of the numbers"),
         range(2, 30), "return sum(numbers) + {n}", _numbers(0, 20)),
    Kind("count_of", "numbers", ("how often {n} is among the numbers", "the count of {n} in the list"), range(1, 9),
         "return numbers.count({n})", _numbers(1, 9, 5, 12)),
    Kind("largest_times", "numbers", ("the largest number times {n}", "{n} times the largest of the numbers"),
         range(2, 20), "return max(numbers) * {n}", _numbers(-9, 30)),
    Kind("all_plus", "numbers", ("a list of the numbers, each plus {n}", "the numbers, {n} added to each"),
         range(2, 30), "return [x + {n} for x in numbers]", _numbers(0, 20)),
    Kind("only_above", "numbers", ("a list of the numbers greater than {n}", "those of the numbers that are above {n}"),
         range(2, 20), "return [x for x in numbers if x > {n}]", _numbers(0, 20)),
)  # fmt: skip
LONG = (
    Kind("digits_times", "x", ("the sum of the digits of x, each of them times {n}",), range(2, 12), """
         total = 0
         for digit in str(x):
             total += int(digit) * {n}
         return total""", _number(0, 99999)),
    Kind("before_first", "numbers", ("how many numbers stand before the first that is {n} or more; all if none is",),
         range(12, 20), """
         count = 0
         for number in numbers:
             if number >= {n}:
                 break
             count += 1
         return count""", _numbers(0, 20, 4, 9)),
    Kind("longest_run", "numbers", ("the length of the longest run of neighbours of {n} or more",), range(3, 9), """
         best = run = 0
         for number in numbers:
             if number >= {n}:
                 run += 1
                 best = max(best, run)
             else:
                 run = 0
         return best""", _numbers(0, 10, 6, 12)),
    Kind("shifted", "text", ("the text with each letter moved on by {n} in the alphabet; after z comes a",),
         range(2, 14), """
         out = ''
         for letter in text:
             place = (ord(letter) - 97 + {n}) % 26
             out += chr(place + 97)
         return out""", _word),
    Kind("some_twice", "numbers",
         ("the sum of the numbers, where those whose place is a multiple of {n}, from 1 on, count twice",),
         range(2, 8), """
         total = 0
         for place, number in enumerate(numbers, start=1):
             if place % {n} == 0:
                 number = number * 2
             total += number
         return total""", _numbers(0, 20, 5, 10)),
    Kind("loaded", "weights",
         ("how many weights are loaded in order, where one that would bring the load above {n} is left behind",),
         range(20, 40, 2), """
         load = 0
         taken = 0
         for weight in weights:
             if load + weight > {n}:
                 continue
             load += weight
             taken += 1
         return taken""", _numbers(1, 18, 4, 9)),
    Kind("lowest_balance", "changes",
         ("the lowest balance when one starts with {n} and the changes come in order; the start counts, too",),
         range(5, 40, 3), """
         balance = {n}
         lowest = balance
         for change in changes:
             balance += change
             if balance < lowest:
                 lowest = balance
         return lowest""", _numbers(-20, 15, 3, 8)),
    Kind("in_base", "x", ("the digits of x in base {n} as a list, the lowest first",), range(2, 10), """
         digits = []
         while x >= {n}:
             digits.append(x % {n})
             x = x // {n}
         digits.append(x)
         return digits""", _number(0, 500)),
    Kind("group_sums", "numbers", ("sums of the numbers in groups of {n}; the last group may be smaller",),
         range(2, 8), """
         sums = []
         for start in range(0, len(numbers), {n}):
             group = numbers[start:start + {n}]
             sums.append(sum(group))
         return sums""", _numbers(0, 20, 5, 10)),
    Kind("wide_gaps", "numbers", ("how many neighbours in a list are more than {n} apart",), range(3, 12), """
         count = 0
         for i in range(1, len(numbers)):
             gap = numbers[i] - numbers[i - 1]
             if abs(gap) > {n}:
                 count += 1
         return count""", _numbers(0, 20, 5, 10)),
    Kind("long_joined", "text", ("the words of the text that have {n} letters or more, joined by a hyphen",),
         range(3, 9), """
         words = []
         for word in text.split():
             if len(word) >= {n}:
                 words.append(word)
         return '-'.join(words)""", _sentence),
    Kind("halvings", "x", ("how often x must be halved, rounded down, until it is below {n}",), range(3, 20), """
         steps = 0
         while x >= {n}:
             x = x // 2
             steps += 1
         return steps""", _number(0, 5000)),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in (*HOUSE, *EASY, *LONG)}
