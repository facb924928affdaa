"""The words by which questions speak of quantities: tables for `mrag_rl.filters.numbers`, in four languages.

The tables of bounds are regular expressions in which plain spaces mean nothing and `\\ ` is white space (`pattern`).
"""

from __future__ import annotations

# Before a number
BELOW = r"""
    under | below | (?:less|fewer|lower|smaller|shorter|cheaper|younger|lighter|nearer|closer|faster|quicker)\ than |
    not\ (?:exceeding|reaching) | short\ of | < | unter | unterhalb\ von |
    (?:weniger|kleiner|kürzer|billiger|günstiger|niedriger|leichter|jünger|schneller)\ als | moins\ (?:de|d['’]) |
    (?:moins\ \w+|inférieure?s?|plus\ (?:court|petit|bas|léger|jeune)e?s?)\ (?:à|que|de) | en[\ -]dessous\ de |
    menos\ de | (?:menos\ \w+|más\ (?:barat|cort|pequeñ|baj)[oa]s?)\ (?:que|de) | inferior(?:es)?\ a |
    por\ debajo\ de(?:l)?
"""
AT_MOST = r"""
    at\ (?:the\ )?(?:very\ )?most | up\ to | upto |
    (?:no|not)\ (?:more|longer|higher|greater|larger|bigger|older|later|taller|heavier|dearer)\ than |
    not\ (?:over|above) | (?:not|n['’]t|never|cannot)(?:\ \w+){1,5}\ (?:more|longer|higher|older|later)\ than |
    (?:nicht|kein\w*)(?:\ \w+){1,3}\ (?:mehr|länger|teurer|größer|höher)\ als |
    (?:pas|jamais)(?:\ \w+){1,4}\ plus\ (?:de|d['’]) | no(?:\ \w+){1,4}\ más\ de |
    max(?:imum|\.)?(?:\ of)? | maximal | within | limit(?:ed)?\ (?:of|to) | <= | ≤ | höchstens | bis(?:\ zu)? |
    (?:nicht|kein\w*)\ (?:mehr|länger|teurer|größer|höher)\ als | au\ plus | au\ maximum | maximum | jusqu['’]à |
    (?:pas|sans\ dépasser|ne\ dépass\w+\ pas)(?:\ plus\ (?:de|d['’]))? | como\ (?:máximo|mucho) | máximo(?:\ de)? |
    hasta | no\ (?:más|superior)\ (?:de|a)
"""
ABOVE = r"""
    over | above | super(?:en?|an?|ar)(?:\ los)? | exced\w+\ (?:los|de) | dépass\w+ | überschreite\w* | übersteig\w* |
    more\ often\ than | (?:öfter|häufiger)\ als |
    (?:more|taller|greater|longer|higher|larger|bigger|older|heavier|better|farther|further)\ than |
    exceed(?:s|ing)? | beyond | upwards?\ of | in\ excess\ of | past | > | über | oberhalb\ von |
    (?:mehr|größer|länger|höher|teurer|älter|schwerer|besser)\ als | plus\ (?:de|d['’]) |
    (?:supérieure?s?|plus\ (?:long|grand|haut|cher|vieux|élevé)\w*)\ (?:à|que|de) | au[\ -]dess?us\ de |
    más\ (?:de|que) | más\ (?:larg|grand|car|alt|viej)\w*\ (?:que|de) | superior(?:es)?\ a | por\ encima\ de(?:l)?
"""
AT_LEAST = r"""
    at\ (?:the\ )?(?:very\ )?least | (?:no|not)\ (?:less|fewer|lower|shorter|smaller|below|under)(?:\ than)? |
    min(?:imum|\.)?(?:\ of)? | minimal | starting\ (?:at|from) | from | >= | ≥ | mindestens | ab | wenigstens |
    nicht\ weniger\ als | au\ moins | au\ minimum | à\ partir\ de | dès | al\ menos | por\ lo\ menos | como\ mínimo |
    mínimo(?:\ de)? | desde | a\ partir\ de | no\ menos\ de
"""
ABOUT = r"""
    around | about | roughly | something\ like | approximately | approx\.? | circa | ca\.? | some | nearly |
    almost | close\ to | ~ | ≈ |
    more\ or\ less | plus\ ou\ moins | más\ o\ menos | mehr\ oder\ weniger |
    somewhere\ (?:around|near) | etwa | rund | ungefähr | zirka | knapp | gegen | um\ die | environ |
    (?:aux\ )?alentours\ de | autour\ de | à\ peu\ près | près\ de | un[oa]s | alrededor\ de | aproximadamente |
    cerca\ de | sobre | casi
"""

# After a number and its unit
OR_LESS = r"""
    (?:or|and)\ (?:less|fewer|lower|under|below|shorter|cheaper|smaller|younger|down) | max(?:imum|\.)? | tops |
    at\ (?:the\ )?(?:very\ )?most | oder\ (?:weniger|kürzer|niedriger|darunter|günstiger|billiger) | höchstens |
    maximal | ou\ moins | au\ (?:plus|maximum) | o\ menos | como\ (?:máximo|mucho)
"""
OR_MORE = r"""
    (?:or|and)\ (?:more|higher|greater|above|over|up|upwards?|better|longer|larger|bigger|older|stronger|heavier) |
    plus | upwards? | min(?:imum|\.)? | at\ least | oder\ (?:mehr|höher|länger|besser|größer|darüber) | aufwärts |
    mindestens | ou\ plus | et\ plus | au\ (?:moins|minimum) | o\ más | como\ mínimo | en\ adelante
"""
OR_SO = r"""
    or\ so | or\ thereabouts | give\ or\ take | ish | odd | more\ or\ less | plus\ or\ minus | oder\ so |
    plus\ ou\ moins | más\ o\ menos
"""

BETWEEN = r"between | anywhere\ from | from | zwischen | von | entre | de | del | desde"
TO = r"to | and | until | till | through | up\ to | bis(?:\ zu)? | und | à | et | y | a | al | hasta | - | – | —"

NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "single": 1, "dozen": 12, "dutzend": 12, "douzaine": 12, "docena": 12,
    "eleven": 11, "twelve": 12, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8,
    "neun": 9, "zehn": 10, "elf": 11, "zwölf": 12, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "sept": 7,
    "huit": 8, "neuf": 9, "dix": 10, "onze": 11, "douze": 12, "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5,
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
    "zwanzig": 20, "dreißig": 30, "vierzig": 40, "fünfzig": 50, "vingt": 20, "trente": 30, "quarante": 40,
    "cinquante": 50, "veinte": 20, "treinta": 30, "cuarenta": 40, "cincuenta": 50, "hundred": 100, "hundert": 100,
    "seis": 6, "siete": 7, "ocho": 8, "nueve": 9, "diez": 10, "doce": 12,
}  # fmt: skip
"""Words that are numbers and seldom anything else. "a", "ein", "un" are, before an hour."""

FACTORS = {
    "hundred": 1e2, "hundert": 1e2, "cientos": 1e2,
    "k": 1e3, "thousand": 1e3, "grand": 1e3, "tausend": 1e3, "tsd": 1e3, "mille": 1e3, "mil": 1e3, "m": 1e6, "mn": 1e6,
    "million": 1e6, "millions": 1e6, "mio": 1e6, "millionen": 1e6, "millones": 1e6, "millón": 1e6, "bn": 1e9,
    "billion": 1e9, "milliarde": 1e9, "milliarden": 1e9, "milliard": 1e9, "milliards": 1e9,
}  # fmt: skip

MEASURES = {"hour": ("minute", 60.0), "week": ("day", 7.0), "year": ("month", 12.0), "kilometre": ("metre", 1e3),
            "kilogram": ("gram", 1e3), "metre": ("centimetre", 1e2)}  # fmt: skip
"""Units that a field in a smaller unit understands: the smaller one, and how many of it they have."""
