"""The house's definitions for baseball: thirty kinds of question, other in nature than those about the flights.

Ratios of sums where a mean of ratios lies near, denominators of its own, counts of players and not of rows, lists with
an order of two measures, sums under a condition, ages.
"""

from dataclasses import replace

from evolvent.envs.text.analyst_baseball import INSTRUCTIONS, PLACES, SOURCE
from evolvent.envs.text.analyst_baseball_words import FREE
from evolvent.envs.text.analyst_kinds import Database, Kind

_TB = "FROM batting WHERE teamID='{t}' AND yearID={y}"
_TP = "FROM pitching WHERE teamID='{t}' AND yearID={y}"
_TT = "FROM teams WHERE teamID='{t}' AND yearID={y}"
_TS = "FROM salaries WHERE teamID='{t}' AND yearID={s}"
_LB = "FROM batting WHERE lgID='{l}' AND yearID={y}"
_LP = "FROM pitching WHERE lgID='{l}' AND yearID={y}"
_LBP = "FROM batting JOIN people USING(playerID) WHERE lgID='{l}' AND yearID={y}"
_LPP = "FROM pitching JOIN people USING(playerID) WHERE lgID='{l}' AND yearID={y}"
_TBP = "FROM batting JOIN people USING(playerID) WHERE teamID='{t}' AND yearID={y}"

_KINDS = (
    # ------------------------------------------------------------------------------------------- batters of a team
    Kind(
        "contact",
        "What was the contact rate of the {tn} in {yn}? | Contact rate of the {tn} in {yn}?"
        " | How good was the contact rate of the {tn} during {yn}?",
        "SELECT SUM({X} " + _TB,
        ("H+BB)*1.0/SUM(AB+BB)", "H)*1.0/SUM(AB)", "H-HR)*1.0/SUM(AB-SO)"),
        "Contact rate: hits and walks over at-bats and walks.",
        "leaves the walks out",
        "Contact rate: hits without home runs over at-bats without strikeouts.",
    ),
    Kind(
        "punch",
        "How much punch did the {tn} have in {yn}? | Punch of the {tn} in {yn}?"
        " | What was the punch of the {tn} in {yn}?",
        "SELECT SUM({X})*1.0/SUM(AB) " + _TB,
        ("doubles+triples+3*HR", "doubles+2*triples+3*HR", "doubles+triples+4*HR"),
        "Punch: doubles and triples count 1, home runs 3, over at-bats.",
        "counts a triple as 2",
        "Punch: doubles and triples count 1, home runs 4, over at-bats.",
    ),
    Kind(
        "mainstay",
        "How many mainstays did the {tn} have in {yn}? | Mainstays of the {tn} in {yn}?"
        " | Number of mainstays on the {tn} in {yn}?",
        "SELECT COUNT(*) " + _TB + " AND {X}",
        ("AB>=280", "AB>=400", "AB>=200"),
        "Mainstay: at least 280 at-bats.",
        "draws the line at 400 at-bats",
        "Mainstay: at least 200 at-bats.",
    ),
    Kind(
        "thieving",
        "What was the thieving score of the {tn} in {yn}? | Thieving score of the {tn} in {yn}?"
        " | How high was the {tn}' thieving score in {yn}?",
        "SELECT {X} " + _TB,
        ("SUM(SB-2*CS)", "SUM(SB-CS)", "SUM(2*SB-3*CS)"),
        "Thieving score: stolen bases less twice the times caught.",
        "takes off only one for a time caught",
        "Thieving score: twice the stolen bases less three times the times caught.",
    ),
    Kind(
        "standstill",
        "What was the standstill rate of the {tn} in {yn}? | Standstill rate of the {tn} in {yn}?"
        " | How high was the standstill rate of the {tn} in {yn}?",
        "SELECT SUM({X}) " + _TB,
        ("SO+BB+HR)*1.0/SUM(AB+BB", "SO+BB)*1.0/SUM(AB+BB", "SO+BB+HBP)*1.0/SUM(AB+BB+HBP"),
        "Standstill rate: strikeouts, walks and home runs over at-bats and walks.",
        "forgets the home runs",
        "Standstill rate: strikeouts, walks and hits by pitch over at-bats, walks and hits by pitch.",
    ),
    Kind(
        "lineupage",
        "How old was the lineup of the {tn} in {yn}? | Age of the {tn}' lineup in {yn}?"
        " | What was the lineup age of the {tn} in {yn}?",
        "SELECT {X} " + _TBP,
        (
            "SUM((yearID-birthYear)*AB)*1.0/SUM(AB)",
            "AVG(yearID-birthYear)",
            "SUM((yearID-birthYear)*H)*1.0/SUM(H)-0.5",
        ),
        "Lineup age: year less year of birth, weighted by at-bats.",
        "takes the plain mean",
        "Lineup age: weighted by hits, less half a year.",
    ),
    Kind(
        "leftbats",
        "How left-handed was the batting of the {tn} in {yn}? | Left-handed share of the {tn}' batting in {yn}?"
        " | What share of the {tn}' batting was left-handed in {yn}?",
        "SELECT SUM(AB*({X}))*1.0/SUM(AB) " + _TBP,
        ("bats<>'R'", "bats='L'", "throws='L'"),
        "Left-handed: bats left or both ways; by at-bats.",
        "leaves out those who bat both ways",
        "Left-handed: throws left; by at-bats.",
    ),
    Kind(
        "engines",
        "Which three batters were the engines of the {tn} in {yn}? | Three engines of the {tn} in {yn}?"
        " | Name the 3 engine batters of the {tn} in {yn}.",
        "SELECT nameLast " + _TBP + " ORDER BY {X} DESC LIMIT 3",
        ("R+RBI-HR DESC, AB", "RBI DESC, AB", "H+BB DESC, AB"),
        "Engines: most runs and runs batted in, home runs off; at-bats decide a tie.",
        "ranks by runs batted in",
        "Engines: most hits and walks; at-bats decide a tie.",
    ),
    # ------------------------------------------------------------------------------------------ pitchers of a team
    Kind(
        "traffic",
        "How much traffic did the pitchers of the {tn} allow in {yn}? | Traffic allowed by the {tn} in {yn}?"
        " | What was the {tn}' traffic per nine innings in {yn}?",
        "SELECT {X})*27.0/SUM(IPouts) " + _TP,
        ("SUM(H+BB-HR", "SUM(H+BB", "SUM(H+2*BB"),
        "Traffic: hits and walks without home runs, per nine innings.",
        "counts home runs too",
        "Traffic: hits and twice the walks, per nine innings.",
    ),
    Kind(
        "depth",
        "How deep did starters of the {tn} go in {yn}? | Depth of the {tn}' starters in {yn}?"
        " | What was the starter depth of the {tn} in {yn}?",
        "SELECT {X} " + _TP + " AND GS>=5",
        ("SUM(IPouts)/3.0/SUM(G)", "AVG(IPouts/3.0/GS)", "SUM(IPouts-SO)/3.0/SUM(G)"),
        "Depth: innings over games of those with 5 starts or more.",
        "takes the mean of innings by start",
        "Depth: innings without those of strikeouts over games of those with 5 starts or more.",
    ),
    Kind(
        "bullpen",
        "What was the bullpen share of the {tn} in {yn}? | Bullpen share of the {tn} in {yn}?"
        " | How large was the {tn}' bullpen share in {yn}?",
        "SELECT SUM(IPouts*({X}))*1.0/SUM(IPouts) " + _TP,
        ("GS*3<=G", "GS=0", "GS*3<=G AND G>=20"),
        "Bullpen share: outs by those who start at most one game in three.",
        "takes those who never start",
        "Bullpen share: the same, with at least 20 games.",
    ),
    # ------------------------------------------------------------------------------------------------ whole teams
    Kind(
        "deserved",
        "How many wins did the {tn} deserve in {yn}? | Deserved wins of the {tn} in {yn}?"
        " | What were the deserved wins of the {tn} in {yn}?",
        "SELECT {X} " + _TT,
        ("G*0.5+(R-RA)/9.0", "G*1.0*R*R/(R*R+RA*RA)", "G*0.5+(R-RA)/12.0"),
        "Deserved wins: half of the games, and one for nine runs more than were let in.",
        "takes the squares of runs",
        "Deserved wins: half of the games, and one for twelve runs more than were let in.",
    ),
    Kind(
        "gate",
        "What was the gate of the {tn} in {yn}? | Gate of the {tn} in {yn}? | How large was the {tn}' gate in {yn}?",
        "SELECT {X} " + _TT,
        ("attendance/78.0", "attendance*2.0/G", "attendance/75.0"),
        "Gate: attendance of the year over 78 dates.",
        "divides by half of the games",
        "Gate: attendance of the year over 75 dates.",
    ),
    # -------------------------------------------------------------------------------------------------- salaries
    Kind(
        "payroll",
        "How high was the payroll of the {tn} in {sn}? | Payroll of the {tn} in {sn}?"
        " | What did the {tn}' payroll amount to in {sn}?",
        "SELECT SUM(salary) FROM (SELECT salary " + _TS + " ORDER BY salary DESC LIMIT {X})",
        ("18", "25", "12"),
        "Payroll: the 18 best paid.",
        "takes 25 players",
        "Payroll: the 12 best paid.",
    ),
    Kind(
        "usualpay",
        "What was the usual pay on the {tn} in {sn}? | Usual pay of the {tn} in {sn}?"
        " | How high was usual pay with the {tn} in {sn}?",
        "SELECT {X} " + _TS,
        ("AVG(MIN(salary,1200000))", "AVG(salary)", "AVG(MIN(salary,900000))"),
        "Usual pay: the mean, where nobody counts for more than 1,200,000 dollars.",
        "takes the plain mean",
        "Usual pay: the mean, where nobody counts for more than 900,000 dollars.",
    ),
    Kind(
        "runprice",
        "What was the price of a run for the {tn} in {sn}? | Run price of the {tn} in {sn}?"
        " | How much did a run cost the {tn} in {sn}?",
        "SELECT {X} FROM salaries JOIN batting USING(playerID,yearID,teamID) WHERE teamID='{t}' AND yearID={s} AND R>0",
        ("SUM(salary)*2.0/SUM(R+RBI)", "AVG(salary*1.0/R)", "SUM(salary)*1.0/SUM(R+RBI-HR)"),
        "Price of a run: all pay of those who scored over half of their runs and runs batted in.",
        "averages the prices of single players",
        "Price of a run: all pay of those who scored over runs and runs batted in, home runs off.",
    ),
    Kind(
        "bargain",
        "How many bargains did the {ln} have in {sn}? | Bargains of the {ln} in {sn}?"
        " | Number of bargain players in the {ln} in {sn}?",
        "SELECT COUNT(*) FROM salaries JOIN batting USING(playerID,yearID,teamID,lgID) WHERE lgID='{l}' AND "
        "yearID={s} AND {X}",
        ("H*9000>=salary", "HR*90000>=salary", "R*15000>=salary"),
        "Bargain: paid at most 9,000 dollars a hit.",
        "goes by 90,000 dollars a home run",
        "Bargain: paid at most 15,000 dollars a run.",
    ),
    # ------------------------------------------------------------------------------------------ players of a league
    Kind(
        "slugger",
        "How many sluggers did the {ln} have in {yn}? | Sluggers of the {ln} in {yn}?"
        " | Number of sluggers in the {ln} in {yn}?",
        "SELECT COUNT(*) " + _LB + " AND {X}",
        ("HR>=17", "HR>=20", "HR*25>=AB AND AB>=200"),
        "Slugger: at least 17 home runs.",
        "draws the line at 20",
        "Slugger: a home run every 25 at-bats, with 200 at-bats or more.",
    ),
    Kind(
        "wild",
        "How many wild pitchers did the {ln} have in {yn}? | Wild pitchers of the {ln} in {yn}?"
        " | Number of wild pitchers in the {ln} in {yn}?",
        "SELECT COUNT(*) " + _LP + " AND IPouts>=180 AND {X}",
        ("BB*27>=4*IPouts", "BB*2>=SO", "BB*10>=4*H"),
        "Wild: 60 innings or more, and four walks or more for nine of them.",
        "compares walks with strikeouts",
        "Wild: 60 innings or more, and four walks or more for ten hits.",
    ),
    Kind(
        "rescuer",
        "How many rescuers pitched in the {ln} in {yn}? | Rescuers of the {ln} in {yn}?"
        " | Number of rescuers in the {ln} in {yn}?",
        "SELECT COUNT(DISTINCT playerID) " + _LP + " AND {X}",
        ("SV>=7", "SV>=10", "SV+W>=12 AND GS=0"),
        "Rescuer: at least 7 saves with one team.",
        "draws the line at 10",
        "Rescuer: at least 12 saves and wins without a start.",
    ),
    Kind(
        "wanderer",
        "How many wanderers batted in the {ln} in {yn}? | Wanderers of the {ln} in {yn}?"
        " | Number of wanderers in the {ln} in {yn}?",
        "SELECT COUNT(*) FROM (SELECT playerID " + _LB + " GROUP BY playerID HAVING {X})",
        (
            "COUNT(DISTINCT teamID)>=2 AND SUM(G)>=30",
            "COUNT(DISTINCT teamID)>=2",
            "MAX(stint)>=2 AND SUM(G)>=20",
        ),
        "Wanderer: two teams or more in the league in the year, and 30 games or more.",
        "asks for no number of games",
        "Wanderer: a second stint in the year, and 20 games or more in the league.",
    ),
    Kind(
        "handyman",
        "How many handymen played in the {ln} in {yn}? | Handymen of the {ln} in {yn}?"
        " | Number of handymen in the {ln} in {yn}?",
        "SELECT COUNT(*) FROM (SELECT playerID FROM fielding WHERE lgID='{l}' AND yearID={y} GROUP BY playerID "
        "HAVING {X})",
        ("COUNT(DISTINCT POS)>=3 AND SUM(G)>=25", "COUNT(*)>=3", "COUNT(DISTINCT POS)>=2 AND SUM(G)>=70"),
        "Handyman: three positions or more, 25 games or more.",
        "counts entries and not positions, whatever the games",
        "Handyman: two positions or more, 70 games or more.",
    ),
    Kind(
        "greybeard",
        "How many greybeards batted in the {ln} in {yn}? | Greybeards of the {ln} in {yn}?"
        " | Number of greybeards in the {ln} in {yn}?",
        "SELECT COUNT(DISTINCT playerID) " + _LBP + " AND {X}",
        ("yearID-birthYear>=34", "yearID-birthYear>=35", "yearID-substr(debut,1,4)>=12"),
        "Greybeard: the year less the year of birth is 34 or more.",
        "draws the line at 35",
        "Greybeard: the first game was twelve years ago or more.",
    ),
    Kind(
        "foreign",
        "How many foreign players batted in the {ln} in {yn}? | Foreign batters of the {ln} in {yn}?"
        " | Number of foreign batters in the {ln} in {yn}?",
        "SELECT COUNT(DISTINCT playerID) " + _LBP + " AND birthCountry NOT IN ({X})",
        ("'USA','CAN','P.R.'", "'USA'", "'USA','CAN'"),
        "Foreign: born outside the USA, Canada and Puerto Rico.",
        "counts everyone born outside the USA",
        "Foreign: born outside the USA and Canada.",
    ),
    Kind(
        "southpaw",
        "How much of the {ln}'s pitching was done by southpaws in {yn}? | Southpaw share of the {ln} in {yn}?"
        " | What share of the {ln}'s pitching came from southpaws in {yn}?",
        "SELECT SUM({X}*(throws='L'))*1.0/SUM({X}) " + _LPP,
        ("SO", "1", "IPouts"),
        "Shares of pitching are shares of strikeouts.",
        "counts pitchers",
        "Shares of pitching are shares of innings.",
    ),
    Kind(
        "ace",
        "Which three pitchers were the aces of the {ln} in {yn}? | Three aces of the {ln} in {yn}?"
        " | Name the 3 ace pitchers of the {ln} in {yn}.",
        "SELECT nameLast " + _LPP + " ORDER BY {X} DESC LIMIT 3",
        ("SO-2*BB DESC, IPouts", "SO DESC, IPouts", "IPouts-5*ER DESC, W"),
        "Aces: most strikeouts less twice the walks; innings decide a tie.",
        "ranks by strikeouts",
        "Aces: most outs less five for an earned run; wins decide a tie.",
    ),
    Kind(
        "magnet",
        "Which three teams were the magnets of the {ln} in {yn}? | Three magnets of the {ln} in {yn}?"
        " | Name the 3 magnet teams of the {ln} in {yn}.",
        "SELECT name FROM teams WHERE lgID='{l}' AND yearID={y} ORDER BY {X} DESC LIMIT 3",
        ("attendance/HR", "attendance", "R-RA"),
        "Magnets: most spectators for a home run.",
        "ranks by spectators",
        "Magnets: largest surplus of runs over those let in.",
    ),
    Kind(
        "summerborn",
        "What share of the {ln}'s pitchers was summer-born in {yn}? | Summer-born share of pitchers, {ln}, {yn}?"
        " | How large was the summer-born share of the {ln}'s pitchers in {yn}?",
        "SELECT AVG(birthMonth BETWEEN {X}) " + _LPP,
        ("5 AND 8", "6 AND 8", "5 AND 9"),
        "Summer-born: May to August.",
        "takes June to August",
        "Summer-born: May to September.",
    ),
    # ------------------------------------------------------------------------- positions by year, births by decade
    Kind(
        "fumbles",
        "What was the fumble rate at {pn} in {yn}? | Fumble rate at {pn} in {yn}?"
        " | How high was the rate of fumbles at {pn} in {yn}?",
        "SELECT {X} FROM fielding WHERE POS='{p}' AND yearID={y} AND G>=20",
        ("SUM(E)*100.0/SUM(PO+A)", "AVG(E*100.0/(PO+A+E))", "SUM(E)*100.0/SUM(G)"),
        "Fumble rate: errors for 100 putouts and assists of those with 20 games or more.",
        "averages the rates of single players",
        "Fumble rate: errors for 100 games of those with 20 games or more.",
    ),
    Kind(
        "hefty",
        "How many hefty players were born in {bn} in {en}? | Hefty players from {bn}, born in {en}?"
        " | Number of hefty players born in {bn} during {en}?",
        "SELECT COUNT(*) FROM people WHERE birthState='{b}' AND birthYear/10={e} AND {X}",
        ("weight>=195", "weight>=200", "weight>=2.6*height"),
        "Hefty: 195 pounds or more.",
        "draws the line at 200 pounds",
        "Hefty: 2.6 pounds or more for an inch of height.",
    ),
)
BASEBALL = Database(SOURCE, INSTRUCTIONS, tuple(replace(kind, places=PLACES, free=FREE[kind.name]) for kind in _KINDS))
