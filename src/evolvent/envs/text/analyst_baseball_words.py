"""Eight free wordings of every kind of question about baseball: as people ask, not as a template does.

The first four of a kind keep its catchword or a part of it, the last four say it without: they share no content word
with the short wordings but for the names of teams, leagues and places.
"""

from collections.abc import Mapping

# kind: wordings, one a line
FREE: Mapping[str, str] = {
    "contact": """
        Did the {tn} make contact in {yn}? Give the rate.
        The {yn} contact figure of the {tn}, please.
        I want to compare contact rates: what was that of the {tn} in {yn}?
        {yn}, {tn}: contact as a fraction.
        How reliably did the {tn} reach base by themselves in {yn}, as a fraction?
        What part of their turns ended well for the {tn} in {yn}?
        {yn}: how often did the {tn} put something together with the stick?
        How hard was it to keep the {tn} off the bases in {yn}? Give a proportion.
    """,
    "punch": """
        The {tn} of {yn}: how much punch was in that order?
        I need a number for the punch of the {yn} {tn}.
        Was there any punch in the {tn} during {yn}?
        {yn}, {tn}, punch: what is the figure?
        How hard did the {tn} hit in {yn}?
        What force was behind the blows of the {tn} in {yn}?
        {yn}: extra bases of the {tn} for every attempt.
        How dangerous were the long drives of the {tn} in {yn}?
    """,
    "mainstay": """
        On how many mainstays did the {tn} rely in {yn}?
        Count the mainstays that the {tn} sent up in {yn}.
        {yn} roster of the {tn}: how many mainstay hitters?
        How many men were mainstays for the {tn} of {yn}?
        How many regulars stood in for the {tn} in {yn}?
        {yn}: the number of men that the {tn} sent up week after week.
        How large was the permanent staff of hitters with the {tn} in {yn}?
        Upon how many people did the {tn} build their attack in {yn}?
    """,
    "thieving": """
        How good were the {tn} at thieving in {yn}?
        {yn}: thieving by the {tn}, as a score please.
        Rate the thieves among the {tn} in {yn} by our thieving score.
        What did thieving bring the {tn} in {yn}?
        What did the runners of the {tn} gain by daring in {yn}?
        {yn}: was it worth sending runners for the {tn}? One number.
        How much did stolen bases help the {tn} in {yn}?
        Speed on the bases, {tn}, {yn}: the balance.
    """,
    "standstill": """
        How often was there a standstill with the {tn} at bat in {yn}?
        The {yn} standstill figure of the {tn}, please.
        How much standstill did people see from the {tn} in {yn}, as a share?
        {tn}, {yn}: standstill as a fraction.
        How often had the fielders nothing to do against the {tn} in {yn}, as a fraction?
        What part of the turns of the {tn} in {yn} passed without a ball in play?
        {yn}: the proportion of plays by the {tn} in which nobody moved.
        How dull was it to watch the {tn} in {yn}? Give the proportion.
    """,
    "lineupage": """
        Was the {yn} lineup of the {tn} old? Give its age.
        The lineup that the {tn} sent out in {yn}: what age?
        How young was the {tn} lineup in {yn}?
        Age of those in the lineup, {tn}, {yn}.
        How many years had the typical hitter of the {tn} behind him in {yn}?
        {yn}: how experienced in life were the hitters of the {tn}?
        How young were the men who swung for the {tn} in {yn}?
        What was on the birth certificates of the {yn} {tn}, on the whole, in years?
    """,
    "leftbats": """
        How many at-bats of the {tn} in {yn} were left-handed, as a share?
        Was the batting order of the {tn} left-handed in {yn}? As a fraction.
        {yn}: the left-handed part of the {tn} offence.
        How far to the left did the batting of the {tn} lean in {yn}?
        What fraction of the {yn} attack of the {tn} stood on the first base side of the plate?
        {yn}: which portion of the {tn} offence did not swing from the right?
        How hard would the {tn} have been for a righty in {yn}, by the side they swing from?
        Proportion of swings from the other side, {tn}, {yn}.
    """,
    "engines": """
        Who were the three engines that drove the {tn} in {yn}?
        The engine room of the {tn} in {yn}: three names.
        {yn}: which 3 men were engines for the {tn}?
        I want the names of the three who were the engine of the {yn} {tn}.
        Who carried the offence of the {tn} in {yn}? Three names.
        {yn}: the three hitters behind most of what the {tn} put on the board.
        Without which three men would the {tn} hardly have scored in {yn}?
        Who made things happen for the {tn} in {yn}? Give three.
    """,
    "traffic": """
        How bad was the traffic on the bases when the {tn} pitched in {yn}?
        {yn}: traffic against the {tn} staff, for nine innings.
        Was there much traffic on the bases against the {tn} in {yn}?
        The {yn} traffic figure of the {tn} staff, please.
        How many men got on base against the {tn} in a typical game of {yn}?
        {yn}: how busy were the bases with opponents of the {tn}?
        How crowded did it get behind the mound of the {tn} in {yn}?
        How many runners did the {tn} staff put up with in {yn}, by game?
    """,
    "depth": """
        How deep into games did those who start for the {tn} get in {yn}?
        {yn}: depth of the rotation of the {tn}.
        Did the {tn} starters of {yn} go deep? In innings.
        The depth figure for whoever started for the {tn} in {yn}.
        How long did the {tn} rotation last in {yn}, in innings?
        {yn}: when did the manager of the {tn} have to walk to the mound?
        For how many innings could the {tn} rely on their rotation in {yn}?
        How much work did the men of the rotation take over for the {tn} in {yn}, by game?
    """,
    "bullpen": """
        How much of the work did the bullpen of the {tn} do in {yn}?
        {yn}: the part that the {tn} bullpen took.
        What fraction came from the {tn} bullpen in {yn}?
        How hard was the bullpen of the {tn} used in {yn}? As a share.
        How much did the relief corps of the {tn} contribute in {yn}, as a fraction?
        {yn}: the portion of outs that relievers got for the {tn}.
        What part of the {tn} outs of {yn} was got by men who entered later?
        How dependent were the {tn} on relief in {yn}? Give a proportion.
    """,
    "deserved": """
        How many games did the {tn} deserve to win in {yn}?
        {yn}: what the {tn} deserved, in wins.
        Luck aside, how many victories were deserved by the {tn} in {yn}?
        Give me the wins that the {yn} {tn} deserved.
        How many victories would have been fair for the {tn} in {yn}?
        {yn}: what should the record of the {tn} have been, by runs?
        Going by runs, how many games ought the {tn} to have taken in {yn}?
        Which number of victories did the {tn} earn in {yn}, luck aside?
    """,
    "gate": """
        How good was the gate when the {tn} were at home in {yn}?
        {yn}: the gate that the {tn} drew.
        I need the gate figure of the {tn} for {yn}.
        What was the gate like for the {tn} in {yn}?
        How many people came to see the {tn} on a typical day of {yn}?
        {yn}: how full was the park of the {tn}, in heads a date?
        What crowd could the {tn} count on in {yn}?
        How many tickets did the {tn} sell for a home date in {yn}?
    """,
    "payroll": """
        What was on the payroll of the {tn} in {sn}, in dollars?
        {sn}: the {tn} payroll, please.
        How much money was the {tn} payroll in {sn}?
        I need the {sn} payroll figure for the {tn}.
        What did the roster cost the {tn} in {sn}?
        {sn}: how much did the owners of the {tn} spend on salaries?
        How many dollars went to the men of the {tn} in {sn}?
        How expensive was the squad of the {tn} in {sn}?
    """,
    "usualpay": """
        What pay was usual with the {tn} in {sn}?
        {sn}: the usual pay of somebody on the {tn}.
        How much did one usually get as pay from the {tn} in {sn}?
        Usual pay, {tn}, {sn}: the figure, please.
        What would an ordinary man of the {tn} have earned in {sn}?
        {sn}: the typical salary with the {tn}.
        How many dollars did a man of the {tn} take home in {sn}, typically?
        How well off was the ordinary member of the {tn} in {sn}?
    """,
    "runprice": """
        At what price did the {tn} get a run in {sn}?
        {sn}: price of each run of the {tn}.
        Was a run dear to the {tn} in {sn}? Its price, please.
        What did the {tn} pay for a run in {sn}?
        How many dollars did the {tn} spend for each time they scored in {sn}?
        {sn}: how dear was scoring to the {tn}, in dollars?
        How efficiently did the {tn} turn salaries into scoring in {sn}?
        Dollars for each score, {tn}, {sn}.
    """,
    "bargain": """
        How many men of the {ln} were a bargain in {sn}?
        {sn}: how many bargains were on the books of the {ln}?
        Count the bargains among those who hit in the {ln} in {sn}.
        How many hitters would you call a bargain in the {ln} of {sn}?
        How many men gave good value for little money in the {ln} in {sn}?
        {sn}: how many cheap and useful hitters were in the {ln}?
        How many contracts of the {ln} paid off for the owners in {sn}?
        How many were worth more than they earned in the {ln} in {sn}?
    """,
    "slugger": """
        How many men were sluggers in the {ln} of {yn}?
        {yn}: count the sluggers, {ln} only.
        How many a slugger was there in the {ln} in {yn}?
        The number of {ln} hitters who were sluggers in {yn}.
        How many hitters of the {ln} had real power in {yn}?
        {yn}: how many men of the {ln} regularly drove it over the fence?
        How many big home run hitters were in the {ln} in {yn}?
        How many strong men did those on the mound of the {ln} fear in {yn}?
    """,
    "wild": """
        How many pitchers were wild in the {ln} in {yn}?
        {yn}: how many wild arms were on the mounds of the {ln}?
        Count those who were wild on the mound, {ln}, {yn}.
        How many hurlers would you call wild in the {ln} of {yn}?
        How many arms of the {ln} had trouble finding the plate in {yn}?
        {yn}: how many hurlers lacked control in the {ln}?
        How many men on the mound gave away too many bases in the {ln} in {yn}?
        How many hurlers did catchers of the {ln} dread in {yn}, for want of aim?
    """,
    "rescuer": """
        How many men came to the rescue in the {ln} in {yn}?
        {yn}: how many rescuers had the {ln}?
        Count the rescuers of {yn}, {ln} only.
        How many arms of the {ln} were rescuers in {yn}?
        How many closers worked in the {ln} in {yn}?
        {yn}: how many men finished tight games for clubs of the {ln}?
        How many firemen were called out in the {ln} in {yn}?
        How many relievers regularly saved games in the {ln} in {yn}?
    """,
    "wanderer": """
        How many men wandered about within the {ln} in {yn}?
        {yn}: count those who were wanderers in the {ln}.
        How many hitters were wanderers in the {ln} of {yn}?
        The number of wanderers, {ln}, {yn}.
        How many men changed clubs in the {ln} in {yn}?
        {yn}: how many had to pack their bags in the {ln} in mid-season?
        How many hitters of the {ln} wore a second uniform in {yn}?
        How many were traded inside the {ln} in {yn}?
    """,
    "handyman": """
        How many men of the {ln} were handymen in {yn}?
        {yn}: count the handymen, {ln} only.
        How many a handyman was there in the {ln} in {yn}?
        The number of fielders who were handymen in the {ln} of {yn}.
        How many men of the {ln} could be put anywhere in {yn}?
        {yn}: how many versatile fielders had the {ln}?
        How many fielders of the {ln} kept several gloves in {yn}?
        How many were moved around the field in the {ln} in {yn}?
    """,
    "greybeard": """
        How many men of the {ln} were greybeards in {yn}?
        {yn}: count the greybeards, {ln} only.
        How many a greybeard came to the plate in the {ln} in {yn}?
        The number of hitters who were greybeards in the {ln} of {yn}.
        How many old men were still at it in the {ln} in {yn}?
        {yn}: how many veterans came to the plate in the {ln}?
        How many hitters of the {ln} had their best years behind them in {yn}?
        How many were near the end of a long career in the {ln} in {yn}?
    """,
    "foreign": """
        How many foreigners came to the plate in the {ln} in {yn}?
        {yn}: count the foreign men, {ln} only.
        How many hitters of the {ln} were foreign in {yn}?
        The number of foreign names in the {ln} of {yn}.
        How many men of the {ln} came from other countries in {yn}?
        {yn}: how many hitters needed a visa in the {ln}?
        How many from abroad came to the plate in the {ln} in {yn}?
        How international was the {ln} in {yn}, in heads?
    """,
    "southpaw": """
        What part did southpaws have in the {ln} in {yn}?
        {yn}: southpaws as a fraction of the {ln} mound.
        How important were southpaws in the {ln} in {yn}? As a fraction.
        The {yn} southpaw figure of the {ln}, please.
        What fraction of the work on the mound did left-handers take over in the {ln} in {yn}?
        {yn}: the portion of lefties on the mounds of the {ln}.
        How important was the left arm in the {ln} in {yn}, as a fraction?
        How often did one face a lefty in the {ln} in {yn}, as a fraction?
    """,
    "ace": """
        Who were the three aces in the {ln} in {yn}?
        {yn}: three aces, {ln} only.
        Which 3 arms of the {ln} would you call aces in {yn}?
        I want the names of three aces of the {yn} {ln}.
        Who were the three best hurlers of the {ln} in {yn}?
        {yn}: the three arms that one feared most in the {ln}.
        Which three men ruled the mound in the {ln} in {yn}?
        Whom would you least like to face in the {ln} of {yn}? Three names.
    """,
    "magnet": """
        Which three clubs were magnets in the {ln} in {yn}?
        {yn}: three magnets, {ln} only.
        Which 3 clubs were a magnet for the crowd in the {ln} in {yn}?
        I want the names of three clubs of the {yn} {ln} that were magnets.
        Which three clubs were the most attractive of the {ln} in {yn}?
        {yn}: the three clubs of the {ln} that drew people in.
        To which three clubs of the {ln} did everybody run in {yn}?
        Which three clubs had the strongest pull in the {ln} in {yn}?
    """,
    "summerborn": """
        What part of those on the mound of the {ln} was summer-born in {yn}?
        {yn}: the summer-born fraction of {ln} arms.
        How many arms of the {ln} were born in summer in {yn}, as a share?
        Summer-born hurlers, {ln}, {yn}: as a fraction.
        What fraction of {ln} hurlers had their birthday in the warm months in {yn}?
        {yn}: the portion of {ln} arms with a birthday in the sunny time.
        How common were birthdays during the season among {ln} hurlers of {yn}, as a fraction?
        What proportion of {ln} arms blew out candles in the heat in {yn}?
    """,
    "fumbles": """
        How often did one fumble at {pn} in {yn}?
        {yn}: fumbles at {pn}, as a rate.
        The fumble figure for {pn} in {yn}, please.
        How bad were the fumbles at {pn} in {yn}?
        How safe were the hands at {pn} in {yn}? Count what went wrong.
        {yn}: how many errors could one expect at {pn}?
        How often did something slip away at {pn} in {yn}?
        How clumsy were the men at {pn} in {yn}?
    """,
    "hefty": """
        How many of those born in {bn} in {en} were hefty?
        {bn}, {en}: count the hefty men who were born there.
        How many hefty boys came out of {bn}, born in {en}?
        The number of hefty men that {bn} gave birth to in {en}.
        How many heavyweights came into the world in {bn} in {en}?
        {en}: how many big men does {bn} call its sons?
        How many natives of {bn} from {en} were heavy?
        How many sons of {bn} from {en} made the scales groan?
    """,
}
