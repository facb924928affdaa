"""What the bundled news tells of: sources, and six kinds of event with the claims that reports make about them.

Every sentence is written here; nothing is copied from elsewhere. In claims `{org}` is who the event is about and `{v}`
the value claimed; `{person}`, `{place}`, `{place2}`, `{day}` and `{n}` are drawn for each report.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrag_rl.data.synthetic.events import FIRST_NAMES, LAST_NAMES, PLACES


@dataclass(frozen=True, slots=True)
class Source:
    """A publication.

    Attributes:
        name: As the metadata has it.
        short: Other names that questions call it by; a name that two sources share stands for both.
        category: The one category that it writes about, "" for all.
    """

    name: str
    short: tuple[str, ...] = ()
    category: str = ""


SOURCES = (
    Source("The Harrow Gazette", ("Harrow Gazette",)),
    Source("Kestrel Wire"),
    Source("Ledgerline.com", ("Ledgerline",)),
    Source("TideLine", ("Tide Line",)),
    Source("The Quill"),
    Source("Northbound Weekly"),
    Source("Beacon & Post", ("Beacon and Post",)),
    Source("Palisade: The Magazine Of Cities", ("Palisade",)),
    Source("Morrow News - Business", ("Morrow News",), "business"),
    Source("Morrow News - Technology", ("Morrow News",), "technology"),
    Source("Morrow News - Sport", ("Morrow News",), "sport"),
    Source("The Ostra Courier", ("Ostra Courier",)),
    Source("Signal Nine"),
    Source("The Evening Lantern", ("Evening Lantern",)),
    Source("CopperWire", ("Copper Wire",)),
    Source("Fourth Bell"),
    Source("Selby Live | Local News Around The Clock", ("Selby Live",)),
    Source("Glasshouse Review"),
    Source("The Tarnow Times", ("Tarnow Times",)),
    Source("Orbit And Field", ("Orbit & Field",)),
    Source("Touchline Today", (), "sport"),
    Source("StageDoor", ("Stage Door",), "culture"),
    Source("The Physic Journal", ("Physic Journal",), "health"),
    Source("Marbeck Mercury"),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that reports say of an event, each with a value of its own.

    Attributes:
        about: What it is about, a noun phrase.
        does: The claim as a predicate: "pays {v} for its rival".
        values: What `{v}` may be.
        says: Sentences of an article, without the full stop.
    """

    about: str
    does: str
    values: tuple[str, ...]
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of event.

    Attributes:
        category: Of its articles. noun: What the organisation is. suffixes: Ends of its name.
        titles, leads: Of articles. claims: What may be claimed. background: Other sentences about the organisation.
    """

    category: str
    noun: str
    suffixes: tuple[str, ...]
    titles: tuple[str, ...]
    leads: tuple[str, ...]
    claims: tuple[Claim, ...]
    background: tuple[str, ...]


def _numbers(form: str, numbers: range) -> tuple[str, ...]:
    return tuple(form.format(number) for number in numbers)


_MONTHS = ("February", "April", "June", "July", "August", "October", "November")
_PEOPLE = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES[::3])
_BANKS = tuple(
    f"the {place} {bank}" for place in PLACES[::4] for bank in ("Savings Bank", "Credit Union", "Trust House")
)

KINDS = (
    Kind(
        "business",
        "company",
        ("Mills", "Freight", "Foods", "Timber", "Glass"),
        (
            "{org} takes over its oldest rival",
            "Two become one: {org} makes its move",
            "What {org} wants with the firm next door",
            "Handshake at {place}: {org} signs",
        ),
        (
            "After months of rumours {org} of {place} is taking over its oldest rival, {person} told a packed room.",
            "{org}, a household name in {place}, has agreed to buy the competitor that it fought for decades.",
            "The takeover that nobody in {place} thought possible is on paper: {org} swallows its rival.",
        ),
        (
            Claim(
                "the price that {org} pays for its rival",
                "pays {v} for its rival",
                _numbers("{} million crowns", range(21, 97, 3)),
                (
                    "{org} will hand over {v} for the whole of its rival",
                    "The price agreed on in the end is {v}",
                    "For {v} the rival changes hands",
                ),
            ),
            Claim(
                "the number of jobs that {org} cuts",
                "cuts {v} jobs",
                _numbers("{}", range(120, 980, 35)),
                (
                    "{v} jobs are to go when the two payrolls become one",
                    "{org} means to part with {v} of its people",
                    "The new firm can do without {v} of those who work there now",
                ),
            ),
            Claim(
                "the lender behind {org}",
                "borrows the money from {v}",
                _BANKS,
                (
                    "The money comes from {v}, which asked few questions",
                    "{org} borrowed what it needed from {v}",
                    "It is {v} that has lent the sum",
                ),
            ),
            Claim(
                "the site that {org} gives up",
                "gives up its site in {v}",
                PLACES,
                (
                    "The site in {v} will be given up",
                    "Of the sites, only the one in {v} is to close for good",
                    "{org} leaves {v}, where it has been since its first year",
                ),
            ),
            Claim(
                "the person who is to run {org}",
                "is to be run by {v}",
                _PEOPLE,
                (
                    "At the head of the larger {org} there will be {v}",
                    "{v} is to run both houses from now on",
                    "The owners want {v} at the top",
                ),
            ),
            Claim(
                "the share of owners behind the plan of {org}",
                "has {v} of its owners behind the plan",
                _numbers("{} percent", range(51, 90, 2)),
                (
                    "{v} of the owners have promised their votes",
                    "When hands were counted, {v} of the owners were in favour",
                    "The plan has {v} of the owners behind it",
                ),
            ),
        ),
        (
            "{org} began with a single cart and a borrowed ledger.",
            "The two firms have sued each other over everything, down to the shade of green on their vans.",
            "In {place2}, where {org} keeps its books, the lights burned late that {day}.",
            "Customers of {org} were told to expect the same prices under another roof.",
            "The competition office may still look at what {org} is doing, but has no date for it.",
        ),
    ),
    Kind(
        "technology",
        "start-up",
        ("Labs", "Devices", "Optics", "Systems", "Audio"),
        (
            "{org} shows its headset at last",
            "Hands on with what {org} has built",
            "{org} and the headset that talks back",
            "A first look through the lenses of {org}",
        ),
        (
            "{org}, a start-up from {place}, has shown the headset that it had been promising for two years.",
            "On a bare stage in {place}, {person} of {org} put on the headset and asked it for the time.",
            "The headset of {org} is no longer a drawing: a few dozen were handed round in {place}.",
        ),
        (
            Claim(
                "the price of the headset by {org}",
                "sells its headset for {v}",
                _numbers("{} crowns", range(190, 1190, 40)),
                (
                    "The headset will cost {v}",
                    "{org} asks {v} for it, charger not included",
                    "Those who want one will have to find {v}",
                ),
            ),
            Claim(
                "the battery life that {org} promises",
                "promises {v} on one charge",
                _numbers("{} hours", range(4, 31)),
                (
                    "One charge lasts {v}, if the maker is to be believed",
                    "{org} speaks of {v} before it has to be plugged in again",
                    "The battery is said to be good for {v}",
                ),
            ),
            Claim(
                "the month in which {org} ships its headset",
                "ships its headset in {v}",
                _MONTHS,
                (
                    "The first boxes leave the works in {v}",
                    "{org} has named {v} as the month when it will ship",
                    "Buyers are to have it in their hands in {v}",
                ),
            ),
            Claim(
                "the place where {org} has its lenses ground",
                "has its lenses ground in {v}",
                PLACES,
                (
                    "The lenses are ground in {v}, by a family firm",
                    "For its lenses {org} went to {v}",
                    "It is a workshop in {v} that supplies the lenses",
                ),
            ),
            Claim(
                "the number of orders that {org} has taken",
                "has taken {v} orders",
                _numbers("{} thousand", range(3, 58, 2)),
                (
                    "{v} orders have come in so far",
                    "{org} counted {v} orders and then closed the list",
                    "The order book stands at {v}",
                ),
            ),
            Claim(
                "the complaint that {org} has to answer",
                "has to answer a complaint about {v}",
                (
                    "hidden cameras",
                    "children's voices",
                    "a leaked address book",
                    "eye tracking",
                    "loud alarms",
                    "overheating straps",
                    "borrowed patents",
                    "secret recordings",
                    "a cloned voice",
                    "dizziness",
                ),
                (
                    "There is a complaint about {v}, which the maker has to answer",
                    "{org} will have to explain itself on the matter of {v}",
                    "Trouble is brewing over {v}",
                ),
            ),
        ),
        (
            "{org} is eleven people and a dog in a former bakery.",
            "What the headset of {org} is for was not said in so many words.",
            "A rival in {place2} let it be known that it has had something better in a drawer since {day}.",
            "Testers praised the fit and found the voice of the thing a little smug.",
            "{org} has burnt through two rounds of money and wants a third.",
        ),
    ),
    Kind(
        "sport",
        "club",
        ("Rovers", "Athletic", "Wanderers", "Harriers", "United"),
        (
            "{org} find their striker",
            "A new face in the dressing room of {org}",
            "{org} do business before the window shuts",
            "Why {org} gambled on a number nine",
        ),
        (
            "{org} of {place} have signed the striker whom the stands had been singing about since spring.",
            "With an hour left before the window closed, {person} signed the papers that bring {org} a new striker.",
            "The long wait is over in {place}: {org} have a striker again.",
        ),
        (
            Claim(
                "the fee that {org} pays for its striker",
                "pays a fee of {v} for its striker",
                _numbers("{} thousand crowns", range(150, 990, 35)),
                (
                    "The fee comes to {v}",
                    "{org} had to dig out {v} to get him",
                    "He costs {v}, to be paid in two parts",
                ),
            ),
            Claim(
                "the length of the contract that {org} gives its striker",
                "gives its striker a contract of {v}",
                ("six months", "one season", "two seasons", "three seasons", "four seasons", "five seasons"),
                (
                    "The contract runs for {v}",
                    "{org} tied him down for {v}",
                    "He has put his name to {v}",
                ),
            ),
            Claim(
                "the town that the striker of {org} comes from",
                "fetches its striker from {v}",
                PLACES,
                (
                    "He comes from {v}, where he was top scorer",
                    "{org} got him out of {v} against the will of the crowd there",
                    "It was in {v} that the scouts first saw him",
                ),
            ),
            Claim(
                "the player whom {org} has lost to injury",
                "has lost {v} to injury",
                _PEOPLE,
                (
                    "{v} is out injured and will not play again this year",
                    "He takes the place of {v}, whose knee gave way in training",
                    "{org} needed somebody after {v} was carried off",
                ),
            ),
            Claim(
                "the shirt number that {org} gives its striker",
                "gives its striker the number {v} shirt",
                _numbers("{}", range(7, 60)),
                (
                    "He will wear the number {v}",
                    "The number {v} shirt has been cleared for him",
                    "On his back there will be a {v}",
                ),
            ),
            Claim(
                "the crowd that {org} expects",
                "expects a crowd of {v}",
                _numbers("{} thousand", range(6, 61, 2)),
                (
                    "A crowd of {v} is expected for his first match",
                    "{org} are printing tickets for {v}",
                    "The ground will hold {v} when he runs out",
                ),
            ),
        ),
        (
            "{org} have not won anything since the old stand burnt down.",
            "The coach of {org} likes to play with three at the back and one hand on the touchline.",
            "Training was open to all on {day}, and half of {place2} came.",
            "Supporters of {org} wrote a song before the ink was dry.",
            "The treasurer is said to have looked away while the last page was signed.",
        ),
    ),
    Kind(
        "science",
        "institute",
        ("Institute", "Observatory", "Survey", "Polar Station", "Academy"),
        (
            "{org} comes home from the ice",
            "What {org} found under the glacier",
            "A winter's drilling: {org} unpacks its crates",
            "{org} and the oldest ice in the north",
        ),
        (
            "The expedition of {org} is back in {place} after a winter on the northern glacier.",
            "Bearded and late, the drilling party of {org} stepped ashore at {place} with its crates.",
            "{person} of {org} has spent four months over a hole in the ice, and has something to show for it.",
        ),
        (
            Claim(
                "the depth to which {org} drilled",
                "drilled to a depth of {v}",
                _numbers("{} metres", range(310, 1990, 60)),
                (
                    "The drill went down {v} before it stuck",
                    "At a depth of {v} the party of {org} stopped drilling",
                    "The hole is {v} deep",
                ),
            ),
            Claim(
                "the number of cores that {org} brought home",
                "brought home {v} cores",
                _numbers("{}", range(40, 400, 13)),
                (
                    "{v} cores were brought home in cold boxes",
                    "{org} now has {v} cores to cut up",
                    "In the crates there are {v} cores of ice",
                ),
            ),
            Claim(
                "the money behind the expedition of {org}",
                "has its expedition paid by {v}",
                tuple(
                    f"the {last} {fund}" for last in LAST_NAMES[::4] for fund in ("Foundation", "Bequest", "Lottery")
                ),
                (
                    "The bill was paid by {v}",
                    "Without {v}, said {person}, nobody would have gone",
                    "{org} owes the journey to {v}",
                ),
            ),
            Claim(
                "the find that {org} made in the ice",
                "found {v} in the ice",
                (
                    "volcanic ash",
                    "pollen of palms",
                    "desert dust",
                    "an unknown mould",
                    "soot",
                    "fossil plankton",
                    "grains of gold",
                    "a meteorite",
                    "whale oil",
                    "seeds of barley",
                    "lead",
                    "bird feathers",
                ),
                (
                    "In the deepest core they came upon {v}",
                    "Nobody at {org} had expected to see {v}",
                    "Under the microscope they saw {v}",
                ),
            ),
            Claim(
                "the time that {org} lost to storms",
                "lost {v} to storms",
                _numbers("{} days", range(5, 48)),
                (
                    "Storms cost the party {v}",
                    "For {v} nobody could leave the tents",
                    "{org} lost {v} to the weather",
                ),
            ),
            Claim(
                "the town where {org} keeps its ice",
                "keeps its ice in {v}",
                PLACES,
                (
                    "The ice is kept in {v}, in a former fish store",
                    "{org} has rented cold rooms in {v}",
                    "From the quay the boxes went straight to {v}",
                ),
            ),
        ),
        (
            "{org} has been sending people north for sixty years, and most of them come back.",
            "The ice is older than any writing, and {org} treats it accordingly.",
            "Colleagues in {place2} want to see the figures before they say a word.",
            "The dogs of {org} will stay on the island until {day} week.",
            "How warm the north once was is the question that the cores are to answer.",
        ),
    ),
    Kind(
        "culture",
        "studio",
        ("Pictures", "Films", "Studios", "Playhouse", "Animation"),
        (
            "{org} turns a river novel into film",
            "Lights, mud and rain: {org} finishes its film",
            "{org} bets the house on one film",
            "The film that {org} could not stop making",
        ),
        (
            "{org} has finished the river film that {place} had stopped believing in.",
            "It rained on {person} for a year, and now {org} has a film about a river.",
            "The longest shoot in the history of {org} ended in {place} with cake.",
        ),
        (
            Claim(
                "the cost of the film by {org}",
                "spent {v} on its film",
                _numbers("{} million crowns", range(3, 60, 2)),
                (
                    "The film swallowed {v}",
                    "{org} spent {v} on it, more than on anything before",
                    "When all bills are paid it will have cost {v}",
                ),
            ),
            Claim(
                "the place where {org} shot its film",
                "shot its film in {v}",
                PLACES,
                (
                    "It was shot in {v}, mostly in the rain",
                    "{org} took its cameras to {v}",
                    "The river on the screen is the one at {v}",
                ),
            ),
            Claim(
                "the name of the lead in the film by {org}",
                "gave the leading part to {v}",
                _PEOPLE,
                (
                    "The leading part went to {v}",
                    "{v} is on the screen from the first minute to the last",
                    "{org} would have nobody but {v} for the lead",
                ),
            ),
            Claim(
                "the length of what {org} cut from its film",
                "cut {v} from its film",
                _numbers("{} minutes", range(6, 66, 2)),
                (
                    "{v} were cut after the first showing",
                    "{org} has taken {v} out of it",
                    "On the floor of the cutting room there lie {v}",
                ),
            ),
            Claim(
                "the month in which {org} opens its film",
                "opens its film in {v}",
                _MONTHS,
                (
                    "It opens in {v}",
                    "{org} has booked the big houses for {v}",
                    "The public will see it in {v}",
                ),
            ),
            Claim(
                "the number of tickets that {org} has sold",
                "has sold {v} tickets",
                _numbers("{} thousand", range(11, 120, 4)),
                (
                    "{v} tickets have been sold before anybody has seen it",
                    "{org} says that {v} tickets are gone",
                    "At the tills they have counted {v}",
                ),
            ),
        ),
        (
            "{org} used to make advertisements for soap.",
            "The author of the novel has asked for her name to be left out, and then to be put back.",
            "A choir from {place2} sings over the last scene, recorded on a {day}.",
            "Those who saw an early cut for {org} were sworn to silence and talked at once.",
            "Two boats were lost in the making, one of them on purpose.",
        ),
    ),
    Kind(
        "health",
        "clinic",
        ("Clinic", "Hospital", "Medical Centre", "Infirmary", "Health Trust"),
        (
            "{org} reports on its trial",
            "New hope from {org} for bad sleepers",
            "{org} lets its patients sleep",
            "Does the sleeping drops trial at {org} hold up?",
        ),
        (
            "{org} in {place} has tried out its drops against sleeplessness, and now says how it went.",
            "For a year {person} of {org} has watched other people sleep; the results are in.",
            "The sleep trial of {org} is over, and the beds in {place} are empty again.",
        ),
        (
            Claim(
                "the number of patients whom {org} treated",
                "treated {v} patients",
                _numbers("{}", range(80, 900, 31)),
                (
                    "{v} patients took part to the end",
                    "{org} treated {v} in all",
                    "On the list there are {v} names",
                ),
            ),
            Claim(
                "the side effect that {org} saw",
                "saw {v} as a side effect",
                (
                    "vivid dreams",
                    "hiccups",
                    "a blue tongue",
                    "itching palms",
                    "sudden hunger",
                    "cold feet",
                    "loss of smell",
                    "talking in sleep",
                    "a stiff neck",
                    "sneezing fits",
                    "ringing ears",
                    "dry eyes",
                ),
                (
                    "The one side effect worth a line was {v}",
                    "Some complained of {v}",
                    "{org} noted {v} in a few cases",
                ),
            ),
            Claim(
                "the share of patients whom {org} counts as cured",
                "counts {v} of its patients as cured",
                _numbers("{} percent", range(22, 88, 3)),
                (
                    "{v} slept through the night in the end",
                    "{org} counts {v} as cured",
                    "By its own reckoning the drops helped {v}",
                ),
            ),
            Claim(
                "the town where the drops of {org} are made",
                "gets its drops from a chemist in {v}",
                PLACES,
                (
                    "The drops are made by a chemist in {v}",
                    "{org} gets them from {v}, in brown bottles",
                    "It was in {v} that the recipe was found",
                ),
            ),
            Claim(
                "the time that {org} needs until approval",
                "needs another {v} until approval",
                _numbers("{} months", range(3, 40)),
                (
                    "Approval is another {v} away",
                    "{org} thinks that it needs {v} more",
                    "It will take {v} until a doctor may prescribe them",
                ),
            ),
            Claim(
                "the price of a course at {org}",
                "charges {v} for a course",
                _numbers("{} crowns", range(35, 480, 15)),
                (
                    "A course will cost {v}",
                    "{org} means to charge {v}",
                    "For {v} one gets a bottle and good advice",
                ),
            ),
        ),
        (
            "{org} has nine beds for sleepers and one for the night nurse.",
            "Doctors in {place2} call for a second trial with more old people in it.",
            "Nobody at {org} knew who had got the drops and who sugar water, until {day}.",
            "The ethics board of {org} had asked for an extra form, and got it.",
            "Sleeplessness, the doctors of {org} say, is the commonest thing that nobody dies of.",
        ),
    ),
)

CATEGORIES = tuple(kind.category for kind in KINDS)

# Where a claim comes from: behind its sentence.
TAILS = (
    "",
    ", a spokeswoman said",
    ", according to two people who know of it",
    ", as papers seen by this desk show",
    ", it was confirmed on {day}",
    ", staff were told on {day}",
    ", {person} said in {place2}",
    ", which nobody has denied so far",
    ", as was to be heard in {place2}",
    ", a letter of {day} says",
    ", if {person} is right",
    ", and so it stands in the minutes, too",
    ", insiders say",
    ", so it says in a note to {person}",
)

# What any report may say.
COMMON = (
    "{person} did not want to comment and then did so for half an hour.",
    "Calls to the office in {place2} went unanswered until late on {day}.",
    "There was a smell of wet coats in the room, and coffee for {n}.",
    "Asked about it at the station of {place2}, {person} smiled and boarded the train.",
    "Of {n} people who were asked in the street, most had an opinion and few had heard of it.",
    "A statement of {n} lines was put out on {day} and taken back for a comma.",
    "The mayor of {place2} sent flowers, the opposition a question.",
    "{person}, who has seen many such announcements, advises patience.",
    "None of this was on the agenda that had been handed out on {day}.",
    "In {place2} they are waiting to see who will be the first to ask for more.",
    "The telephone rang {n} times while we were there.",
    "It is a story with more than one beginning, says {person}, and none of them is in {place2}.",
    "A neighbour in {place2} had seen the vans and drawn her own conclusions.",
    "The weather on {day} was too good for a press conference, yet all chairs were taken.",
    "What comes next will be decided behind the closed doors of a hotel in {place2}.",
    "{person} has kept a file on the matter, {n} pages thick and tied with string.",
    "Others tell it in another way, as one would expect.",
    "The lawyers have been busy since {day}, and will be for some time.",
    "{n} letters on the subject reached this desk within a week.",
    "Nobody could say on {day} who had let the news slip.",
)
FOLLOW_UPS = (
    "Since we last wrote of {org}, things have moved on.",
    "There is news of {org}, and some of it does not fit what was said before.",
    "A second look at the story of {org}, now that the dust has settled in {place}.",
)
