"""Words that reject nothing: tables for `mrag_rl.filters.inclusions`, in four languages.

A word that is in none of them may be a verb, an adverb or a preposition that rejects ("ditch", "esquivando").
"""

from __future__ import annotations

# What says that something is wanted
REQUESTS = """
    carry stock sell
    show shows find list give get need needs want wants wanted looking look search searching searched fetch bring book
    suggest recommend recommendations check summarise summarize tell name explain describe compare use like love prefer
    interested interest prefers likes buy rent hear see watch read listen learn know understand wonder choose pick try
    order reserve including included includes send pull open include hello hi hey help advice ideas seek seeks seeking
    hoping hope fancy collect collects restrict limit stick focus take zeig zeige zeigt zeigen such suche sucht suchen
    suchst gesucht finde findet finden liste listet gib gebt nenn nenne brauche braucht brauchen brauchst möchte
    möchten möchtest will wollen wünsche interessiere interessiert vergleiche vergleich empfiehl empfehlt empfehlung
    empfehlungen kaufen mieten lesen hören sehen lernen bestelle buche buchen mag liebe liebt nimm beschränke gern
    gerne montre montrez montrer cherche cherchez cherchons chercher recherche trouve trouvez trouver donne donnez
    donner listez veux veut voudrais voudrait voulons aimerais aimerait aime aimons aimer faut besoin intéresse
    intéressent comparez conseille conseillez recommande recommandez propose proposez acheter louer lire écouter voir
    regarder apprendre réserver dites dis limite limitez muestra muéstrame muestrame muéstranos mostrar enseña enséñame
    busca busco buscamos buscar búscame encuentra encuéntrame encontrar dame danos dime lista quiero quiere queremos
    quisiera necesito necesita necesitamos gustaría gusta gustan encanta encantan interesa interesan compara recomienda
    recomiéndame recomendación comprar alquilar leer escuchar ver mirar aprender reservar prefiero limita
"""

# Those of them by which whoever speaks says so: "I want", not "I find"
WISHES = """
    rather take spend pay afford want need like love prefer looking look search searching seek seeking interested
    fancy hoping hope get
    möchte möchten will wollen suche suchen brauche brauchen interessiere mag liebe wünsche gern gerne veux voudrais
    voulons cherche cherchons aimerais aime aimons préfère faut besoin intéresse quiero queremos quisiera busco
    buscamos necesito prefiero gustaría gusta encanta interesa
"""

# What a question begins with: words that ask, those of them that stand for the subject, and verbs
ASKING = """
    what which whose how when where why whom welche welcher welches welchen welchem was wie wo wann warum wieso wen wem
    wohin quel quels quelle quelles quoi que comment où quand pourquoi combien qué cuál cuáles cómo dónde cuándo cuánto
    cuántos cuánta cuántas
"""
ASKING_WHO = """
    who wer qui quién quiénes
"""
AUXILIARIES = """
    does do did has have had is are was were can could will would should may might must hat haben hatte hatten ist sind
    war waren kann können könnt könnte gibt gab habt wird werden sollte soll darf würde est sont était étaient ont avez
    avait avaient peut peuvent pourrait puis-je hay tiene tienen tenéis tienes había fue fueron puede pueden podría son
    es está están era eran ha han
"""

# Whoever speaks: as subject, and as object or owner
SPEAKERS = """
    i we ich wir je j nous yo nosotros nosotras
"""
BESIDE = """
    me us my our mine mir mich uns mein meine meinem meinen meiner meines unser unsere unserem unseren unserer moi mon
    ma mes notre nos mi mis nuestro nuestra nuestros nuestras
"""

# "I have read Wired" is no wish
SINCE = """
    ve have had already habe hab hatte schon ai avons avais déjà he hemos ya
"""

# Before a name, those that few verbs and adverbs of rejection need, and those that many do ("tired of", "done with")
PREPOSITIONS = """
    in at by near under via through during im bei beim aus durch um nahe laut chez en dans par vers selon según within
    inside into across per towards toward among amongst amid alongside upon onto behind beside throughout underneath
    underlying innerhalb während unter neben hinter zwischen entlang gegenüber sous parmi devant derrière durant pendant
    entre durante mediante bajo ante tras hacia dentro junto
"""
PREPOSITIONS_OF_VERBS = """
    por of from for with to on about over für pour para regarding concerning like as von vom mit zu zum zur auf an am
    über nach de du des d à au aux avec sur a al del con sobre
"""
INFINITIVE_MARKERS = """
    to zu a à al au aux
"""
AGENTS = """
    by von par
"""

DETERMINERS = """
    the a an any some all every each both this that these those its their his her your one either ones many several
    other more most only just even also mainly mostly another same der die das den dem des ein eine einen einem einer
    eines alle allen aller alles jede jeder jedes jeden beide diese dieser dieses diesen diesem ihre ihr sein seine nur
    auch etwas mehr viele einige irgendein irgendeine irgendwas irgendwelche ausschließlich le la les l un une du ce
    cet cette ces tout toute tous toutes chaque leur leurs son sa ses quelques plusieurs seulement uniquement
    exclusivement aussi ceux celles celui celle el los las lo uno una unos unas todo toda todos todas cada su sus este
    esta estos estas algún alguna algunos algunas algo solo sólo también exclusivamente cualquier
"""
# Those of them that ask for nothing else
ONLY = """
    only just exclusively nur ausschließlich seulement uniquement exclusivement solo sólo exclusivamente
"""
ADJECTIVES = """
    new newest latest recent old older good better best great cheap cheaper cheapest top free own short long small
    large big little nice decent classic modern popular current early late first last next different official original
    used usado usada usados usadas gebraucht gebrauchte gebrauchten gebrauchter gebrauchtes available open full easy
    quick simple nearby local affordable young famous major main various neu neue neuer neues
    neuen neueste neuesten neuester aktuelle aktuellen gut gute guter gutes guten beste besten bester günstige
    günstigen günstiger günstigste günstigsten billige billigen billigste alte alten kurze kurzen lange langen kleine
    kleinen große großen schöne schönen erste ersten letzte letzten nächste nächsten freie freien einfache einfachen
    nouveau nouveaux nouvelle nouvelles dernier derniers dernière dernières récent récents récente récentes bon bons
    bonne bonnes meilleur meilleurs meilleure meilleures petit petits petite petites grand grands grande grandes vieux
    vieille premier premiers première premières court courts courte courtes longs longue longues beau beaux belle
    belles abordable abordables nuevo nuevos nueva nuevas último últimos última últimas reciente recientes buen bueno
    buenos buena buenas mejor mejores barato baratos barata baratas pequeño pequeños pequeña pequeñas gran viejo vieja
    primer primero primera primeros primeras corto cortos corta cortas largo largos larga largas bonito bonita
"""

# What joins clauses: what stands before it governs nothing behind it
JOINTS = """
    together along and or and/or und oder et ou y o u e plus sowie while whereas although though because when where if
    as that which who after before since until during than whether so then but versus vs compared regarding despite
    considering given following via aber während obwohl weil dass damit mais tandis alors lorsque parce selon pero
    mientras aunque seit bis depuis desde sondern sino
"""

# Everything else that may stand in a clause that names
OTHERS = """
    bien again wieder erneut well there here it they he she you please maybe perhaps ideally preferably possibly too be
    been being am s m ll ve re them him someone somebody anyone else ever yet still already now today tonight tomorrow
    yesterday monday tuesday wednesday thursday friday saturday sunday morning evening weekend summer winter spring
    autumn between less over up at least around yes ja oui dann da hier es sie er du man bitte vielleicht liebsten
    möglichst idealerweise noch schon jetzt heute morgen gestern montag dienstag mittwoch donnerstag freitag samstag
    sonntag abend wochenende sommer vor ab zwischen als weniger mindestens höchstens denn mal doch puis ainsi y il elle
    ils elles tu vous ça c si te plaît stp svp peut-être possible idéalement aujourd hui demain lundi mardi mercredi
    jeudi vendredi samedi dimanche soir matin avant après entre moins encore déjà maintenant t a-t-il a-t-elle y-a-t-il
    qu más como luego ahí aquí ello él ella ellos tú usted ustedes vosotros favor quizá quizás preferiblemente
    idealmente ya hoy mañana ayer lunes martes miércoles jueves viernes sábado domingo noche tarde hasta antes después
    menos que sí
"""

# What publishers, makers and sellers do, and what is done by them
DEEDS = """
    adds added add finds found writes ergänzt meldet meldete ajoute affirme añade afirma considered deemed depicted
    labeled accuse accused alleges alleged allege announce announced appear appeared appears argue argued argues
    attribute attributed call called characterize characterized cite cited cites claim claimed claims comment commented
    conclude concluded confirm confirmed cover coverage covered covering covers describe described describes detail
    detailed details discuss discussed discusses discussing emphasize emphasized explained explains feature featured
    features focused focuses highlight highlighted highlights identified identify imply implied implies indicate
    indicated indicates introduce introduced mention mentioned mentions named note noted notes outline outlined portray
    portrayed portrays predict predicted present presented presents profile profiled promote promoted provide provided
    provides question questioned quote quoted rank ranked ranks recognize recognized recommended report reported
    reporting reports reveal revealed reveals review reviewed reviews said say says state stated states suggested
    suggests talk talked tells told view viewed views warn warned wrote write information news recently previously
    subsequently later earlier respectively according align aligns aligned contradict contradicts agree agrees disagree
    disagrees disagreed consistent similar similarly published written made produced posted released sold built run
    based located offered offers offer filed granted decided issued held hosted taught directed created designed
    developed distributed edited starring recorded brewed grown supplied operated handled assigned funded financed
    sponsored managed owned opened started starts start starting begins ends working works work living lives going goes
    coming comes come stream streams streaming flying staying travelling traveling erschienen veröffentlicht
    geschrieben gemacht produziert berichtet
    gesagt sagt schreibt verkauft gebaut angeboten bietet bieten erteilt entschieden veranstaltet erstellt entwickelt
    beginnt beginnen startet starten läuft laufen kommt kommen publié publiée publiés publiées écrit écrite écrits
    écrites fait produit produite réalisé réalisée réalisés dit vendu vendue vendus construit proposé proposés proposée
    délivré délivrés décidé organisé organisée organisés développé développés diffusé diffusés commence commencent
    publicado publicada publicados publicadas escrito escrita escritos escritas hecho hecha hechos producido producida
    dicho dice vendido vendidos construido ofrece ofrecen concedido concedidas decidido organizado organizada
    desarrollado empieza empiezan sale salen
"""

# What begins a clause that may also state a condition: "as long as Wired has no part in it"
CONDITIONS = """
    provided providing unless once solange sofern falls vorausgesetzt pourvu tant mientras siempre con_tal
"""

# What goes with a verb of rejection: "chuck out", "weed the westerns out", "streich ... weg"
PARTICLES = """
    herum rum vorbei drumherum hinaus heraus out off away aside apart past round down back up beyond against raus weg
    beiseite fort fuera aparte
"""

# Verbs of which a German infinitive at the end of the clause depends
MODALS = """
    möchte möchten will wollen kann können könnt könnte könnten soll sollte darf würde bitte lass lasst muss müssen
"""

# Directly before a name: another is preferred to it, or it is to be less
CONTRASTS = """
    before avant antes bevor mais aber pero but than save als over less fewer weniger moins menos minus vor devant
"""

# Nouns and adjectives of separation: "a break from", "Ersatz für", "libres de"
SEPARATIONS = """
    müde überdrüssig different distinct unlike free devoid exempt far weit fern verschieden distintos distintas
    diferentes ajenos ajenas
    libres exentos exentas carentes privados privadas desprovistos desprovistas hartos hartas cansados cansadas lejanos
    lejanas différents différentes distincts distinctes exempts exemptes dépourvus dépourvues dénués dénuées privés
    privées lassés éloignés éloignées lejos loin break rest change escape substitute replacement end opposite relief
    departure pause detox ban boycott alternative alternatives abwechslung ersatz gegenteil ende abschied verzicht
    alternativen remplacement remplaçant remplaçante contraire fin repos descanso cambio sustituto sustituta
    sustitución reemplazo contrario alternativa alternativas
"""

# Behind a name that stands for itself: "Anime, ya no"
DENIALS = """
    not no never nope nah none nothing nie nicht nichts nein niemals kein keine keinen non pas ni nunca jamás nada
    jamais rien plus-jamais
"""

# What may begin and end a preposition of several words: "with the exception of"
STARTS_OF_PREPOSITIONS = """
    with in at by en à au a mit unter bei con por par zu zur auf an
"""
ENDS_OF_PREPOSITIONS = """
    of from to de du des d a à au aux del al von vom zu zum zur
"""

# "Wired in the bin": where what is rejected goes
DIRECTIONS = """
    to into au aux al à a zum zur
"""

# Between which nothing names: "ohne dass Wired"
WITHOUT = """
    without ohne sans sin
"""

# "Must it be Wired?" is no wish, either
NECESSITIES = """
    must muss müssen dois doit faut debe debo tengo
"""

# With denials, all of a dismissal: "never again", "nein danke"
DISMISSALS = """
    way thanks thank you danke merci gracias again wieder more ever mehr plus más please bitte
"""

# Before verbs as well: "only ditch Wired"
ADVERBS = """
    only just even also mainly mostly exclusively nur auch ausschließlich seulement uniquement exclusivement aussi solo
    sólo también exclusivamente
"""
