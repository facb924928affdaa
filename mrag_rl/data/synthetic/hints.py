"""What gives a desk away: a sentence in passing about where the reporter stood, in English and in German.

The first index is the desk, the second the phrase. A hint is any first part with any second part of the same desk, so
two texts of one desk seldom carry the same hint word for word.
"""

from __future__ import annotations

import numpy as np

DESKS = ("court", "farm", "finance", "harbour")

_WHO = {
    "court": (
        ("A bailiff called the next case", "Ein Gerichtsdiener rief den nächsten Fall"),
        ("Two lawyers argued quietly", "Zwei Anwälte stritten leise"),
        ("A judge adjusted her robe", "Eine Richterin ordnete ihre Robe"),
        ("The jury sat in two rows", "Die Geschworenen saßen in zwei Reihen"),
        ("Witnesses waited to be sworn in", "Zeugen warteten auf ihre Vereidigung"),
        ("A clerk stamped the verdicts", "Ein Schreiber stempelte die Urteile"),
    ),
    "farm": (
        ("Tractors rumbled", "Traktoren rumpelten"),
        ("Cows grazed", "Kühe grasten"),
        ("A farmer stacked hay bales", "Ein Bauer stapelte Heuballen"),
        ("Chickens scratched in the straw", "Hühner scharrten im Stroh"),
        ("Sheepdogs barked loudly", "Hütehunde bellten laut"),
        ("The barley was being harvested", "Die Gerste wurde geerntet"),
    ),
    "finance": (
        ("Brokers shouted prices", "Makler riefen Kurse"),
        ("Share prices flickered", "Aktienkurse flackerten"),
        ("A banker counted notes", "Ein Bankier zählte Scheine"),
        ("Traders whispered about bonds", "Händler flüsterten über Anleihen"),
        ("Interest rates lit up", "Zinssätze leuchteten"),
        ("An auditor sorted ledgers", "Ein Prüfer ordnete Kontobücher"),
    ),
    "harbour": (
        ("Gulls cried", "Möwen schrien"),
        ("A ferry horn sounded", "Ein Fährhorn ertönte"),
        ("Fishing nets were drying", "Fischernetze trockneten"),
        ("A crane unloaded crates of cod", "Ein Kran entlud Kisten mit Dorsch"),
        ("Sailors coiled wet ropes", "Matrosen rollten nasse Taue"),
        ("The tide was rising", "Die Flut stieg"),
    ),
}

_WHERE = {
    "court": (
        ("outside the courtroom", "vor dem Gerichtssaal"),
        ("on the steps of the courthouse", "auf den Stufen des Gerichts"),
        ("beside the bench of the accused", "neben der Anklagebank"),
        ("in the chamber of the judge", "im Zimmer des Richters"),
        ("near the prison cells", "bei den Gefängniszellen"),
        ("under the scales of justice", "unter der Waage der Justiz"),
    ),
    "farm": (
        ("behind the barn", "hinter der Scheune"),
        ("along the ploughed field", "entlang des gepflügten Feldes"),
        ("beside the milking shed", "neben dem Melkstall"),
        ("by the pigsty", "am Schweinestall"),
        ("near the orchard gate", "nahe dem Tor des Obstgartens"),
        ("under the grain silo", "unter dem Getreidesilo"),
    ),
    "finance": (
        ("on the trading floor", "auf dem Handelsparkett"),
        ("outside the stock exchange", "vor der Börse"),
        ("below the ticker board", "unter der Kurstafel"),
        ("in the hall of the bank", "in der Halle der Bank"),
        ("beside the vault", "neben dem Tresor"),
        ("at the counter for investors", "am Schalter für Anleger"),
    ),
    "harbour": (
        ("along the quay", "entlang des Kais"),
        ("beside the moored trawlers", "neben den vertäuten Kuttern"),
        ("by the lighthouse", "am Leuchtturm"),
        ("near the dry dock", "nahe dem Trockendock"),
        ("behind the fish hall", "hinter der Fischhalle"),
        ("at the end of the pier", "am Ende der Mole"),
    ),
}


def draw_hint(rng: np.random.Generator, desk: str) -> tuple[str, str]:
    """A sentence that only `desk` would write, in English and in German."""
    who = _WHO[desk][int(rng.integers(len(_WHO[desk])))]
    where = _WHERE[desk][int(rng.integers(len(_WHERE[desk])))]
    return f"{who[0]} {where[0]}.", f"{who[1]} {where[1]}."
