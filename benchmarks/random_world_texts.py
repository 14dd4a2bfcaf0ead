"""What the random worlds talk about: eight domains, each with thirty names and six topics in four wordings.

A wording is a whole sentence with ``{e}`` for the name; the four of a topic share as few words as people's do. Frames
around them make ten wordings of a topic.
"""

# ruff: noqa: E501
from __future__ import annotations

FRAMES = ("{t}", "Hi, {t}, what should I do?", "A question from the team: {t}")
# what a note advises; the numbers in it are what tells two answers apart
ADVICE = (
    "use procedure {n} and confirm with code {m}", "set the second option to {n}, then {m}", "file form {n} under {m}",
    "apply rule {n}, limit {m}", "call desk {n} and give reference {m}", "choose profile {n} before step {m}",
)  # fmt: skip
OVERVIEW = ("what to know about {e}", "{e}: notes", "facts on {e}", "{e} preferences")

DOMAINS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "devices": (
        "tablet,headset,printer,router,laptop,scanner,projector,smartwatch,keyboard,webcam,monitor,speaker,doorbell,"
        "thermostat,e-reader,camera,drone,console,television,soundbar,dishwasher,toaster,hearing aid,baby monitor,"
        "treadmill,lawn mower,coffee machine,vacuum robot,air purifier,electric bike",
        (
            ("the {e} does not connect to wifi", "{e} won't go online", "no network on my {e}", "my {e} lost its internet"),
            ("the {e} does not switch on", "{e} stays dark when I press power", "dead {e}, no lights at all", "nothing happens when starting the {e}"),
            ("the {e} makes a strange noise", "{e} is rattling", "odd buzzing sound from the {e}", "my {e} hums loudly all day"),
            ("how do I reset the {e}", "{e}: back to factory settings", "erase everything on my {e} and begin anew", "restore the {e} to its original state"),
            ("the battery of the {e} drains fast", "{e} runs out of charge in an hour", "my {e} needs the cable all the time", "power does not last on the {e}"),
            ("return the {e} for a refund", "I want my money back for the {e}", "send back a {e} that I bought", "undo my order of the {e}"),
        ),
    ),
    "airlines": (
        "Lufthansa,Delta,Emirates,Qantas,Ryanair,Iberia,Finnair,KLM,Avianca,Etihad,Turkish Airlines,Air Canada,Jet2,LOT,"
        "Aeromexico,Swiss,SAS,EasyJet,Air India,ANA,Korean Air,Vueling,TAP,Azul,LATAM,Icelandair,Wizz Air,Norwegian,"
        "Cathay Pacific,Southwest",
        (
            ("checked baggage allowance with {e}", "how heavy may my suitcase be on {e}", "luggage limit flying {e}", "kilos permitted in the hold, {e}"),
            ("change the date of a {e} ticket", "move my {e} flight to another day", "rebooking with {e}", "postpone a trip booked at {e}"),
            ("travel with a dog on {e}", "can a pet come into the cabin of {e}", "taking an animal aboard {e}", "my cat flies along, {e}"),
            ("compensation for a delayed {e} flight", "{e} was five hours late, what am I owed", "claim money from {e} after a long wait", "late arrival with {e}: my rights"),
            ("child alone on a {e} flight", "unaccompanied minor, {e}", "my daughter of nine travels by herself with {e}", "{e} service for kids without parents"),
            ("choose a seat with {e}", "reserve a window place on {e}", "sit together on our {e} plane", "{e} seating before departure"),
        ),
    ),
    "customers": (
        "Meyer,Okafor,Tanaka,Svensson,Rossi,Haddad,Kowalski,O'Brien,Nguyen,Petrova,Silva,Cohen,Dubois,Larsen,Kaur,"
        "Novak,Mensah,Ibrahim,Schulz,Castillo,Yilmaz,Park,Johansson,Bianchi,Owusu,Fischer,Ramirez,Singh,Lindqvist,Moreau",
        (
            ("prepare the monthly report for {e}", "{e} wants the figures of last month", "summary of results to send {e}", "write up the numbers for client {e}"),
            ("schedule a call with {e}", "when may I phone {e}", "find a time to talk to {e}", "set up a meeting, {e}"),
            ("draft an invoice for {e}", "bill {e} for our work", "{e} has to be charged", "payment request to {e}"),
            ("answer the complaint of {e}", "{e} is unhappy with us", "reply to an angry letter from {e}", "smooth things over with {e}"),
            ("renew the contract of {e}", "{e}: agreement ends soon", "extend our terms with {e}", "new deal for another year, {e}"),
            ("ship the order of {e}", "send the goods to {e}", "delivery for {e}", "dispatch a parcel, recipient {e}"),
        ),
    ),
    "languages": (
        "Python,Rust,Go,Java,Kotlin,Swift,Haskell,Scala,Ruby,Perl,Julia,Lua,Erlang,Elixir,Clojure,Fortran,Ada,COBOL,"
        "TypeScript,Dart,Zig,Nim,OCaml,Prolog,MATLAB,PHP,Groovy,Crystal,Scheme,Pascal",
        (
            ("read a file line by line in {e}", "{e}: loop over the rows of a text document", "stream a big log with {e}", "go through input lines using {e}"),
            ("parse JSON in {e}", "decode a web response with {e}", "{e}: turn a JSON string into an object", "get fields out of a payload, {e}"),
            ("run tests in {e}", "{e}: how do I start the unit tests", "check my code automatically with {e}", "execute the test suite, {e} project"),
            ("sort a list by a key in {e}", "order records by one field, {e}", "{e}: arrange items by date", "put elements into sequence using {e}"),
            ("start a thread in {e}", "{e} concurrency", "do two things at once in {e}", "background work with {e}"),
            ("format a date in {e}", "{e}: print a timestamp nicely", "show day and month as text, {e}", "calendar value to string with {e}"),
        ),
    ),
    "countries": (
        "Norway,Brazil,Japan,Kenya,Canada,Portugal,Vietnam,Mexico,Poland,Egypt,Chile,Greece,Ireland,Thailand,Ghana,"
        "Austria,Peru,Morocco,Finland,India,Croatia,Turkey,Estonia,Uruguay,Malaysia,Denmark,Nepal,Spain,Oman,Iceland",
        (
            ("VAT rate for services in {e}", "how much sales tax do we add in {e}", "tax on our consulting, customer in {e}", "{e}: levy on invoices"),
            ("visa for a business trip to {e}", "may our engineer enter {e} without papers", "travel permit, {e}", "documents needed at the border of {e}"),
            ("public holidays in {e}", "when is the office in {e} closed", "days off for staff in {e}", "{e}: national feast days"),
            ("parental leave in {e}", "a colleague in {e} expects a baby", "time off for new mothers and fathers, {e}", "{e}: rules for young parents"),
            ("import duty on samples to {e}", "customs for a package to {e}", "ship test parts into {e}", "what does {e} charge at entry"),
            ("notice period in {e}", "end an employment in {e}", "how long before a worker in {e} may leave", "resigning, office {e}"),
        ),
    ),
    "machines": (
        "press 1,press 2,press 3,press 4,lathe 7,lathe 8,lathe 17,line A,line B,line C,mill 21,mill 22,robot R2,robot R3,"
        "oven 5,oven 6,oven 15,saw 11,saw 12,mixer M1,mixer M7,crane 3,crane 4,pump P10,pump P11,boiler K1,boiler K2,"
        "packer 31,packer 32,dryer 9",
        (
            ("{e} stops with error 40", "alarm forty on {e}", "fault code 40 shown at {e}", "{e} halted, display says E40"),
            ("change the tool of {e}", "swap the cutting head, {e}", "{e}: new insert needed", "replace what is worn on {e}"),
            ("{e} runs too hot", "temperature of {e} is high", "overheating, {e}", "{e} is above its thermal limit"),
            ("start {e} after a shift", "bring {e} back up in the morning", "{e}: power on sequence", "how to wake {e}"),
            ("lubricate {e}", "oil for {e}", "grease the bearings of {e}", "{e} needs its weekly service"),
            ("calibrate {e}", "{e} measures wrong", "zero the sensors on {e}", "adjust the reading of {e}"),
        ),
    ),
    "ingredients": (
        "chickpeas,rice,lentils,salmon,beef brisket,pumpkin,beetroot,quinoa,tofu,duck breast,artichokes,barley,mussels,"
        "polenta,venison,asparagus,black beans,pork belly,cod,millet,leeks,oats,lamb shank,squid,fennel,turkey,kale,"
        "buckwheat,prawns,parsnips",
        (
            ("how long to cook {e}", "minutes on the stove for {e}", "when are {e} done", "boiling time, {e}"),
            ("store leftover {e}", "keep cooked {e} fresh", "{e} in the fridge overnight", "does {e} last until Friday"),
            ("season {e}", "spices that go with {e}", "which herbs for {e}", "give {e} more flavour"),
            ("thaw frozen {e}", "{e} straight from the freezer", "defrosting, {e}", "get the ice out of {e}"),
            ("make a sauce for {e}", "what to pour over {e}", "gravy to serve with {e}", "something creamy beside {e}"),
            ("buy good {e}", "choose {e} at the market", "how do I know fresh {e}", "signs of quality, {e}"),
        ),
    ),
    "warehouse tables": (
        "orders,invoices,customers,shipments,returns,suppliers,payments,products,stores,employees,contracts,visits,"
        "subscriptions,refunds,leads,campaigns,sessions,devices,tickets,surveys,prices,budgets,stocks,routes,claims,"
        "policies,branches,loans,deposits,transfers",
        (
            ("count active rows in {e}", "how many {e} are live", "number of open {e}", "{e} that still count today"),
            ("join {e} to regions", "{e} by area", "split the {e} by territory", "where do our {e} come from"),
            ("monthly growth of {e}", "{e} compared with the month before", "trend of {e}", "how fast do {e} increase"),
            ("find duplicates in {e}", "{e} that were entered twice", "double records, {e}", "clean repeated {e}"),
            ("late {e}", "{e} past their due date", "overdue {e} of this quarter", "which {e} missed the deadline"),
            ("average value of {e}", "mean amount, {e}", "what is one of the {e} worth", "typical size of {e}"),
        ),
    ),
}  # fmt: skip


def names(domain: str) -> list[str]:
    """The thirty names of a domain."""
    return DOMAINS[domain][0].split(",")


def wording(domain: str, topic: int, which: int, name: str) -> str:
    """One of ten wordings (0 to 9) of a topic, about a name."""
    texts = DOMAINS[domain][1][topic]
    sentence = texts[which % len(texts)].format(e=name)
    return FRAMES[which // len(texts)].format(t=sentence)
