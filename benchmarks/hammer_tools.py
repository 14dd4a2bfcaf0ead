"""Tools and requests of our own: ten things that can be done, with sixteen kinds of objects.

A function is one of both. Its description and a request for it say the object, and what is done, in different words,
so that words in common do not find it; the other tools of a row do something else with the same object, or the same
with another one. Functions of four objects are kept out of training. Held-out requests have phrases that no training
row has. Names are as people write them, in different styles.
"""

import random

from evolvent.data.irrelevance import without_its_tools
from evolvent.data.rows import Row

OBJECTS = {
    "taxi": ("a car with a driver", ("a cab", "someone to drive us")),
    "hotel": ("a room for the night", ("a place to sleep", "a bed")),
    "bike": ("a bicycle for hire", ("two wheels", "something to pedal on")),
    "court": ("a tennis court", ("somewhere to play doubles", "a net and a racket")),
    "tour": ("a guided walk", ("someone to show us around", "a round with a local")),
    "ferry": ("a crossing by boat", ("a trip over the water", "a passage to the island")),
    "table": ("a seat in a restaurant", ("somewhere to eat", "a spot for dinner")),
    "massage": ("a spa treatment", ("a back rub", "hands for my stiff neck")),
    "concert": ("a ticket for live music", ("an evening with a band", "a gig")),
    "museum": ("admission to an exhibition", ("a look at old paintings", "an hour with sculptures")),
    "gym": ("a fitness session", ("a workout", "an hour with weights")),
    "parking": ("a space for a car", ("a spot to leave the van", "somewhere to put my wagon")),
    "locker": ("storage for luggage", ("a place for my bags", "a box for two suitcases")),
    "desk": ("an office workplace", ("somewhere to sit with my laptop", "a quiet corner with sockets")),
    "dentist": ("an appointment for teeth", ("someone to look at my molar", "a check of my fillings")),
    "class": ("a cooking lesson", ("learning to make pasta", "an evening at the stove with a chef")),
}
"""Object: how a description says it, and how requests do."""
UNSEEN = ("ferry", "gym", "locker", "dentist")
VALUES = {
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    "place": ["Bergen", "Lisbon", "Turin", "Ghent", "Cork", "Malaga", "Riga", "Graz", "Lyon", "Porto", "Basel", "Bath"],
    "other": ["Gdansk", "Trieste", "Leiden", "Seville", "Tartu", "Aarhus", "Siena", "Bern", "Nantes", "Derry"],
    "who": ["Ada", "Ben", "Chloe", "Dora", "Emil", "Farid", "Gita", "Hugo", "Iris", "Jonas", "Kira", "Liam", "Mona"],
    "n": [2, 3, 4, 5],
}
PARAMETERS = {
    "day": (("date", "week_day", "when"), "Day of the week"),
    "place": (("city", "town", "location"), "Town"),
    "other": (("second", "against", "otherCity"), "Town that it is compared with"),
    "who": (("name", "person", "recipient"), "First name"),
    "n": (("count", "number", "amount"), "How many, 2 if nobody says"),
    "code": (("code", "booking_id", "reference"), "Number of the reservation"),
    "mail": (("email", "address", "contact"), "Where to write"),
}
"""Slot: the names it has, and how a description says it."""
ACTIONS = {
    "book": (
        "Reserve {o}.",
        "day n",
        ("Please get {r} for {n} of us on {day}.", "We want {r}, {day}, party of {n}."),
        ("On {day} there will be {n} people: arrange {r}.", "Sort out {r} for {n} on {day}, will you?"),
    ),
    "cancel": (
        "Give {o} back that was reserved.",
        "code",
        ("I no longer need {r}, that was {code}.", "Drop {code}, we do without {r}."),
        ("Plans changed: {r} is off, it was {code}.", "Forget about {r} ({code})."),
    ),
    "price": (
        "Tell the cost of {o}.",
        "place",
        ("How much do I pay for {r} in {place}?", "Is {r} expensive in {place}?"),
        ("What would {r} set me back in {place}?", "{place}: what do they charge for {r}?"),
    ),
    "find": (
        "List offers of {o} near a spot.",
        "place n",
        ("Who has {r} within {n} kilometres of {place}?", "Show me {r} around {place}, {n} km at most."),
        ("I am in {place} and need {r} no further than {n} km.", "Up to {n} km from {place}: where is {r}?"),
    ),
    "rate": (
        "Store an opinion about {o}.",
        "n",
        ("Stars for {r}: {n} of five.", "Put down {n} of five for {r}."),
        ("My verdict on {r}: {n} out of five.", "For {r} I would give a {n}."),
    ),
    "hours": (
        "Show from when until when {o} is to be had.",
        "day",
        ("How late is {r} possible on {day}?", "When does {r} start on a {day}?"),
        ("On {day} evening, can one still get {r}?", "Up to what time is there {r} on {day}?"),
    ),
    "watch": (
        "Send an alert as soon as {o} becomes free.",
        "mail",
        ("Write to {mail} once there is {r} left.", "Ping {mail} if {r} opens up."),
        ("The person at {mail} should hear when {r} can be had again.", "Let {mail} know about any gap for {r}."),
    ),
    "gift": (
        "Buy a voucher of {o} for somebody.",
        "who day",
        ("Surprise {who} with {r} on {day}.", "The birthday of {who} is on {day}, make it {r}."),
        ("I want to treat {who} to {r} this {day}.", "As a present for {who}, {day}: {r}."),
    ),
    "complain": (
        "Report a fault with {o}.",
        "place",
        ("What a disgrace, {r} in {place}.", "They messed up {r} in {place}."),
        ("Something was broken about {r} in {place}.", "I am angry: {place}, {r}, all wrong."),
    ),
    "compare": (
        "Say in which of two towns {o} is better.",
        "place other",
        ("Where is {r} nicer, {place} or {other}?", "Better {place} or {other} for {r}?"),
        ("Should I go to {place} or {other} if I am after {r}?", "Does {place} beat {other} when it comes to {r}?"),
    ),
}
"""Action: description, slots, phrases of training, phrases of held-out requests."""


def tools():
    """The functions by (action, object), the same for all seeds."""
    draw, made = random.Random("tools"), {}
    for act, (said, slots, _, _) in ACTIONS.items():
        for thing, (about, _) in OBJECTS.items():
            names = {slot: draw.choice(PARAMETERS[slot][0]) for slot in slots.split()}
            fields = {names[slot]: _field(slot) for slot in names}
            name = draw.choice((f"{act}_{thing}", f"{thing}_{act}", f"{act}{thing.capitalize()}"))
            tool = {"name": name, "description": said.format(o=about), "parameters": {"properties": fields}}
            made[act, thing] = (tool, names)
    return made


def rows(train, sizes, seed):
    """``train`` rows to learn from, and of each split of ``sizes`` so many that a tool serves, and that none does."""
    known, draw = tools(), random.Random(f"rows/{seed}")
    seen = [thing for thing in OBJECTS if thing not in UNSEEN]
    made = [_row(known, "train", seen, i, draw) for i in range(train)]
    for split, (calls, none) in sizes.items():
        things = list(UNSEEN) if split == "unseen" else seen
        made += [_row(known, split, things, i, draw) for i in range(calls)]
        listed = [tool for (_, thing), (tool, _) in known.items() if thing in things]
        others = (without_its_tools(_row(known, split, things, calls + i, draw), listed, draw) for i in range(none))
        made += [row for row in others if row is not None]
    return made


def _row(known, split, things, i, draw):
    """A request, the tool that serves it, and two others: what else is done with the object, and with another one."""
    act, thing = list(ACTIONS)[i % len(ACTIONS)], draw.choice(things)
    tool, names = known[act, thing]
    beside = known[draw.choice([one for one in ACTIONS if one != act]), thing][0]
    other = known[act, draw.choice([one for one in things if one != thing])][0]
    values = {slot: draw.choice(some) for slot, some in VALUES.items()}
    values["code"] = f"{draw.choice('ABCDEFGH')}{draw.randrange(100, 1000)}"
    values["mail"] = f"{draw.choice(VALUES['who']).lower()}@{draw.choice(('post', 'home', 'work'))}.org"
    text = draw.choice(ACTIONS[act][2 if split == "train" else 3])
    text = text.format(r=draw.choice(OBJECTS[thing][1]), **values)
    gold = {"name": tool["name"], "arguments": {name: values[slot] for slot, name in names.items()}}
    return Row(
        id=f"{split}-{i}",
        conversation=f"{split}-{i}",
        messages=({"role": "user", "content": text[0].upper() + text[1:]},),
        tools=tuple(draw.sample([tool, beside, other], 3)),
        gold=(gold,),
        split=split,
        because="generated",
    )


def _field(slot):
    about = {"description": PARAMETERS[slot][1]}
    return {"type": "integer", **about, "default": 2} if slot == "n" else about
