"""Words for what boolean fields often say, in English, German, French and Spanish, without accents.

Each row has a regular expression for the names of fields (with spaces for underscores), one for what says that they
hold, and one for what says that they do not. Plain spaces mean nothing in the last two (`exclusion_words.pattern`).
"""

from __future__ import annotations

FLAGS: tuple[tuple[str, str, str], ...] = (
    (r"pet safe|non toxic|safe for pets",
     r"(?:safe|harmless)\ for\ (?:\w+\ (?:and|or)\ )?(?:pets|cats|dogs|animals) | non-?toxic | ungiftig\w* | "
     r"(?:sicher|unbedenklich)\ fur\ (?:haustiere|hunde|katzen) | "
     r"sans\ danger\ pour\ (?:les\ )?(?:animaux|chats|chiens) | "
     r"non\ toxiques? | segur[oa]s?\ para\ (?:las\ |los\ )?(?:mascotas|perros|gatos|animales)",
     r"(?<!non-)(?<!non\x20)toxic | (?<!un)giftig\w* | (?<!non\x20)toxiques? | toxic[oa]s?"),
    (r"(?:pets?|dogs?|animals)(?! safe)",
     r"(?:(?<!to\x20)dog|pet|(?<!to\x20)animal)s?(?:[-\ ]friendly)? | pupp(?:y|ies) | pooch(?:es)? | four-legged | "
     r"labrador | terrier | poodle | (?:haus)?tieren? | hunden? | animaux | chiens? | mascotas? | perros?", ""),
    (r"outdoors?|open air",
     r"outdoors? | open[-\ ]?air | (?:im|unter\ freiem)\ (?:freien|himmel) | drau(?:ß|ss)en | (?:en\ )?plein\ air | "
     r"al\ aire\ libre | exterior(?:es)?",
     r"indoors? | drinnen | in\ (?:der\ halle|innenraumen) | en\ salle | a\ l['’]interieur | bajo\ techo | "
     r"(?:en\ )?interiores | a\ cubierto"),
    (r"indoors?",
     r"indoors? | drinnen | in\ der\ halle | en\ salle | a\ l['’]interieur | bajo\ techo | a\ cubierto",
     r"outdoors? | open[-\ ]?air | im\ freien | drau(?:ß|ss)en | (?:en\ )?plein\ air | al\ aire\ libre"),
    (r"online|virtual",
     r"online | virtual\w* | virtuell\w* | en\ ligne | a\ distance | en\ linea | a\ distancia",
     r"on[-\ ]?site | in[-\ ]person | vor\ ort | en\ presentiel | presencial\w*"),
    (r"remote|remote work|home office|telework",
     r"remote(?:ly)? | home[-\ ]?office | from\ home | von\ zu\ hause | teletravail | a\ distance | teletrabajo | "
     r"remot[oa]s? | a\ distancia",
     r"on[-\ ]?site | in\ the\ office | vor\ ort | en\ presentiel | presencial\w*"),
    (r"organic", r"organic | bio(?![\w.]) | bio-\w+ | biologi(?:que|sch)\w* | okologisch\w* | ecologic[oa]s? | "
     r"organic[oa]s?",
     r"conventional(?:ly)? | konventionell\w*"),
    (r"automatic(?: gearbox| transmission)?",
     r"automatic | automatik\w* | boite\ auto\w* | (?:cambio\ )?automatic[oa]s?",
     r"manual(?:\ (?:box|gearbox|transmission))? | schalt(?:getriebe|wagen) | boite\ manuelle | cambio\ manual"),
    (r"gluten free", r"gluten-?\ ?free | glutenfrei\w* | sans\ gluten | sin\ gluten | celiac\w* | coeliac\w*", ""),
    (r"vegan", r"vegan\w* | plant[-\ ]based | pflanzlich\w* | vegetalien\w*", ""),
    (r"vegetarian", r"vegetari\w+ | vegetarisch\w* | meatless | meat-free | fleischlos\w* | sans\ viande | "
     r"sin\ carne", ""),
    (r"terrace|patio", r"terrac\w+ | terrass\w* | terraza\w* | patios?", ""),
    (r"balcony", r"balcon\w* | balkon\w*", ""),
    (r"garden", r"gardens? | garten | jardins? | jardin\w*", ""),
    (r"parking|garage|car park",
     r"parking | car\ park | garages? | parkplatz\w* | parkplatze | stellplatz\w* | aparcamiento | "
     r"estacionamiento | garaje", ""),
    (r"lift|elevator", r"lift | elevator | aufzug | fahrstuhl | ascenseur | ascensor", ""),
    (r"furnished", r"furnished | mobliert\w* | meuble\w* | amueblad\w+",
     r"unfurnished | unmobliert\w* | non\ meuble\w* | sin\ (?:amueblar|muebles)"),
    (r"breakfast", r"breakfast | fruhstuck\w* | petit[-\ ]dejeuner | desayunos?", ""),
    (r"wi ?fi|internet", r"wi-?fi | wlan | internet", ""),
    (r"pool|swimming pool", r"pools? | swim(?:ming)?(?!\w) | schwimm\w+ | piscines? | nager | "
     r"piscinas? | nadar", ""),
    (r"smoking", r"smok\w+ | rauch\w* | fumeurs? | fumador\w*", ""),
    (r"(?:wheelchair )?accessible|wheelchair|step free",
     r"wheelchairs? | step-?free | accessible | barrierefrei\w* | rollstuhl\w* | fauteuil\ roulant | "
     r"silla\ de\ ruedas | accesibles?",
     ""),
    (r"(?:kids?|child|children|family)(?: friendly)?",
     r"(?:kid|child|family)-?\ ?friendly | (?:kinder|familien)(?:freundlich|geeignet)\w* | "
     r"(?:for|suits?|suitable\ for|fur|pour|para)\ "
     r"(?:the\ |les\ |los\ )?(?:families|kids|children|kinder|familien|enfants|familles|ninos|familias)",
     ""),
    (r"(?:bookings?|reservations?|bookable)", r"book(?:ed|ing|ings)? | reserv\w+",
     r"walk-?ins?\ only | no\ (?:bookings|reservations)"),
    (r"returns?(?: accepted| allowed| possible)?|returnable|right of return",
     r"return(?:ed|able|s)? | (?:send|sent|give|take|bring)(?:\ \w+){0,2}\ back | money\ back | refund\w* | "
     r"zuruckgeb\w* | zuruck(?:zu)?(?:schicken|senden|geben) | ruckgabe\w* | umtausch\w* | renvoy\w+ | retours? | "
     r"(?:retourner|rendre) | devol\w+ | devuelv\w+",
     r"final\ sale | no\ returns? | non-?\ ?returnable | ohne\ ruckgabe\w* | vom\ umtausch\ ausgeschlossen | "
     r"ni\ repris\w*\ ni\ echang\w* | sin\ devoluci\w+"),
    (r"(?:has |with )?dissent(?:s|ing)?(?: opinion)?",
     r"dissent\w* | split\ (?:bench|court|panel|decision)s? | "
     r"(?:bench|court|panel)\ (?:was|were|is)\ (?:split|divided) | "
     r"(?:divided|split)\ (?:vote|court) | disagree\w*\ with\ the\ (?:majority|others|rest) | "
     r"(?:nicht|un)einstimmig\w* | "
     r"abweichende\w*\ (?:meinung|votum|ansicht)\w* | sondervot\w+ | minderheitsvot\w+ | opinions?\ dissidentes? | "
     r"dissidentes? | votos?\ (?:particular(?:es)?|disidentes?|en\ contra|discrepantes?) | discrepan\w+",
     r"unanim\w+ | (?<!nicht\x20)(?<!un)einstimmig\w* | with\ one\ voice | all\ (?:the\ )?judges\ agreed"),
    (r"appealable|(?:can be|open to) appeal(?:ed)?",
     r"appealable | open\ to\ appeal | (?:can|could|may)(?:\ \w+){0,3}\ (?:appealed|challenged) | next\ instance | "
     r"higher\ instance | anfechtbar\w* | (?:berufung|revision|rechtsmittel)\ (?:moglich|zulassig|zugelassen) | "
     r"susceptibles?\ d['’]appel | appelables? | recurribles? | apelables? | (?:cabe|admite)\w*\ recurso",
     r"final\ and\ binding | (?:no|without)\ (?:further\ )?(?:appeal|remedy|recourse) | unappealable | "
     r"rechtskraftig\w* | unanfechtbar\w* | insusceptibles? | sans\ (?:appel|recours) | irrecurribles? | firmes?"),
    (r"(?:is )?(?:leading|landmark|precedent)(?: case| decision| ruling)?|sets precedent",
     r"leading\ (?:case|decision|judg?ment|authorit|ruling)\w* | landmark\w* | precedents? | precedent-setting | "
     r"leits[aä]?tz\w* | grundsatz(?:urteil|entscheidung)\w* | prazedenz\w* | wegweisend\w* | "
     r"(?:arrets?|decisions?)\ de\ principe | jurisprudences?\ de\ principe | precedentes? | jurisprudencia", ""),
    (r"(?:is )?(?:a )?bug|defect",
     r"bugs? | defects? | software\ (?:error|fault)s? | programmfehler\w* | softwarefehler\w* | "
     r"(?:defauts?|erreurs?)\ (?:du|de)\ logiciel | fallos?\ (?:del?\ )?(?:software|programa) | "
     r"errore?s?\ (?:del?\ )?(?:software|programa)", ""),
    (r"refundable", r"refund\w* | erstattbar\w* | stornierbar\w* | remboursable\w* | reembolsable\w*",
     r"non-?\ ?refundable | nicht\ (?:erstattbar|stornierbar)\w* | non\ remboursable\w* | no\ reembolsable\w*"),
    (r"in force|valid|active",
     r"(?:still\ )?in\ force | still\ (?:valid|active) | in\ kraft | (?:noch\ )?gultig\w* | "
     r"(?:encore\ )?en\ vigueur | "
     r"(?:siguen?\ )?en\ vigor | vigentes?",
     r"expired | lapsed | abgelaufen\w* | erloschen\w* | expires? | caducad[oa]s? | vencid[oa]s?"),
    (r"open access|free access",
     r"open[-\ ]access | free(?:ly)?\ to\ (?:read|download|access) | freely\ (?:available|accessible|readable) | "
     r"(?:read|download|access|get|open|view)\w*(?:\ \w+){0,3}\ "
     r"(?:for\ (?:free|nothing)|without\ (?:paying|a\ (?:subscription|login|fee))|free\ of\ charge|at\ no\ cost) | "
     r"no\ paywall | frei\ (?:zuganglich|verfugbar|lesbar)\w* | ohne\ (?:bezahlschranke|paywall) | "
     r"kostenlos\ (?:zuganglich|lesbar|lesen|herunterladen|abrufbar)\w* | (?:acces\ libre|libre\ acces) | "
     r"(?:lire|telecharger|consult\w+)\ (?:gratuitement|sans\ payer) | acceso\ (?:abierto|libre) | "
     r"(?:leer|descargar|consultar)\w*\ (?:gratis|gratuitamente|sin\ pagar)",
     r"pay-?walled | behind\ a\ paywall | (?:need|with|require)\w*\ a\ subscription | "
     r"subscription[-\ ](?:only|based) | "
     r"(?:can['’]?t|cannot)(?:\ \w+){1,4}\ without\ (?:paying|a\ (?:subscription|login)) | kostenpflichtig\w* | "
     r"hinter\ (?:einer\ )?(?:bezahlschranke|paywall) | payants? | payantes? | de\ pago"),
    (r"(?:peer )?reviewed|refereed",
     r"peer-?\ ?review(?:ed)? | (?<!un)refereed | begutachtet\w* | (?:evalu|rel)\w*\ par\ (?:des|les|leurs)\ pairs | "
     r"(?:revisad|evaluad|arbitrad)\w+\ por\ pares | arbitrad[oa]s?",
     r"pre-?prints? | unrefereed | unreviewed | no\ (?:referee|reviewer)s?\ (?:has|have|ever)"),
    (r"open source|code(?: available)?|has code",
     r"open[-\ ]source | quelloffen\w* | (?:with|mit|avec|con)\ code | code\ (?:is\ )?available | "
     r"codigo\ abierto | code\ (?:libre|ouvert)",
     ""),
    (r"water ?proof|water resistant",
     r"water-?\ ?(?:proof|resistant) | wasser(?:dicht|fest)\w* | etanches? | impermeables? | "
     r"resistentes?\ al\ agua", ""),
    (r"wireless|cordless",
     r"wireless | cordless | kabellos\w* | drahtlos\w* | sans\ fil | inalambric[oa]s?", r"wired | "
     r"kabelgebunden\w* | filaires? | con\ cable"),
    (r"used|second hand", r"used | second-?\ ?hand | gebraucht\w* | d['’]occasion | "
     r"de\ (?:segunda\ mano|ocasion) | usad[oa]s?",
     r"brand[-\ ]?new | fabrikneu\w*"),
    (r"in stock|available",
     r"in\ stock | available | auf\ lager | lieferbar\w* | vorratig\w* | verfugbar\w* | en\ stock | disponibles? | "
     r"(?:can|could)\ (?:deliver|ship|send)(?:\ \w+){0,3}\ (?:now|today|tomorrow|immediately|at\ once|right\ away) | "
     r"(?:can|could)\ (?:deliver|ship) | ready\ to\ (?:ship|go|send) | sofort\ (?:lieferbar|da|verfugbar)\w* | "
     r"en\ existencias",
     r"out\ of\ stock | sold\ out | unavailable | back-?\ ?order\w* | ausverkauft\w* | vergriffen\w* | "
     r"en\ rupture(?:\ de\ stock)? | epuises? | agotad[oa]s?"),
    (r"on sale|discounted|reduced", r"on\ sale | discounted | reduced | reduziert\w* | im\ angebot | "
     r"en\ promotion | soldes? | rebajad[oa]s? | en\ oferta",
     r"full\ price"),
    (r"evergreen", r"evergreens? | immergrun\w* | persistante?s? | perennes? | siempre\ verdes?",
     r"deciduous | laubabwerfend\w* | caduc(?:s|ques|que)? | caducifoli[oa]s? | de\ hoja\ caduca"),
    (r"black and white", r"black[-\ ](?:and|&)[-\ ]white | b\ ?&\ ?w | schwarz-?\ ?wei(?:ß|ss)\w* | "
     r"noir\ et\ blanc | blanco\ y\ negro",
     r"in\ colou?r | in\ farbe | en\ couleurs? | (?:a|en)\ color"),
    (r"international|foreign", r"international\w* | foreign\w* | from\ abroad | aus\ dem\ ausland | "
     r"auslandisch\w* | etrangers? | internacional\w* | extranjer[oa]s?", ""),
    (r"certificate|certified|has certificate", r"certificat\w* | zertifikat\w* | zertifiziert\w* | "
     r"certificad\w*", ""),
    (r"transcript|has transcript", r"transcri\w+ | transkript\w*", ""),
    (r"(?:needs |requires )?partner|partner(?: required| institution)?", r"partner\w* | partenaires? | "
     r"soci[oa]s?", ""),
    (r"subtitles?|subtitled", r"subtit\w+ | untertitel\w* | sous-titr\w+", r"dubbed | synchronisiert\w* | "
     r"doubles? | doblad[oa]s?"),
    (r"electric", r"electric | elektrisch\w* | elektro\w* | electriques? | electric[oa]s?", ""),
    (r"full time", r"full-?\ ?time | vollzeit | temps\ plein | "
     r"(?:jornada|tiempo)\ complet[oa]", r"part-?\ ?time | teilzeit | temps\ partiel | media\ jornada"),
    (r"part time", r"part-?\ ?time | teilzeit | temps\ partiel | media\ jornada", r"full-?\ ?time | vollzeit | "
     r"temps\ plein | (?:jornada|tiempo)\ complet[oa]"),
    (r"permanent", r"permanent | unbefristet\w* | cdi | indefinid[oa]s?", r"temporary | fixed[-\ ]term | "
     r"(?<!un)befristet\w* | cdd | temporal(?:es)?"),
    (r"resolved|solved|fixed|closed", r"resolved | solved | fixed | closed | gelost\w* | behoben\w* | "
     r"geschlossen\w* | resolus? | fermes? | resuelt[oa]s? | cerrad[oa]s?",
     r"unresolved | unsolved | still\ open | ungelost\w* | non\ resolus? | sin\ resolver"),
    (r"urgent", r"urgent\w* | dringend\w* | eilig\w* | urgentes?", ""),
    (r"escalat(?:ed|ion)",
     r"escalat\w+ | (?:second|third)[-\ ](?:level|line)(?:\ support)? | higher\ up | (?:2nd|3rd)[-\ ](?:level|line) | "
     r"(?:up|passed)\ to\ (?:the\ )?(?:management|manager|engineering|level\ (?:2|3|two|three)) | eskaliert\w* | "
     r"escalade\w* | (?:niveau|nivel)\ superior | escalad[oa]s?", ""),
    (r"direct|non ?stop", r"direct(?:ly)? | non-?\ ?stop | direkt\w* | direct[oa]s? | sans\ escale | "
     r"sin\ escalas?", r"with\ (?:a\ )?(?:stop|stops|layover)"),
    (r"guided", r"guided | gefuhrt\w* | guidee?s? | guiad[oa]s?", r"self-?guided"),
    (r"all inclusive", r"all-?\ ?inclusive | tout\ compris | todo\ incluido", ""),
    (r"unanimous", r"unanim\w+ | einstimmig\w*",
     r"split\ (?:bench|court|panel|decision)s? | with\ a\ dissent | dissent\w* | (?:bench|court)\ was\ split"),
    (r"on display|on view", r"on\ (?:display|view|show) | ausgestellt\w* | expose(?:e|s|es)? | "
     r"expuest[oa]s?", r"in\ storage | im\ (?:depot|magazin) | en\ reserve"),
    (r"(?:circular|loop)(?: route| trail)?", r"circular | loops? | rundweg\w* | rundwanderung\w* | en\ boucle | "
     r"boucles? | circulares?", r"one-?way | point[-\ ]to[-\ ]point"),
    (r"multi ?player", r"multi-?\ ?player | mehrspieler\w* | multijoueurs? | "
     r"multijugador\w*", r"single-?\ ?player | einzelspieler\w* | solo"),
    (r"refurbished|reconditioned|renewed",
     r"refurb\w* | reconditioned | renewed | general-?uberholt\w* | aufbereitet\w* | wiederaufbereitet\w* | "
     r"reconditionne\w* | remise?s?\ a\ neuf | reacondicionad[oa]s?",
     r"brand[-\ ]?new | fabrikneu\w*"),
    (r"free cancellation|cancell?able|cancellation free",
     r"call(?:ed)?(?:\ \w+){0,3}\ off\ "
     r"(?:at\ no\ cost|for\ (?:free|nothing)|free\ of\ charge|without\ (?:a\ fee|paying)) | "
     r"cancel\w*(?:\ \w+){0,3}\ (?:at\ no\ cost|free\ of\ charge|for\ nothing|without\ (?:paying|penalty|a\ fee)) | "
     r"free(?:ly)?\ cancel\w+ | cancel\w*\ (?:for\ )?free | cancell?ed\ for\ free | cancell?able | flexible\ booking | "
     r"kostenlos\w*\ (?:stornier\w+|storno) | (?:kostenlos\ )?stornierbar\w* | annul\w+\ (?:gratuit\w*|sans\ frais) | "
     r"annulables? | cancelaci[oó]n\w*\ grat\w+ | cancelar\ gratis | cancelables?",
     r"non-?\ ?refundable | no\ (?:refunds?|cancell?ation) | non-?\ ?cancell?able | "
     r"(?:nicht|un)\ ?(?:erstattbar|stornierbar)\w* | non\ (?:remboursable|annulable)s? | no\ reembolsables?"),
    (r"adults? only", r"adults?[-\ ]only | only\ for\ adults | no\ (?:kids|children) | without\ (?:kids|children) | "
     r"child-?free | nur\ (?:fur\ )?erwachsene | ohne\ kinder | (?:reserve\w*\ aux|pour)\ adultes | sans\ enfants | "
     r"(?:solo|exclusivo)\ (?:para\ )?adultos | sin\ ninos", ""),
    (r"(?:under |on |pending )?appeal(?:ed)?", r"under\ appeal | appeal\ (?:is\ )?pending | pending\ appeal | "
     r"appealed | "
     r"berufung\w* | revision\ eingelegt | en\ appel | appel\ (?:est\ )?pendant | "
     r"(?:recurso|apelacion)\ (?:\w+\ ){0,2}pendiente | "
     r"recurrid[oa]s? | apelad[oa]s?", ""),
    (r"retracted|withdrawn", r"retract\w* | withdrawn | zuruckgezogen\w* | retire(?:e|s|es)? | retractad[oa]s? | "
     r"retirad[oa]s?",
     ""),
    (r"re ?opened", r"re-?\ ?opened | came\ back | (?:wieder|erneut)\ (?:ge)?offnet\w* | wiedereroffnet\w* | "
     r"rouvert\w* | "
     r"reabiert[oa]s?", ""),
    (r"sla (?:breached|missed|violated)|(?:breached|missed) sla",
     r"(?:took|taken|take|taking)\ (?:us\ )?too\ long | "
     r"longer\ than\ (?:agreed|promised|allowed) | too\ (?:late|slow) | frist\ (?:uberschritten|verpasst|gerissen) | "
     r"delais?\ (?:depass\w+|non\ (?:respect|ten)\w+) | "
     r"(?:no\ |in)(?:se\ )?cumpl\w+\ (?:el\ |los\ )?(?:plazos?|sla)(?:\ \w+)? | fuera\ de\ plazo | "
     r"(?:breach\w*|miss\w*|violat\w*|broke\w*|exceed\w*)\ (?:the\ |their\ |its\ )?sla | "
     r"sla\ (?:breach\w*|miss\w*|violat\w*) | "
     r"sla\ (?:verletzt|verpasst|uberschritten) | sla\ (?:depasse|non\ respecte)\w* | (?:incumpl\w+)\ (?:el\ )?sla",
     r"within\ (?:the\ )?(?:agreed|promised|allowed)\ time | in\ time | (?:fristgerecht|termingerecht)\w* | "
     r"dans\ les\ (?:temps|delais) | (?:dentro\ del|en\ el)\ plazo | "
     r"(?:within|met|meets|kept)\ (?:the\ |their\ |its\ )?sla | sla\ (?:met|kept|eingehalten) | "
     r"respecte\w*\ (?:le\ )?sla | "
     r"cumpl\w+\ (?:con\ )?(?:el\ )?sla"),
    (r"(?:deadline|target|response time) (?:missed|breached)|missed (?:deadline|target)",
     r"(?:miss|breach|exceed|overr[au]n)\w*\ (?:the\ |its\ |their\ )?(?:deadline|target|time)s?",
     r"(?:met|within|kept)\ (?:the\ |its\ |their\ )?(?:deadline|target|time)s?"),
    (r"overdue|late", r"overdue | late | uberfallig\w* | verspatet\w* | en\ retard | vencid[oa]s? | atrasad[oa]s?",
     r"on\ time | punctual\w* | punktlich\w* | a\ l['’]heure | a\ tiempo | puntual(?:es)?"),
    (r"auto(?:matic)? ?renew(?:al|s|ed)?|renews automatically",
     r"auto(?:matic(?:ally)?)?[-\ ]?renew\w* | renew\w*\ automatically | "
     r"(?:verlanger\w+\ sich\ )?automatisch(?:\ verlanger\w+)? | "
     r"(?:tacite\ )?reconduction | renouvel\w+\ automatique\w* | renovaci[oó]n\ automatica | se\ renueva\w*", ""),
    (r"(?:under |in )?(?:warranty|guarantee)", r"under\ (?:warranty|guarantee) | in\ warranty | unter\ garantie | "
     r"(?:mit|in\ der)\ garantie | "
     r"sous\ garantie | en\ garantia", r"out\ of\ warranty | ohne\ garantie | hors\ garantie | fuera\ de\ garantia"),
    (r"free (?:shipping|delivery)|(?:shipping|delivery) free",
     r"free\ (?:shipping|delivery|postage) | no\ (?:shipping|delivery|postage)(?:\ (?:costs?|charges?|fees?))? | "
     r"(?:shipping|delivery|postage)\ (?:is\ )?(?:included|free) | (?:don['’]t|not)(?:\ \w+){0,3}\ pay(?:\ for)?\ "
     r"(?:shipping|delivery|postage) | ohne\ versandkosten | sans\ frais\ de\ (?:port|livraison) | "
     r"sin\ gastos\ de\ envio | (?:ships|delivered)\ free | versandkostenfrei\w* | "
     r"(?:kostenlos\w*|gratis)\ ?(?:versand|lieferung) | "
     r"(?:livraison|port)\ (?:gratuite?|offerte?) | envio\ gratis | envio\ gratuito",
     r"(?:payer|paie\w*|paye\w*)(?:\ \w+){0,2}\ frais\ de\ (?:port|livraison) | "
     r"pay\w*(?:\ \w+){0,2}\ (?:shipping|postage) | "
     r"zzgl\.\ versand\w* | con\ gastos\ de\ envio"),
    (r"(?:airport )?(?:transfer|shuttle)s?", r"transfers? | shuttles? | flughafentransfer\w* | navettes? | "
     r"traslados?", ""),
    (r"air ?con(?:ditioned|ditioning)?", r"air-?\ ?con\w* | klimaanlage\w* | klimatisiert\w* | climatis\w+ | "
     r"aire\ acondicionado | climatizad[oa]s?", ""),
    (r"(?:sea|ocean) view|seaside|beach ?front",
     r"(?:sea|ocean)[-\ ]views? | beach-?\ ?front | meerblick | vue\ (?:sur\ (?:la\ )?)?mer | vistas?\ al\ mar", ""),
    (r"gym|fitness", r"gyms? | fitness\w* | salle\ de\ (?:sport|gym) | gimnasios?", ""),
    (r"spa|sauna|wellness", r"spas? | saunas? | wellness\w*", ""),
    (r"lactose free|dairy free", r"lactose-?\ ?free | dairy-?\ ?free | laktosefrei\w* | sans\ lactose | "
     r"sin\ lactosa", ""),
    (r"nut ?free", r"nut-?\ ?free | without\ nuts | nussfrei\w* | ohne\ nusse | sans\ (?:noix|fruits\ a\ coque) | "
     r"sin\ frutos\ secos",
     r"with\ nuts | contains?\ nuts"),
    (r"spicy|hot", r"spicy | scharf\w* | epice\w* | picantes?", r"mild\w* | doux | douces? | suaves?"),
    (r"halal", r"halal", ""),
    (r"kosher", r"kosher | koscher\w* | casher | kascher", ""),
    (r"illustrated", r"illustrat\w* | (?:with|mit|avec)\ (?:pictures|illustrations|bildern|abbildungen) | "
     r"illustriert\w* | "
     r"illustre(?:e|s|es)? | ilustrad[oa]s?", ""),
    (r"hard ?(?:cover|back)", r"hard-?\ ?(?:covers?|backs?) | gebunden\w* | relie(?:e|s|es)? | (?:de\ )?tapa\ dura",
     r"paper-?\ ?backs? | soft-?\ ?covers? | taschenb\w+ | (?:livres?\ de\ )?poche | (?:de\ )?tapa\ blanda | "
     r"de\ bolsillo"),
    (r"anonymous(?:ly)?", r"anonymous\w* | anonym\w* | anonim[oa]s?", ""),
    (r"confidential", r"confidential\w* | vertraulich\w* | confidentiel\w* | confidencial(?:es)?", ""),
    (r"verified", r"verified | verifiziert\w* | uberpruft\w* | verifie(?:e|s|es)? | verificad[oa]s?", r"unverified"),
    (r"insured|insurance", r"insur(?:ed|ance) | versichert\w* | assure(?:e|s|es)? | asegurad[oa]s?", r"uninsured"),
    (r"paid", r"paid | bezahlt\w* | paye(?:e|s|es)? | pagad[oa]s?",
     r"unpaid | outstanding | unbezahlt\w* | offene?\ rechnung\w* | impaye(?:e|s|es)? | impagad[oa]s?"),
    (r"archived", r"archived | archiviert\w* | archive(?:e|s|es)? | archivad[oa]s?", ""),
    (r"signed", r"signed | unterschrieben\w* | unterzeichnet\w* | signe(?:e|s|es)? | firmad[oa]s?",
     r"unsigned | sin\ firmar | non\ signe\w*"),
    (r"reimbursed|compensated|compensation", r"reimburs\w* | compensat\w* | refunded | erstattet\w* | entschadigt\w* | "
     r"rembourse(?:e|s|es)? | indemnise(?:e|s|es)? | reembolsad[oa]s? | indemnizad[oa]s? | compensad[oa]s?", ""),
    (r"recorded", r"recorded | aufgezeichnet\w* | enregistre(?:e|s|es)? | grabad[oa]s?", ""),
)  # fmt: skip
"""(names of fields, what says that it holds, what says that it does not)"""
