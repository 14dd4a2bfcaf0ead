"""Eight free wordings of every kind of question about the flights: as people ask, not as a template does.

The first four of a kind keep its catchword or a part of it, the last four say it without: they share no content word
with the short wordings but for the names of carriers, airports and months.
"""

from collections.abc import Mapping

# kind: wordings, one a line
FREE: Mapping[str, str] = {
    "operated": """
        I need the count of operated flights, {cn}, month of {mn}.
        For the {mn} newsletter: how many flights did we see {cn} really operate?
        {cn} claims a busy {mn}. How many of its flights were operated at all?
        Quick one: flights operated, {mn}, {cn} only.
        How often did {cn} get a plane off the ground in {mn}?
        Departures that actually happened for {cn}, {mn} please.
        How busy was {cn} throughout {mn}, going by what was truly flown?
        {mn} activity of {cn}: give me the number that counts as flown.
    """,
    "ontime": """
        Was {cn} on time in {mn}? Give it as a fraction.
        The on-time figure for {cn} that goes on the {mn} slide, please.
        Out of everything {cn} scheduled in {mn}, which part ran on time?
        How good was {cn}'s on-time performance during {mn}?
        How dependable were {cn}'s arrivals in {mn}, as a fraction?
        Could travellers with {cn} set their watches by it in {mn}? I want the proportion.
        What portion of {cn} passengers would have made their meeting in {mn}?
        {mn}: the percentage of {cn} services that kept to the timetable.
    """,
    "cancelled": """
        How many times was a {cn} flight cancelled over the course of {mn}?
        {mn} at {cn}: total cancelled, please.
        I am told {cn} cancelled a lot in {mn}. How many was it?
        Give me the tally of what {cn} had to cancel during {mn}.
        How often did {cn} leave people stranded in {mn} because a service was scrapped?
        Services that {cn} called off in {mn}: what is the total?
        How many of {cn}'s planned trips fell through in {mn}?
        {cn}, {mn}: how much of the schedule was never completed, counted in trips?
    """,
    "longhaul": """
        Long-haul activity of {cn} in {mn}: how many flights is that?
        How big was the long-haul programme that {cn} flew in {mn}?
        I want the number of {cn}'s long-haul departures for {mn}.
        Of all that {cn} flew in {mn}, how many were long haul?
        How many far-away trips did {cn} make during {mn}?
        {cn}'s big journeys in {mn}: what do they add up to?
        How often in {mn} did {cn} cross a good part of the country?
        Distant destinations, {cn}, {mn}: number of services please.
    """,
    "catchup": """
        How often did a {cn} flight catch up after leaving late in {mn}?
        {mn}: number of {cn} departures that caught up on the way.
        How good was {cn} at catching up in {mn}, counted in flights?
        Count what {cn} caught up in {mn}, in flights.
        How many times did {cn} pilots make up for lost minutes in {mn}?
        In {mn}, how many {cn} services won back time on the way?
        {cn} crews recovering a late start, {mn}: how many cases?
        How often was the schedule rescued aloft by {cn} in {mn}?
    """,
    "delaycost": """
        Put a price on {cn}'s delays of {mn}.
        I need the cost of delay for {cn}, {mn}, in dollars.
        How many dollars did {cn} lose through delays in {mn}?
        Finance asks for the {mn} delay costs of {cn}.
        How much money did lateness burn at {cn} in {mn}?
        What is the bill for {cn} running behind schedule in {mn}?
        {mn}: what did being late set {cn} back, in dollars?
        How dear was tardiness to {cn} during {mn}?
    """,
    "blockhours": """
        Crew planning wants {cn}'s block hours for {mn}.
        Block time of {cn} in {mn}, as hours.
        How much block time did {cn}'s flights amount to in {mn}?
        Sum the block hours for {cn} over {mn}.
        How long were {cn}'s aircraft in use, gate to gate, in {mn}?
        {mn}: the hours that {cn} must pay its crews for.
        How much time did {cn}'s machines spend away from the gate in {mn}, in hours?
        Gate-to-gate time at {cn}, added together for {mn}?
    """,
    "speed": """
        Average cruise speed, {cn}, {mn}?
        At what speed did {cn}'s planes cruise in {mn}?
        How quickly was {cn} cruising in {mn}, in miles an hour?
        I am after the cruising speed of {cn} during {mn}.
        How many miles an hour did {cn} make up there in {mn}?
        How swift were {cn}'s aircraft in {mn}?
        {mn}: what pace did {cn} keep once aloft?
        What would radar have read for {cn} in {mn}?
    """,
    "disrupted": """
        How disrupted was {cn}'s schedule in {mn}, as a share?
        {cn} in {mn}: fraction of disrupted flights, please.
        The board wants the disruption figure of {cn} for {mn}.
        Which part of what {cn} planned for {mn} ended up disrupted?
        How much of {cn}'s programme fell apart in {mn}, as a proportion?
        What fraction of {cn} customers had their day ruined in {mn}?
        {mn}: how badly was {cn} thrown off its plan, in percent of services?
        How likely was it in {mn} that a trip with {cn} went seriously wrong?
    """,
    "topdest": """
        Which place tops the destinations of {cn} in {mn}?
        {cn}'s leading destination, {mn}?
        Tell me the destination that comes first for {cn} in {mn}.
        Of all destinations, where was {cn} strongest in {mn}?
        Where did {cn} mostly go in {mn}?
        What airport mattered most to {cn} during {mn}?
        Name the place that {cn} put the most into in {mn}.
        If {cn} had to pick one city to keep after {mn}, which would it be?
    """,
    "corefleet": """
        How many aircraft belonged to the core fleet at {cn} in {mn}?
        Core fleet of {cn} for {mn}: how many tails?
        {cn}'s core planes in {mn}, counted.
        Maintenance asks for the size of {cn}'s core fleet during {mn}.
        How many machines carried the bulk of {cn}'s work in {mn}?
        On how many tails did {cn} mainly rely in {mn}?
        {mn}: number of aircraft that were the backbone of {cn}.
        How many jets were {cn}'s workhorses in {mn}?
    """,
    "seats": """
        Seats that {cn} put on sale for {mn}?
        How large was {cn}'s offer of seats during {mn}?
        {mn} seat supply at {cn}, in total.
        Add up the seats {cn} had to offer in {mn}.
        How many people could {cn} have flown in {mn} at most?
        What was {cn}'s room for travellers in {mn}?
        {mn}: how many tickets did {cn} have to sell?
        How many chairs were there for {cn}'s customers in {mn}?
    """,
    "passengers": """
        Passenger count of {cn}, {mn}?
        About how many passengers went with {cn} in {mn}?
        {mn} passengers at {cn}: your best figure.
        How large was {cn}'s passenger volume during {mn}?
        How many people travelled with {cn} in {mn}?
        How many travellers boarded {cn} during {mn}, roughly?
        {cn}'s customers on board in {mn}, as a number.
        What was the headcount that {cn} moved in {mn}?
    """,
    "aging": """
        How many times was an aging aircraft sent out by {cn} in {mn}?
        {cn} with aging planes, {mn}: number of flights?
        Count the {mn} flights for which {cn} took an aging plane.
        How much aging equipment did {cn} use in {mn}, in flights?
        How often did {cn} send out one of its old machines in {mn}?
        In {mn}, how many {cn} services were on veteran aircraft?
        {cn}'s trips with elderly equipment during {mn}?
        How many times in {mn} would a {cn} customer have sat in something dated?
    """,
    "makershare": """
        In {mn}, which share of the flying at {cn} went to {fn} planes?
        {fn}'s share at {cn}, {mn}.
        How large is the {fn} part of {cn}'s flying during {mn}?
        Of {cn}'s flying in {mn}, what fraction was by {fn}?
        How important was {fn} to {cn} in {mn}, as a fraction of its work?
        How far did {cn} lean on {fn} equipment in {mn}, as a proportion?
        {mn}: percentage of {cn}'s business that went to {fn} machines.
        By how much did {fn} dominate {cn}'s operation in {mn}?
    """,
    "heavy": """
        How many heavies took off from {on} in {mn}?
        {mn}, {on}: the count of heavy departures.
        Tower statistics for {on}: how many heavy aircraft left in {mn}?
        How much heavy traffic went out of {on} during {mn}, in flights?
        How many of the really big jets set out from {on} in {mn}?
        Large aircraft using the runways of {on} to leave, {mn}: how many?
        {mn}: how often did {on} send off something of size?
        How many wide and roomy machines lifted off at {on} during {mn}?
    """,
    "redeye": """
        Red-eye traffic from {on}, {mn}: how many flights?
        In {mn}, how many red-eyes set off from {on}?
        How many times did a red-eye go out of {on} during {mn}?
        The neighbours of {on} ask: how many red-eyes were there in {mn}?
        How many services were due out of {on} late at night in {mn}?
        Night traffic at {on} in {mn}: number of take-offs planned?
        {mn}: how often would {on} have kept its neighbours awake with take-offs?
        How many sleepless trips began at {on} in {mn}?
    """,
    "peak": """
        How many flights were due to leave {on} at peak time in {mn}?
        {on}'s peak traffic in {mn}, outbound.
        During {mn}, how much left {on} within the peak, in flights?
        Peak load at {on} for {mn}: number of departures.
        How many take-offs fell into the rush hour of {on} during {mn}?
        {on} when it is busiest, {mn}: how many services set out?
        {mn}: how much outbound traffic did {on} have in the crush of the day?
        How many times did {on} send something off in its most crowded hours in {mn}?
    """,
    "shorthop": """
        How often did somebody fly a short hop from {on} in {mn}?
        {mn} short hops, starting at {on}: how many?
        Total of short hops that began at {on} in {mn}.
        How many hops of the short kind went out of {on} during {mn}?
        How many quick trips to places nearby started at {on} in {mn}?
        {on}'s services to the neighbourhood in {mn}, counted.
        {mn}: how many take-offs at {on} were for somewhere close?
        How many journeys out of {on} in {mn} would have been as easy by train?
    """,
    "regular": """
        To how many destinations was there regular service out of {on} in {mn}?
        How many regular destinations did {on} have during {mn}?
        {mn}: number of places that {on} serves regularly.
        Regular network of {on}, {mn}: how many destinations?
        How many cities could one count on reaching from {on} in {mn}?
        How wide was the dependable network of {on} in {mn}, in cities?
        {on}, {mn}: how many airports had more than an occasional connection?
        To how many places did {on} have a steady link in {mn}?
    """,
    "trouble": """
        Where was the trouble worst for flights leaving {on} in {mn}? Three places.
        Top three troubled destinations from {on}, {mn}.
        {mn}: give me the three destinations with the most trouble from {on}.
        From {on}, which 3 destinations gave the most trouble during {mn}?
        Which three routes out of {on} went worst in {mn}?
        Going from {on}, where did things go wrong most in {mn}? List three airports.
        {mn}: three headaches among the routes that begin at {on}.
        What are the three sorest points on {on}'s map for {mn}?
    """,
    "avgdelay": """
        How much delay is typical for somebody flying to {dn} in {mn}?
        {dn} in {mn}: typical delay in minutes.
        The usual figure for delay into {dn}, {mn}, as our house reports it.
        Flights to {dn}, month of {mn}: what delay was typical?
        How late was one normally in {dn} during {mn}?
        By how many minutes did people usually miss their welcome in {dn} in {mn}?
        {mn}: how long past schedule did an ordinary trip to {dn} end?
        If I fetch somebody in {dn} in {mn}, how many minutes shall I expect to wait?
    """,
    "severe": """
        How many times was a flight to {dn} severely delayed in {mn}?
        {mn}: severe delays on the way to {dn}, as a count.
        To {dn} in {mn}: how many flights suffered a severe delay?
        Count severe delay cases for {dn} during {mn}.
        How many services to {dn} were hopelessly late in {mn}?
        How often did a trip to {dn} go badly behind schedule in {mn}?
        {mn}: number of terrible waits among travellers bound for {dn}.
        How many times in {mn} was the evening in {dn} lost to lateness?
    """,
    "mountain": """
        How many mountain flights set off from {on} in {mn}?
        To the mountains from {on} in {mn}: how many flights?
        {mn} traffic between {on} and mountain airports, outbound, in flights.
        From {on}, how often did somebody fly to a mountain airport during {mn}?
        How many services from {on} landed somewhere high up in {mn}?
        {on} to elevated ground in {mn}: how many trips?
        {mn}: how many take-offs at {on} were bound for thin air?
        How many skiers' routes were flown out of {on} in {mn}?
    """,
    "western": """
        How many times did {cn} fly west in {mn}?
        {cn}, {mn}: flights to western destinations.
        How strong was {cn}'s western traffic in {mn}, in flights?
        How many {cn} departures of {mn} went to the western part?
        How many services did {cn} send towards the Pacific side in {mn}?
        {cn}'s trips in the direction of sunset during {mn}?
        {mn}: how often did {cn} head for the far side of the country?
        How many journeys beyond the middle of the map did {cn} make in {mn}?
    """,
    "unreliable": """
        Which 3 airlines should I call unreliable at {on} in {mn}?
        The three airlines that were least reliable out of {on}, {mn}.
        {on} in {mn}: rank the worst three for reliability.
        Reliability was poorest with which three airlines at {on} during {mn}?
        Which three companies should one have avoided at {on} in {mn}?
        Who let people down most at {on} in {mn}? Three names.
        {mn}: the three carriers one could count on least when leaving {on}.
        Whom would you trust least at {on} after {mn}? Give three.
    """,
    "windy": """
        How many hours were windy at {on} in {mn}?
        {on}, {mn}: how many hours with real wind?
        Wind at {on} during {mn}: number of windy hours.
        For how long was it windy at {on} in {mn}, in hours?
        How long did it blow hard at {on} in {mn}?
        {mn}: time with a stiff breeze over {on}, in hours.
        For how much of {mn} would hats have flown off at {on}, in hours?
        How long did gusty weather last over {on} during {mn}?
    """,
    "murky": """
        {on} in {mn}: how many hours were murky?
        How long was {on} murky during {mn}, in hours?
        Murky weather at {on}, {mn}: total hours.
        I need the number of murky hours for {on}, month of {mn}.
        How long could one hardly see across the field at {on} in {mn}?
        {mn}: time that {on} spent in fog or damp, in hours.
        How many hours of poor sight did pilots meet at {on} in {mn}?
        For how long was the air thick at {on} during {mn}?
    """,
    "raindelay": """
        How much delay did rain bring to {on} in {mn}?
        {on}, {mn}: mean rain delay, in minutes.
        When there was rain at {on} in {mn}, what was the delay?
        By how many minutes did the rain delay what left {on} during {mn}?
        How late did services leave {on} when it was wet in {mn}?
        {mn}: how many minutes does a shower cost somebody leaving {on}?
        What did bad weather from above do to the punctuality of {on} in {mn}, in minutes?
        How long did travellers wait at {on} while it poured in {mn}?
    """,
    "roughstart": """
        How many flights had a rough start at {on} during {mn}?
        {on} in {mn}: the count of rough starts.
        How often was the start rough for those leaving {on} in {mn}?
        Rough starts, {mn}, airport {on}: what is the total?
        How many take-offs at {on} were bumpy in {mn}?
        {mn}: how often did one leave {on} against a stiff breeze?
        In {mn}, how many trips from {on} began with a shaking?
        How many times would nervous travellers have held on tight leaving {on} in {mn}?
    """,
}
