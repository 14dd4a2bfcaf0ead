"""The house's definitions for the flights: thirty kinds of question."""

from dataclasses import replace

from evolvent.envs.text.analyst_flights import CARRIERS, DESTINATIONS, INSTRUCTIONS, MAKERS, MONTHS, ORIGINS, SOURCE
from evolvent.envs.text.analyst_flights_words import FREE
from evolvent.envs.text.analyst_kinds import Database, Kind

_PLACES = {"c": CARRIERS, "o": ORIGINS, "d": DESTINATIONS, "f": MAKERS, "m": MONTHS}
_CM = "FROM flights WHERE carrier='{c}' AND month={m}"
_OM = "FROM flights WHERE origin='{o}' AND month={m}"
_DM = "FROM flights WHERE dest='{d}' AND month={m}"
_WX = "FROM weather WHERE origin='{o}' AND month={m}"
_CP = "FROM flights JOIN planes USING(tailnum) WHERE carrier='{c}' AND month={m}"
_FW = "FROM flights JOIN weather USING(origin,month,day,hour) WHERE origin='{o}' AND month={m}"

_KINDS = (
    # --------------------------------------------------------------------------- carriers, also joined with planes
    Kind(
        "operated",
        "How many flights did {cn} operate in {mn}? | Number of flights operated by {cn} in {mn}?"
        " | In {mn}, how many flights were operated by {cn}?",
        "SELECT COUNT(*) " + _CM + " AND {X}",
        ("dep_delay<=180", "dep_time IS NOT NULL", "arr_delay<=120"),
        "A flight is operated when it leaves at most 180 minutes late.",
        "counts every departure",
        "A flight is operated when it arrives at most 120 minutes late.",
    ),
    Kind(
        "ontime",
        "What share of {cn} flights was on time in {mn}? | On-time rate of {cn} in {mn}?"
        " | Punctuality rate of {cn} during {mn}?",
        "SELECT AVG({X}) " + _CM,
        ("arr_delay<=9", "arr_delay<=0", "dep_delay<=5"),
        "On time: arrives at most 9 minutes late.",
        "allows no minute",
        "On time: departs at most 5 minutes late.",
    ),
    Kind(
        "cancelled",
        "How many {cn} flights were cancelled in {mn}? | Cancelled flights of {cn} during {mn}?"
        " | Number of cancellations at {cn} in {mn}?",
        "SELECT COUNT(*) " + _CM + " AND {X}",
        ("air_time IS NULL", "dep_time IS NULL", "(dep_time IS NULL OR dep_delay>240)"),
        "A flight without a recorded air time counts as cancelled (also when it was diverted).",
        "counts only flights that never left",
        "Flights that never left, or left more than 240 minutes late, count as cancelled.",
    ),
    Kind(
        "longhaul",
        "How many long-haul flights did {cn} fly in {mn}? | Long-haul flights of {cn} in {mn}?"
        " | Count the long-haul flights by {cn} during {mn}.",
        "SELECT COUNT(*) " + _CM + " AND {X}",
        ("distance>=800", "distance>=1000", "air_time>=150"),
        "Long-haul: 800 miles or more.",
        "draws the line at 1,000 miles",
        "Long-haul: 150 minutes or more in the air.",
    ),
    Kind(
        "catchup",
        "How many {cn} flights caught up in the air in {mn}? | Caught-up flights of {cn} in {mn}?"
        " | In {mn}, how many flights of {cn} caught up?",
        "SELECT COUNT(*) " + _CM + " AND {X}",
        ("dep_delay-arr_delay>=10", "dep_delay>arr_delay", "dep_delay-arr_delay>=20"),
        "Caught up: at least 10 minutes of delay regained between departure and arrival.",
        "accepts any minute regained",
        "Caught up: at least 20 minutes regained.",
    ),
    Kind(
        "delaycost",
        "What did delays cost {cn} in {mn}? | Delay cost of {cn} in {mn}?"
        " | How expensive were the delays of {cn} in {mn}?",
        "SELECT {X} " + _CM + " AND arr_delay>15",
        ("75*SUM(arr_delay)", "60*SUM(arr_delay)", "90*SUM(arr_delay-15)"),
        "Delay cost: 75 dollars for every minute of flights that arrive more than 15 minutes late.",
        "charges 60 dollars",
        "Delay cost: 90 dollars for every minute beyond the first 15.",
    ),
    Kind(
        "blockhours",
        "How many block hours did {cn} fly in {mn}? | Block hours of {cn} in {mn}?"
        " | Total block hours flown by {cn} during {mn}?",
        "SELECT SUM({X})/60.0 " + _CM,
        ("air_time+30", "air_time", "air_time+20"),
        "Block hours: air time plus 30 minutes of taxiing a flight.",
        "forgets the taxiing",
        "Block hours: air time plus 20 minutes a flight.",
    ),
    Kind(
        "speed",
        "What was the cruise speed of {cn} in {mn}? | Cruise speed of {cn} flights in {mn}?"
        " | How fast did {cn} cruise in {mn}?",
        "SELECT {X} " + _CM + " AND air_time>0",
        ("SUM(distance)*60.0/SUM(air_time-20)", "AVG(distance*60.0/air_time)", "SUM(distance)*60.0/SUM(air_time-30)"),
        "Cruise speed: all miles over all hours in the air, less 20 minutes of climb a flight.",
        "averages the speeds of single flights",
        "Cruise speed: the same with 30 minutes of climb and descent.",
    ),
    Kind(
        "disrupted",
        "What was the disruption rate of {cn} in {mn}? | Disruption rate at {cn} in {mn}?"
        " | What share of {cn} flights was disrupted during {mn}?",
        "SELECT AVG({X}) " + _CM,
        ("dep_time IS NULL OR arr_delay>90", "dep_time IS NULL", "dep_time IS NULL OR arr_delay>45"),
        "Disrupted: never left, or arrived more than 90 minutes late.",
        "forgets the late ones",
        "Disrupted: never left, or arrived more than 45 minutes late.",
    ),
    Kind(
        "topdest",
        "What was the top destination of {cn} in {mn}? | Top destination for {cn} in {mn}?"
        " | Which destination was number one for {cn} in {mn}?",
        "SELECT dest " + _CM + " GROUP BY dest ORDER BY {X} DESC LIMIT 1",
        ("SUM(distance)", "COUNT(*)", "SUM(arr_delay)"),
        "Top destination: the one with the most miles scheduled.",
        "takes the most flights",
        "Top destination: the one with the most minutes of arrival delay (where attention is due).",
    ),
    Kind(
        "corefleet",
        "How large was the core fleet of {cn} in {mn}? | Core fleet size of {cn} in {mn}?"
        " | How many planes were in {cn}'s core fleet in {mn}?",
        "SELECT COUNT(*) FROM (SELECT tailnum " + _CM + " GROUP BY tailnum HAVING {X})",
        ("COUNT(*)>=10", "COUNT(*)>=1", "COUNT(*)>=5"),
        "Core fleet: planes with at least 10 flights in the month.",
        "counts every plane seen",
        "Core fleet: planes with at least 5 flights in the month.",
    ),
    Kind(
        "seats",
        "How many seats did {cn} offer in {mn}? | Seats offered by {cn} in {mn}? | Seat capacity of {cn} in {mn}?",
        "SELECT {X} " + _CP,
        ("SUM(seats-4)", "SUM(seats)", "SUM(seats-6)"),
        "Seats offered: four seats of every flight are kept for the crew.",
        "counts all seats",
        "Seats offered: six seats of every flight are kept for the crew.",
    ),
    Kind(
        "passengers",
        "How many passengers did {cn} carry in {mn}? | Passengers carried by {cn} in {mn}?"
        " | Estimate the passengers of {cn} in {mn}.",
        "SELECT {X}*SUM(seats) " + _CP + " AND air_time>0",
        ("0.8", "1.0", "0.85"),
        "Passengers: 80 % of the seats of flights with a recorded air time.",
        "takes every seat as filled",
        "Passengers: 85 % of those seats.",
    ),
    Kind(
        "aging",
        "How many {cn} flights used an aging plane in {mn}? | Flights of {cn} on aging planes in {mn}?"
        " | In {mn}, how often did {cn} fly an aging plane?",
        "SELECT COUNT(*) " + _CP + " AND {X}",
        ("planes.year<=2001", "planes.year<=1998", "planes.year<=2003"),
        "Aging: built in 2001 or before.",
        "means 1998 or before",
        "Aging: built in 2003 or before.",
    ),
    Kind(
        "makershare",
        "What share of {cn}'s flying was done on {fn} planes in {mn}? | {fn} share of {cn}'s flying in {mn}?"
        " | How much of the flying of {cn} in {mn} was on {fn} aircraft?",
        "SELECT SUM({X}*(manufacturer LIKE '{f}%'))*1.0/SUM({X}) " + _CP,
        ("distance", "1", "seats"),
        "Shares of flying are shares of miles.",
        "counts flights",
        "Shares of flying are shares of seats.",
    ),
    Kind(
        "heavy",
        "How many heavy departures did {on} have in {mn}? | Heavy departures from {on} in {mn}?"
        " | Number of heavies leaving {on} in {mn}?",
        "SELECT COUNT(*) FROM flights JOIN planes USING(tailnum) WHERE origin='{o}' AND month={m} AND {X}",
        ("seats>=190", "seats>=250", "seats>=180"),
        "Heavy: a plane with 190 seats or more.",
        "draws the line at 250 seats",
        "Heavy: a plane with 180 seats or more.",
    ),
    # ---------------------------------------------------------------------- airports and their weather, destinations
    Kind(
        "redeye",
        "How many red-eye flights left {on} in {mn}? | Red-eyes out of {on} in {mn}?"
        " | Count the red-eye departures at {on} in {mn}.",
        "SELECT COUNT(*) " + _OM + " AND {X}",
        (
            "(sched_dep_time>=2130 OR sched_dep_time<530)",
            "(sched_dep_time>=2000 OR sched_dep_time<530)",
            "(sched_dep_time>=2045 OR sched_dep_time<530)",
        ),
        "Red-eye: scheduled to leave at 21:30 or later, or before 5:30.",
        "begins at 20:00",
        "Red-eye: scheduled to leave at 20:45 or later, or before 5:30.",
    ),
    Kind(
        "peak",
        "How many peak departures did {on} have in {mn}? | Peak departures at {on} in {mn}?"
        " | Peak-time flights leaving {on} in {mn}?",
        "SELECT COUNT(*) " + _OM + " AND hour BETWEEN {X}",
        ("16 AND 19", "7 AND 9", "15 AND 17"),
        "Peak: scheduled hours 16 to 19.",
        "takes the morning",
        "Peak: scheduled hours 15 to 17.",
    ),
    Kind(
        "shorthop",
        "How many short hops left {on} in {mn}? | Short hops from {on} in {mn}?"
        " | Number of short-hop flights out of {on} in {mn}?",
        "SELECT COUNT(*) " + _OM + " AND {X}",
        ("distance<450", "distance<300", "air_time<60"),
        "Short hop: less than 450 miles.",
        "draws the line at 300 miles",
        "Short hop: less than 60 minutes in the air.",
    ),
    Kind(
        "regular",
        "How many destinations were regularly served from {on} in {mn}? | Regular destinations out of {on} in {mn}?"
        " | Number of destinations with regular service from {on} in {mn}?",
        "SELECT COUNT(*) FROM (SELECT dest " + _OM + " GROUP BY dest HAVING {X})",
        ("COUNT(*)>=60", "COUNT(*)>=30", "COUNT(*)>=100"),
        "Regular: at least 60 flights in the month.",
        "accepts 30 flights",
        "Regular: at least 100 flights in the month.",
    ),
    Kind(
        "trouble",
        "Which three destinations from {on} were the most troubled in {mn}?"
        " | Three most troubled destinations out of {on} in {mn}? | Name the 3 trouble spots out of {on} in {mn}.",
        "SELECT dest " + _OM + " GROUP BY dest ORDER BY {X} DESC LIMIT 3",
        ("SUM(dep_delay)", "AVG(dep_delay)", "SUM(arr_delay>60)"),
        "Troubled: most minutes of departure delay in sum.",
        "ranks by the mean",
        "Troubled: most arrivals over 60 minutes late.",
    ),
    Kind(
        "avgdelay",
        "What was the typical delay into {dn} in {mn}? | Typical delay of flights to {dn} in {mn}?"
        " | How large was the typical delay on arrival in {dn} in {mn}?",
        "SELECT AVG({X}) " + _DM,
        ("MAX(arr_delay,0)", "arr_delay", "MAX(dep_delay,0)"),
        "Typical delay: mean arrival delay where early arrivals count as 0.",
        "lets early arrivals make up for late ones",
        "Typical delay: mean departure delay where early departures count as 0.",
    ),
    Kind(
        "severe",
        "How many severe delays did flights to {dn} have in {mn}? | Severe delays into {dn} in {mn}?"
        " | Number of severely delayed flights to {dn} in {mn}?",
        "SELECT COUNT(*) " + _DM + " AND {X}",
        ("arr_delay>75", "arr_delay>60", "dep_delay>=100"),
        "Severe: arrives more than 75 minutes late.",
        "draws the line at 60 minutes",
        "Severe: departs 100 minutes late or more.",
    ),
    Kind(
        "mountain",
        "How many flights from {on} went to mountain airports in {mn}? | Mountain flights out of {on} in {mn}?"
        " | Number of departures from {on} to mountain airports in {mn}?",
        "SELECT COUNT(*) FROM flights JOIN airports ON dest=faa WHERE origin='{o}' AND month={m} AND {X}",
        ("alt>=900", "alt>=2000", "alt>=700"),
        "Mountain airport: 900 feet or higher.",
        "draws the line at 2,000 feet",
        "Mountain airport: 700 feet or higher.",
    ),
    Kind(
        "western",
        "How many western flights did {cn} have in {mn}? | Western flights of {cn} in {mn}?"
        " | Number of {cn} flights to the west in {mn}?",
        "SELECT COUNT(*) FROM flights JOIN airports ON dest=faa WHERE carrier='{c}' AND month={m} AND {X}",
        ("lon<-90", "lon<-100", "lon<-85"),
        "Western: the destination lies west of 90° W.",
        "draws the line at 100° W",
        "Western: the destination lies west of 85° W.",
    ),
    Kind(
        "unreliable",
        "Which three airlines were the least reliable at {on} in {mn}?"
        " | Three least reliable airlines at {on} in {mn}? | Name the 3 most unreliable airlines out of {on} in {mn}.",
        "SELECT name FROM flights JOIN airlines USING(carrier) WHERE origin='{o}' AND month={m} GROUP BY name "
        "ORDER BY {X} DESC LIMIT 3",
        ("AVG(dep_delay>30)", "SUM(dep_delay>30)", "AVG(air_time IS NULL)"),
        "Unreliable: largest share of departures over 30 minutes late.",
        "takes numbers for shares",
        "Unreliable: largest share of flights without a recorded air time.",
    ),
    Kind(
        "windy",
        "How many windy hours did {on} have in {mn}? | Windy hours at {on} in {mn}?"
        " | Number of hours with wind at {on} in {mn}?",
        "SELECT COUNT(*) " + _WX + " AND {X}",
        ("wind_speed>=18", "wind_speed>=20", "wind_gust>=25"),
        "Windy: 18 miles an hour or more.",
        "draws the line at 20",
        "Windy: gusts of 25 miles an hour or more.",
    ),
    Kind(
        "murky",
        "How many murky hours did {on} have in {mn}? | Murky hours at {on} in {mn}?"
        " | For how many hours was it murky at {on} in {mn}?",
        "SELECT COUNT(*) " + _WX + " AND {X}",
        ("(visib<6 OR humid>92)", "visib<6", "(visib<4 OR humid>85)"),
        "Murky: visibility under 6 miles or humidity over 92 %.",
        "looks at visibility alone",
        "Murky: visibility under 4 miles or humidity over 85 %.",
    ),
    Kind(
        "raindelay",
        "What was the rain delay at {on} in {mn}? | Rain delay of departures from {on} in {mn}?"
        " | How long did rain delay flights at {on} in {mn}?",
        "SELECT {X} " + _FW + " AND precip>0",
        ("AVG(MAX(dep_delay,0))", "AVG(dep_delay)", "AVG(MAX(arr_delay,0))"),
        "Rain delay: mean departure delay in hours with rain, early departures as 0.",
        "lets early departures make up for late ones",
        "Rain delay: mean arrival delay in those hours, early arrivals as 0.",
    ),
    Kind(
        "roughstart",
        "How many rough starts did {on} see in {mn}? | Rough starts at {on} in {mn}?"
        " | Number of flights with a rough start from {on} in {mn}?",
        "SELECT COUNT(*) " + _FW + " AND {X}",
        ("wind_speed>=15", "wind_speed>=20", "wind_speed>=13"),
        "Rough start: scheduled in an hour with wind of 15 miles an hour or more.",
        "draws the line at 20",
        "Rough start: scheduled in an hour with wind of 13 miles an hour or more.",
    ),
)
FLIGHTS = Database(SOURCE, INSTRUCTIONS, tuple(replace(kind, places=_PLACES, free=FREE[kind.name]) for kind in _KINDS))
