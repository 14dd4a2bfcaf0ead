"""Questions whose memory is worded otherwise, and a thousand other keys of the same domains; in English.

``PAIRS``: (key of the memory, the same need in other words). ``SHORT`` and ``LONG``: keys of a few words, keys of a
paragraph. ``SHARED``: (key, question, a wrong key that shares more words with the question than the right one does).
``NOTHING``: questions that no key answers. ``distractors``: other keys, put together from parts that make sense.
"""

from __future__ import annotations

from itertools import product

PAIRS: dict[str, list[tuple[str, str]]] = {
    "support": [
        ("How do I reset my password?", "I forgot my login credentials and can't get in"),
        ("Cancel a subscription before the next billing date", "I want to stop paying for this every month"),
        ("The app crashes right after opening", "Your program closes itself the second I launch it"),
        ("Change the email address of an account", "I have a new mailbox, where do I tell you about it?"),
        ("Request a refund for a damaged item", "My parcel arrived broken and I'd like my money back"),
        ("Track a package that is on its way", "Where is the thing I ordered last week?"),
        ("Turn on two-factor authentication", "Make signing in safer with a code on my phone"),
        ("Invoice shows the wrong company name", "Our firm is misspelled on the bill you sent"),
    ],
    "cooking": [
        ("Substitute for eggs in a cake", "I'm baking for a vegan, what replaces the binder?"),
        ("Why is my bread dough not rising?", "The loaf stays flat even after hours in a warm place"),
        ("Keep avocado from turning brown", "My guacamole goes dark in the fridge"),
        ("How long to boil an egg until it is soft", "I like a runny yolk for breakfast, what timing?"),
        ("Thicken a sauce that is too thin", "The gravy is watery, how do I fix it?"),
        ("Remove excess salt from soup", "I over-seasoned the broth and it is inedible"),
        ("Cook rice without a rice cooker", "Preparing basmati in an ordinary pot on the stove"),
        ("Sharpen a kitchen knife at home", "My blade squashes tomatoes instead of slicing them"),
    ],
    "travel": [
        ("Lost luggage at the airport", "My suitcase never showed up on the carousel after landing"),
        ("Cheapest day of the week to book a flight", "When are plane tickets least expensive?"),
        ("Do I need a visa for Japan?", "Entry papers required to visit Tokyo as a tourist"),
        ("How to avoid jet lag", "I can't sleep after crossing many time zones"),
        ("Rent a car without a credit card", "Hiring a vehicle when I only own a debit one"),
        ("What to pack for a winter trip to Norway", "Clothes for visiting Oslo in January"),
        ("Train from Paris to Amsterdam", "Getting by rail from the French capital to the Netherlands"),
        ("Flight was delayed by five hours, compensation", "The airline took off very late, do they owe me cash?"),
    ],
    "programming": [
        ("Sort a dictionary by value in Python", "Order the entries of a dict according to what they map to"),
        ("Undo the last git commit", "I recorded a change too early and want to take it back"),
        ("Remove duplicates from a list while keeping order", "Unique elements of an array, first appearance wins"),
        ("Center a div horizontally and vertically", "Place a box in the exact middle of a web page"),
        ("Find and kill the process that uses port 8080", "Address already in use when the server starts"),
        ("Read a large CSV file without running out of memory", "The table is too big for RAM, load it piecewise"),
        ("Merge two branches with conflicts", "Git says both of us edited the same lines"),
        ("Query is slow because an index is missing", "The database takes ages to find rows in a huge table"),
    ],
    "health": [
        ("Book an appointment with a general practitioner", "I need to see a family doctor next week"),
        ("Renew a prescription online", "I'm out of my tablets and want more without a visit"),
        ("Get a copy of my medical records", "How can I obtain the file the clinic keeps about me?"),
        ("Vaccination certificate was lost", "I can't find the paper that proves my shots"),
        ("Find a dentist open at the weekend", "My tooth hurts and it is Saturday"),
        ("Add a newborn to the family insurance", "Our baby arrived, who covers her medical bills?"),
        ("Sick note for the employer", "My boss wants proof that I was too ill to work"),
        ("Results of a blood test", "When will the lab tell me what they found?"),
    ],
    "finance": [
        ("Card was stolen, block it", "Somebody took my wallet and could pay with it"),
        ("Send money to a bank account abroad", "Transfer funds to my sister in Brazil"),
        ("Interest rate of a savings account", "How much do I earn by leaving my deposit with you?"),
        ("Increase the credit limit", "I'd like to be allowed to spend more with my Visa"),
        ("Deadline for filing the tax return", "By when must I declare my income to the revenue office?"),
        ("Pay off a mortgage early", "Can I clear the house loan ahead of schedule?"),
        ("Unknown transaction on the statement", "There is a charge I don't recognise"),
        ("Open a joint account", "My wife and I want to bank together"),
    ],
}  # fmt: skip
SHORT = [
    ("refund status", "has my money been sent back yet?"),
    ("flaky tests", "the suite passes sometimes and fails sometimes"),
    ("gluten free", "what can someone with coeliac disease eat here?"),
    ("parking permit", "where may residents leave their vehicle?"),
    ("VPN setup", "connecting to the office network from home"),
    ("maternity leave", "time off work after having a child"),
    ("dark mode", "the screen is too bright for me at night"),
    ("late fee", "what happens if I pay after the due date?"),
]
LONG = [
    (
        "A customer who moved to another city writes that letters still go to the old flat; before changing the postal "
        "address in the system, check identity with two questions and ask from which day the new one is valid.",
        "I relocated, please deliver my mail to the new home",
    ),
    (
        "The nightly export to the data warehouse stops with a timeout when more than two million rows changed since "
        "the last run; split the run into chunks by day and raise the limit of the connection.",
        "our batch job that copies records at midnight hangs",
    ),
    (
        "When a guest with a nut allergy books a table, the kitchen must be told at once, the order gets a red slip, "
        "pans are changed, and the waiter repeats the ingredients of each course at the table.",
        "A diner could react badly to almonds, what do we do?",
    ),
    (
        "For employees who leave during the year, unused vacation is paid out with the last salary; the number of days "
        "follows from the months worked, rounded up to half days.",
        "I quit in June, what about my remaining holidays?",
    ),
    (
        "If the thermostat of the heating shows error E4, the sensor lost its radio link: change both batteries, hold "
        "the button for ten seconds and wait for the blue light before pairing again.",
        "The radiator control displays a fault and it is cold",
    ),
    (
        "Students who miss the final examination because of illness hand in a doctor's certificate within three days "
        "and may then sit the examination again in the following term without losing an attempt.",
        "I was in hospital on the day of the test",
    ),
]
SHARED = [
    ("Return shoes that do not fit", "The boots I bought from you are too small",
     "How do I polish the boots I bought?"),
    ("Freeze bananas for smoothies", "My fruit is getting too ripe, can I keep it for shakes?",
     "Is fruit too acidic for my teeth, can I keep it for later?"),
    ("Upgrade to a window seat", "Can I sit where I see the clouds during the flight?",
     "Where can I see when the flight is during the holidays?"),
    ("Memory leak in a long-running service", "The daemon eats more and more RAM until it is killed",
     "Until when is the daemon of the printer supported?"),
    ("Reschedule a surgery", "I can't come in for my operation on that date",
     "On what date does my contract come in force?"),
    ("Direct debit failed", "The automatic payment for my rent bounced", "Is the rent payment for my office tax free?"),
    ("Screen of the phone is cracked", "I dropped my mobile and the glass has a spider web",
     "I dropped my web hosting, has the mobile plan changed?"),
    ("Grow tomatoes on a balcony", "Vegetables in pots when you only have an apartment",
     "When do you only pay for an apartment in cash?"),
]  # fmt: skip
NOTHING = [
    "Who composed the opera about a barber in Seville?", "Distance between Saturn and its largest moon",
    "Rules for castling in chess", "Which king signed the Magna Carta?", "Why do leaves change colour in autumn?",
    "Best opening move in Go", "How do whales breathe?", "Capital of Mongolia", "Explain the offside rule in football",
    "What is the boiling point of tungsten?", "How old is the universe?", "Who painted the ceiling of a famous chapel?",
    "Meaning of the word serendipity", "How does a violin make sound?", "When did the Roman republic end?",
    "Tell me a joke about penguins", "What do koalas feed on?", "Translate good morning into Finnish",
    "Prove that the square root of two is irrational", "Which planet has the shortest year?",
    "How are stalactites formed?", "Name the longest river of Africa", "Who wrote the tale of the white whale?",
    "How many strings has a harp?",
]  # fmt: skip

_PARTS: list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = [
    (("How do I export", "Where can I see", "Is it possible to share", "I want to delete", "Can you restore"),
     ("the usage report", "my order history", "the team calendar", "a saved filter", "the chat transcript",
      "my notification settings", "the address book", "an archived project"),
     ("in the mobile app", "on the business plan", "for another user", "from last year", "with the new dashboard")),
    (("How long should I roast", "What temperature for grilling", "Best spices for", "How to marinate",
      "What wine goes with", "How to store leftover"),
     ("salmon", "lamb chops", "cauliflower", "pork belly", "turkey breast", "aubergines", "mushrooms", "duck"),
     ("in a small oven", "for six guests", "the day before", "without garlic", "on charcoal")),
    (("Best museums in", "Is it safe to walk at night in", "Public transport card for", "Two-day itinerary for",
      "Family hotels in", "Day trips from"),
     ("Lisbon", "Prague", "Istanbul", "Buenos Aires", "Kyoto", "Marrakesh", "Edinburgh", "Hanoi"),
     ("in spring", "with small children", "on a budget", "for a rainy day")),
    (("How to parse", "Validate", "Serialize", "Write unit tests for", "Add logging to"),
     ("a YAML file", "a REST endpoint", "an XML feed", "a message queue", "a date string", "a websocket handler"),
     ("in Go", "in TypeScript", "in Rust", "in Java", "with type hints", "in a Docker container")),
    (("Opening hours of", "Who pays for", "Waiting time for", "How to prepare for", "Side effects of", "Referral for"),
     ("an MRI scan", "physiotherapy", "an eye examination", "an allergy test", "a hearing aid", "a flu jab"),
     ("for pensioners", "during the holidays", "at the hospital", "with private cover")),
    (("What is the fee for", "How do I close", "Statement of", "Minimum amount for", "Is there a bonus on"),
     ("a brokerage account", "a student loan", "a life insurance", "a pension plan", "a business account",
      "a gold fund"),
     ("in another currency", "after retirement", "for minors", "at the end of the quarter")),
]  # fmt: skip


def distractors() -> list[str]:
    """1,076 keys that answer none of the questions, in a fixed order."""
    return [f"{verb} {what} {where}" for parts in _PARTS for verb, what, where in product(*parts)]
