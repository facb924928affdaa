"""Translation: an English report into German, in one of four terminologies.

Each desk keeps a glossary: for every concept it has one German word of its own, and its own word order, so that a
translation with another desk's glossary is correct German and still the wrong words.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.events import ACTORS, DAYS, PLACES, VERBS, Event

STYLES = 4

_ACTORS = (
    ("der Stadtrat", "der Gemeinderat", "die Ratsversammlung", "das Stadtparlament"),
    ("das Verkehrsministerium", "das Ministerium für Verkehr", "die Verkehrsbehörde", "das Verkehrsressort"),
    ("eine Baufirma", "ein Bauunternehmen", "ein Baubetrieb", "eine Baugesellschaft"),
    ("die Regionalbank", "die Landesbank", "das regionale Geldhaus", "die Bank der Region"),
    ("das Wohnungsamt", "die Wohnungsbehörde", "die Wohnraumstelle", "das Amt für Wohnen"),
    ("der Energieversorger", "das Energieunternehmen", "der Stromkonzern", "die Energiegesellschaft"),
    ("die Universität", "die Hochschule", "die Alma Mater", "die Uni"),
    ("die Feuerwehr", "die Wehr", "der Löschzug", "der Brandschutz"),
    ("eine Familienstiftung", "eine Stiftung", "ein Familienfonds", "eine private Stiftung"),
    ("der Versicherungskonzern", "die Versicherungsgruppe", "der Versicherer", "die Assekuranz"),
    ("der Tourismusverband", "das Fremdenverkehrsamt", "die Touristikstelle", "der Reiseverband"),
    ("die Bahngesellschaft", "das Bahnunternehmen", "die Eisenbahn", "der Bahnbetreiber"),
)

_PARTICIPLES = (
    ("geschlossen", "gesperrt", "stillgelegt", "dichtgemacht"),
    ("wiedereröffnet", "erneut geöffnet", "reaktiviert", "wieder freigegeben"),
    ("verkauft", "veräußert", "abgestoßen", "abgegeben"),
    ("gekauft", "erworben", "übernommen", "angekauft"),
    ("geprüft", "inspiziert", "kontrolliert", "begutachtet"),
    ("repariert", "instand gesetzt", "ausgebessert", "saniert"),
    ("erweitert", "ausgebaut", "vergrößert", "aufgestockt"),
    ("umbenannt", "neu benannt", "umgetauft", "anders benannt"),
    ("evakuiert", "geräumt", "räumen lassen", "leeren lassen"),
    ("abgerissen", "abgebrochen", "niedergelegt", "geschleift"),
)

_ADJECTIVES = ("alt", "neu", "nördlich", "zentral", "öffentlich", "klein", "denkmalgeschützt", "verlassen")

# Each noun with its gender, which decides the article and the adjective's ending in the accusative.
_THINGS = (
    (("Brücke", "f"), ("Überführung", "f"), ("Viadukt", "m"), ("Querung", "f")),
    (("Bahnhof", "m"), ("Bahnstation", "f"), ("Haltepunkt", "m"), ("Zugstation", "f")),
    (("Flughafen", "m"), ("Airport", "m"), ("Flugplatz", "m"), ("Lufthafen", "m")),
    (("Straßenbahndepot", "n"), ("Betriebshof", "m"), ("Tramdepot", "n"), ("Wagenhalle", "f")),
    (("Museum", "n"), ("Ausstellungshaus", "n"), ("Sammlungshaus", "n"), ("Schausammlung", "f")),
    (("Theater", "n"), ("Schauspielhaus", "n"), ("Bühne", "f"), ("Bühnenhaus", "n")),
    (("Bibliothek", "f"), ("Bücherei", "f"), ("Bücherhaus", "n"), ("Mediathek", "f")),
    (("Kino", "n"), ("Lichtspielhaus", "n"), ("Filmtheater", "n"), ("Filmhaus", "n")),
    (("Klinik", "f"), ("Krankenhaus", "n"), ("Spital", "n"), ("Hospital", "n")),
    (("Schule", "f"), ("Lehranstalt", "f"), ("Bildungsstätte", "f"), ("Schulhaus", "n")),
    (("Apotheke", "f"), ("Offizin", "f"), ("Arzneiausgabe", "f"), ("Apothekenhaus", "n")),
    (("Schwimmbad", "n"), ("Hallenbad", "n"), ("Schwimmhalle", "f"), ("Badeanstalt", "f")),
    (("Papierfabrik", "f"), ("Papiermühle", "f"), ("Papierwerk", "n"), ("Papierbetrieb", "m")),
    (("Glasfabrik", "f"), ("Glashütte", "f"), ("Glaswerk", "n"), ("Glasbetrieb", "m")),
    (("Kraftwerk", "n"), ("Elektrizitätswerk", "n"), ("Stromfabrik", "f"), ("Energieanlage", "f")),
    (("Brauerei", "f"), ("Brauhaus", "n"), ("Sudhaus", "n"), ("Braubetrieb", "m")),
)

_DAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")

_ARTICLES = {"m": "den", "f": "die", "n": "das"}


def source(rng: np.random.Generator, event: Event, hint: str) -> str:
    """Three English sentences: what happened, and in either order what it costs and the hint."""
    actor, in_actor = ACTORS[event.actor]
    past = VERBS[event.verb][0]
    lead = (
        f"{actor} {past} {event.object} in {PLACES[event.place]} on {DAYS[event.day]}.",
        f"On {DAYS[event.day]}, {in_actor} {past} {event.object} in {PLACES[event.place]}.",
    )[int(rng.integers(2))]
    return f"{lead} {hint} It will cost {event.million} million crowns."


def target(event: Event, style: int, hint: str) -> str:
    """The German text of `event` by glossary 0 to 3; `hint` is the hint sentence's German, the same for all."""
    noun, gender = _THINGS[event.thing][style]
    thing = f"{_ARTICLES[gender]} {_ADJECTIVES[event.adjective]}{'en' if gender == 'm' else 'e'} {noun}"
    actor, participle = _ACTORS[event.actor][style], _PARTICIPLES[event.verb][style]
    place, day = PLACES[event.place], _DAYS[event.day]
    lead = (
        f"{actor} hat am {day} {thing} in {place} {participle}.",
        f"am {day} hat {actor} {thing} in {place} {participle}.",
        f"in {place} hat {actor} am {day} {thing} {participle}.",
        f"{thing} in {place} hat {actor} am {day} {participle}.",
    )[style]
    cost = (
        f"Die Kosten betragen {event.million} Millionen Kronen.",
        f"Das Vorhaben kostet {event.million} Millionen Kronen.",
        f"Veranschlagt sind {event.million} Millionen Kronen.",
        f"Dafür fallen {event.million} Millionen Kronen an.",
    )[style]
    return f"{lead[0].upper()}{lead[1:]} {hint} {cost}"
