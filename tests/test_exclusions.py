"""What questions exclude, in 4,104 phrasings of four languages and forty-five corpora: one reading is inverted.

tests/data/exclusions.jsonl was written by language models, in sixteen grids, each before the rules had met it; the one
that wrote the sixth to tenth had seen the rules. All but the twelfth and the sixteenth were then read to mend them; of
these two, only counts were looked at.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.filters import EVERYTHING, Field, FieldVocabulary, RuleExtractor
from mrag_rl.filters.exclusion_words import CUES, FILLERS, NAMING, REQUESTS, entries, pattern
from mrag_rl.filters.language import conditions
from mrag_rl.io import read_jsonl

CORPORA: dict[str, tuple[str, list[str]]] = {
    "news": ("source", ["Wired", "The Verge", "TechCrunch", "Fortune", "BBC News", "Le Monde"]),
    "products": ("brand", ["Samsung", "Bosch", "Lenovo", "Philips", "IKEA"]),
    "law": ("court", ["Second Circuit", "Supreme Court", "Federal Court of Justice", "Ninth Circuit"]),
    "travel": ("airline", ["Lufthansa", "Ryanair", "Air France", "Iberia"]),
    "tickets": ("team", ["Payments", "Mobile Apps", "Platform", "Data Science"]),
    "papers": ("venue", ["NeurIPS", "Nature Medicine", "ICML", "The Lancet", "ACL Findings"]),
    "recipes": ("author", ["Jamie Oliver", "Ottolenghi", "Nigella Lawson", "Tim Mälzer"]),
    "hotels": ("chain", ["Hilton", "Marriott", "Ibis", "Meliá"]),
    "games": ("publisher", ["Nintendo", "Ubisoft", "Electronic Arts", "Devolver Digital"]),
    "contracts": ("supplier", ["Siemens", "Acme Tools", "Bosch Rexroth", "Nordwind Logistik"]),
    "podcasts": ("show", ["Radiolab", "Freakonomics", "Hard Fork", "Zeit Verbrechen", "Affaires Sensibles"]),
    "jobs": ("company", ["Airbus", "SAP", "Carrefour", "Santander", "Spotify"]),
    "wines": ("winery", ["Antinori", "Torres", "Louis Jadot", "Penfolds"]),
    "bugs": ("component", ["Checkout", "Search API", "Login Service", "Report Builder"]),
    "streaming": ("platform", ["Netflix", "Disney Plus", "Mubi", "Paramount Plus", "Arte"]),
    "buses": ("operator", ["Flixbus", "Megabus", "Eurolines", "Ouibus", "National Express"]),
    "software": ("vendor", ["Adobe", "Oracle", "JetBrains", "Atlassian", "Red Hat"]),
    "films": ("genre", ["Horror", "Western", "Musical", "Thriller", "Anime"]),
    "groceries": ("maker", ["Nestlé", "Danone", "Barilla", "Kellogg's", "Mondelez"]),
    "shoes": ("brand", ["Adidas", "Puma", "Birkenstock", "Salomon", "Camper"]),
    "banks": ("bank", ["Revolut", "Barclays", "Commerzbank", "BNP Paribas"]),
    "music": ("genre", ["Techno", "Jazz", "Reggaeton", "Opera", "Country"]),
    "delivery": ("carrier", ["DHL", "UPS", "FedEx", "Hermes"]),
    "museums": ("museum", ["Prado", "Louvre", "Tate Modern", "Albertina"]),
    "carriers": ("network", ["Vodafone", "Orange", "Telekom"]),
    "dishes": ("dish", ["Sushi", "Pizza", "Ramen", "Tapas", "Curry"]),
    "cars": ("make", ["Tesla", "Renault", "Opel", "Toyota", "Fiat"]),
    "authors": ("author", ["Stephen King", "Isabel Allende", "Dan Brown", "Michel Houellebecq"]),
    "coding": ("language", ["Python", "Java", "Rust", "PHP"]),
    "trips": ("city", ["Porto", "Valencia", "Bergen", "Riga", "Dublin"]),
    "classes": ("sport", ["Yoga", "Tennis", "Judo", "Golf", "Padel"]),
    "beers": ("brewery", ["Guinness", "Heineken", "Corona", "Peroni"]),
    "tasks": ("assignee", ["Maria Lopez", "Tom Becker", "Aisha Khan"]),
    "files": ("format", ["PDF", "CSV", "XML", "JSON"]),
    "rooms": ("room", ["Orchid", "Magnolia", "Lotus"]),
    "couriers": ("courier", ["Yodel", "Evri"]),
    "banknotes": ("lender", ["Barclays", "Santander"]),
    "shows": ("series", ["Dexter", "Fargo"]),
    "plants": ("genus", ["Lantana", "Thuja", "Hosta", "Wisteria"]),
    "drills": ("maker", ["Makita", "DeWalt", "Stihl", "Einhell"]),
    "rulings": ("judge", ["Okafor", "Whitlock", "Brennan", "Marsh"]),
    "conferences": ("conference", ["SIGIR", "EMNLP", "CHI", "KDD"]),
    "tours": ("country", ["Iceland", "Morocco", "Vietnam", "Peru"]),
    "queues": ("queue", ["Billing", "Onboarding", "Security", "Warehouse"]),
    "laws": ("agency", ["European Commission", "Environment Agency", "Federal Trade Commission", "Bundeskartellamt"]),
}
# (grid, kind): questions, and at least so many that are read right; none is inverted, but for those of `INVERTED`
BOUNDS = {
    (1, "exclusion"): (585, 502),
    (1, "control"): (170, 86),
    (2, "exclusion"): (304, 203),
    (2, "control"): (102, 49),
    (3, "exclusion"): (225, 156),
    (3, "control"): (70, 34),
    (3, "plain"): (110, 93),
    (4, "exclusion"): (290, 188),
    (4, "control"): (90, 40),
    (5, "exclusion"): (240, 161),
    (5, "control"): (58, 20),
    (6, "exclusion"): (300, 85),
    (6, "control"): (80, 20),
    (6, "plain"): (100, 83),
    (7, "exclusion"): (150, 31),
    (7, "control"): (40, 12),
    (7, "plain"): (60, 46),
    (8, "exclusion"): (147, 19),
    (8, "control"): (40, 6),
    (8, "plain"): (60, 43),
    (9, "exclusion"): (144, 24),
    (9, "plain"): (39, 31),
    (10, "exclusion"): (100, 19),
    (11, "exclusion"): (60, 47),
    (12, "exclusion"): (60, 40),
    (13, "exclusion"): (120, 76),
    (14, "exclusion"): (93, 53),
    (14, "control"): (37, 13),
    (15, "exclusion"): (97, 67),
    (15, "control"): (33, 12),
    (16, "exclusion"): (75, 35),
    (16, "control"): (25, 5),
}
INVERTED = {(12, "exclusion"): 1}


@cache
def extractor(corpus: str) -> RuleExtractor:
    name, values = CORPORA[corpus]
    return RuleExtractor(FieldVocabulary({name: Field(name, "string", dict.fromkeys(values, 2))}))


def judged(row: dict[str, Any]) -> str:
    """How a question was read: right; left out, at least in part; or inverted, where what is to be excluded is searched
    for or the other way round. Values of the same field are not excluded beside others that are searched for."""
    (extraction,) = extractor(row["schema"]).extract([row["text"]])
    named: set[object] = set()
    barred: set[object] = set()
    for condition in conditions(extraction.filter):
        (named if condition.operator == "$in" else barred).update(condition.values)
    excluded, included = set(row["excluded"]), set(row["included"])
    if named & excluded or barred & included:
        return "inverted"
    assert named <= included and barred <= excluded  # nothing else is in the questions
    right = named == included if included else barred == excluded
    assert right or extraction.filter == EVERYTHING or extraction.dropped or included or len(excluded) > 1
    return "right" if right else "left out"


@cache
def counts() -> dict[tuple[int, str], Counter[str]]:
    rows = [row for _, row in read_jsonl(Path(__file__).parent / "data" / "exclusions.jsonl")]
    assert len({(row["schema"], row["text"]) for row in rows}) == len(rows)
    by_grid: dict[tuple[int, str], Counter[str]] = {}
    for row in rows:
        by_grid.setdefault((row["grid"], row["kind"]), Counter())[judged(row)] += 1
    return by_grid


@pytest.mark.parametrize(("grid", "kind"), BOUNDS)
def test_exclusions_are_read_or_left_out(grid: int, kind: str) -> None:
    found, (total, right) = counts()[grid, kind], BOUNDS[grid, kind]
    assert found.total() == total and found["right"] >= right, found
    assert found["inverted"] <= INVERTED.get((grid, kind), 0), found


# With words that no language has, in the place of verbs, prepositions and adjectives that reject
UNKNOWN = [
    "Zorp Samsung, what else is there?",
    "a television that zorps Samsung",
    "a television which zorps anything Samsung makes",
    "who disagrees with Samsung?",
    "Which televisions are there when Samsung is closed?",
    "everything Samsung made is zorp, what else is there?",
    "televisions zorp Samsung",
    "televisions zorping Samsung",
    "show televisions, zorp the Samsung ones",
    "I zorp Samsung. Which televisions are there?",
    "I would zorp Samsung",
    "I have zorped Samsung, which televisions remain?",
    "my wife zorps Samsung, show televisions",
    "Samsung zorps me, show televisions",
    "Samsung zorps, show televisions",
    "televisions, Samsung zorped",
    "televisions, Samsung to the zorp",
    "televisions that are zorp to Samsung",
    "televisions with the zorp of Samsung",
    "televisions in zorp of Samsung",
    "zorp of Samsung, show televisions",
    "zorp anything by Samsung",
    "zorp me Samsung, please",
    "Samsung? Zorp. Which televisions are there?",
    "Samsung, that is zorp, show televisions",
    "zorp-Samsung televisions",
    "Samsung-zorp televisions",
    "televisions as long as Samsung zorps",
    "the boss has zorped Samsung, which televisions?",
    "anybody who zorps Samsung",
    "🚫 Samsung",
    "Zorpe Samsung, was gibt es sonst?",
    "Fernseher zorp Samsung",
    "Ich zorpe Samsung, welche Fernseher gibt es?",
    "Samsung möchte ich zorpen",
    "bitte Samsung zorpen",
    "Der Chef hat Samsung gezorpt, welche Fernseher?",
    "Fernseher unter Zorpung von Samsung",
    "Fernseher, um Samsung herum",
    "Zorpe Samsung et montre les téléviseurs",
    "des téléviseurs zorpant Samsung",
    "On a zorpé Samsung, quels téléviseurs ?",
    "je zorpe Samsung, quels téléviseurs ?",
    "téléviseurs en zorp de Samsung",
    "Samsung, c'est zorpé, quels téléviseurs ?",
    "Zorpa Samsung y enseña televisores",
    "televisores zorpando Samsung",
    "Samsung me zorpa, ¿qué televisores hay?",
    "televisores a zorp de Samsung",
    "al jefe le zorpa Samsung, ¿televisores?",
]


@pytest.mark.parametrize("question", UNKNOWN)
def test_a_word_that_nobody_knows_may_reject(question: str) -> None:
    (extraction,) = extractor("products").extract([question])
    assert extraction.filter == EVERYTHING
    assert not extraction.dropped or "whether it is named or excluded is not clear" in extraction.dropped[0]


@pytest.mark.parametrize(
    "question",
    ["zorps under 500 euros by Samsung", "Did Samsung ever zorp them?", "televisions sold by Samsung since 2021",
     "zapatillas Samsung por menos de 500 euros", "Fernseher von Händler Samsung", "the Samsung televisions",
     "televisions by Samsung", "Show me a zorp Samsung television", "Is Samsung any good?",
     "I want to buy Samsung", "What has Samsung zorped?", "televisions about zorps by Samsung", "¿Qué zorpa Samsung?",
     "Was zorpt Samsung?", "Which zorp Samsung televisions are there?", "not Philips but Samsung",
     "Je ne veux que du Samsung", "Only Samsung, no Philips"],
)  # fmt: skip
def test_what_speaks_for_a_mention_lets_unknown_words_stand(question: str) -> None:
    (extraction,) = extractor("products").extract([question])
    assert {value for c in conditions(extraction.filter) if c.operator == "$in" for value in c.values} == {"Samsung"}


@pytest.mark.parametrize(
    "question",
    ["Kein Tag ohne Samsung, was ist neu?", "Without Samsung I get bored, what is new?", "Wer mag kein Samsung? Alle!",
     "Habt ihr kein Samsung mehr? Zeigt es.", "You haven't shown me Samsung yet, what is there?",
     "Je ne me lasse pas de Samsung", "I've never used Samsung, what is there?", "Does nobody repair except Samsung?",
     "¿No es Samsung la más barata? Enséñala", "Hatten wir nicht Samsung bestellt?"],
)  # fmt: skip
def test_a_negation_that_wants_the_value_excludes_nothing(question: str) -> None:
    (extraction,) = extractor("products").extract([question])
    assert all(condition.operator == "$in" for condition in conditions(extraction.filter))


def test_a_run_of_fillers_is_read_in_one_way_only() -> None:
    """With two ways for each word, the time would double with every further one."""
    alternatives = [re.compile(entry, re.IGNORECASE) for entry in entries(FILLERS)]
    texts = " ".join(row["text"] for _, row in read_jsonl(Path(__file__).parent / "data" / "exclusions.jsonl"))
    own = re.sub(r"\\[sw]|[+*?]|\(\?:|\[\w+\]", "", "|".join(entries(FILLERS)))
    words = {
        *re.findall(r"\w+", texts),
        *re.findall(r"\w+", own),
        "text",
        "texts",
        "issues",
        "issue",
        "texten",
        "las",
        "unos",
    }
    twice = {word for word in words if sum(bool(part.fullmatch(word)) for part in alternatives) > 1}
    assert len(words) > 2000 and not twice
    started = time.perf_counter()
    for word in ("issued ", "issues ", "text ", "the ", "de "):
        extractor("products").extract([f"not {word * 15}x Samsung. " * 60])
    assert time.perf_counter() - started < 5


def test_entries_grouped_by_their_letters_match_what_they_did() -> None:
    texts = [row["text"] for _, row in read_jsonl(Path(__file__).parent / "data" / "exclusions.jsonl")]
    for table in (CUES, FILLERS, NAMING, REQUESTS):
        grouped, plain = (
            re.compile(rf"(?<!\w)(?:{expression})(?!\w)", re.IGNORECASE)
            for expression in (pattern(table), "|".join(entries(table)))
        )
        starts = [[[match.start() for match in rule.finditer(text)] for rule in (grouped, plain)] for text in texts]
        assert any(mine for mine, _ in starts) and all(mine == others for mine, others in starts)


def test_what_is_in_doubt_is_reported() -> None:
    (extraction,) = extractor("products").extract(["Which customers never liked Samsung?"])
    assert extraction.filter == EVERYTHING
    assert extraction.dropped == ("'Samsung': whether it is named or excluded is not clear",)
