"""The words by which questions exclude: tables for `mrag_rl.filters.exclusions`, in four languages.

Each table is a regular expression in which plain spaces mean nothing and `\\ ` is white space (`pattern`).
"""

from __future__ import annotations

import re


def pattern(table: str) -> str:
    """A table, without its own spaces, as a part of a regular expression.

    Entries are grouped by their first letter, because `re` tries one alternative after the other: a word of a question
    is then compared with some thirty letters, not with hundreds of entries.
    """
    groups: dict[str, list[str]] = {}
    for entry in entries(table):
        is_literal = entry[0].isalpha() and entry[1:2] not in ("?", "*", "+", "{")
        groups.setdefault(entry[0] if is_literal else entry, []).append(entry[1:] if is_literal else "")
    return "|".join(f"{first}(?:{'|'.join(rest)})" if any(rest) else first for first, rest in groups.items())


def entries(table: str) -> list[str]:
    """The alternatives of a table, without its own spaces."""
    found, depth = [""], 0
    expression = re.sub(r"(?<!\\)\s+", "", table).replace(r"\ ", r"\s+")
    for part in re.findall(r"\\.|\[(?:\\.|[^\]])*\]|.", expression):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += part
    return found


# What excludes a name that follows
CUES = r"""
    not | never | neither | nor | no | none | cannot |
    (?:do|does|did|is|are|was|were|has|have|had|would|should|could|wo|ca)n['’]t | without |
    except(?:ing|ed)?(?:\ for)? | exclud(?:e|es|ing) | excl? | ausgen | minus | sans | save\ for | bar(?:ring)? |
    other\ than |
    apart\ from | aside\ from | outside(?:\ of)? | rather\ than | instead\ of | with\ the\ exception\ of |
    different\ from | besides | beyond | (?:leav|sett|putt)ing\ (?:aside|out) | ignoring | disregarding | omitting |
    skipping | discounting | (?:anyone|anybody|anything|anywhere|everyone|everybody|everything|everywhere)\ but |
    (?:all|any|each|every)(?:\ \w+){0,3}\ but | (?:other|others|else)(?:\ \w+){0,3}\ than | allergic\ to |
    unrelated\ to | burned\ by | exkl\. | verschon\w*(?:\ \w+)?\ mit | ajen[oa]s?\ a | además\ de |
    (?:fais|faites)\ l['’]impasse\ sur | parl\w+\ plus\ (?:de|d['’]) | olvíd(?:ate|ese|ense)\ de |
    se\ passer\ (?:de|d['’]) | paso\ de | boycott(?:ing|s)? | done\ with | fed\ up\ with | had\ it\ with |
    through\ with | nothing\ to\ do\ with | away\ from | ander\w+(?:\ \w+){0,3}\ als | autres?(?:\ \w+){1,3}\ que |
    otr[oa]s?(?:\ \w+){1,3}\ que | (?:et|mais|ou)\ non | assez\ (?:de|d['’]) | marre\ de | genug\ von | satt |
    hart[oa]s?\ de | cansad[oa]s?\ de | al\ margen | fuera\ del | nichts\ (?:von|aus|mit) | rien\ de |
    sieh\w*\ (?:man|wir|ich)\ vo[nm] | exception\ faite | (?:fais|faites|faisons)\ abstraction | fiche\ de |
    moque\ de | dejando\ (?:aparte|fuera|de\ lado|a\ un\ lado) | exceptuando | quitando | descontando | obviando |
    (?:me\ niego|nos\ negamos)\ a(?:\ \w+){0,2} | refus\w+\ (?:to|de|d['’])(?:\ \w+){0,2} | weiger\w+ |
    save\ (?:those|that|the\ ones) | (?:gefiltert|bereinigt)\ um | nichts\ mehr | nothing\ (?:from|by|of) |
    rien\ d['’] | jenseits\ von | get(?:ting)?\ rid\ of | (?:had\ )?enough\ of | (?:tired|sick|weary)\ of |
    opt\ out\ of | steer\ clear\ of | stay\ away\ from | keep\ away\ from | free\ of | nicht | kein(?:e|er|es|em|en)? |
    niemals | nie | weder | ohne | außer | ausser | ausgenommen | auss?chlie(?:ß|s+)en | abgesehen\ vo[nm] |
    bis\ auf | mit\ ausnahme | unter\ ausschluss | anstatt | statt | anstelle | außerhalb | jenseits |
    unter\ umgehung | exklusive | pas | jamais | ni | aucun(?:e|es|s)? | sauf | excepté(?:e|s|es)? | hormis | hors |
    à\ l['’]exception | à\ l['’]exclusion | à\ part | mis(?:e|es)?\ à\ part | en\ dehors? | autres?\ que |
    plutôt\ que | au\ lieu | exclu(?:re|ant|s|ez|t|ons)? | excepto | salvo | menos | sin | nunca | jamás | ningún |
    ningun[oa]s? | a\ excepción | con\ excepción | con\ la\ excepción | aparte\ de | fuera\ de | en\ lugar | en\ vez |
    distint[oa]s?\ (?:de|a) | excluy(?:e|endo|a|as|amos|an) | excluir | a?parte\ del? | net\ of |
    (?:skipp|dropp|omitt|avoid|ignor|remov|discard|eliminat|bypass)ing | exclusive\ of | devoid\ of |
    less\ (?:those|that|the\ ones) | not\ counting | enough\ with | (?:i['’]m|am|are|is)\ over | no\ more |
    quit\ showing | exc?ept | execpt | ex(?:c|lc?|)lud(?:e|ing) | exlcud(?:e|ing) | with(?:uot|ot|out) | ex?s?c?epto |
    finger\ (?:weg\ )?von | nase\ voll\ von | (?:keine?\ lust|bock)(?:\ mehr)?\ auf | weg\ mit | erspar\w*(?:\ \w+)? |
    schenk\ (?:dir|euch) | spar\ (?:dir|euch) | ohne\ berücksichtigung | abseits | fern\ von | anders\ als |
    es\ sei\ denn | außgenommen | ausgeno?men | si\ ce\ n['’]est | [àa]\ l['’]exc?eption |
    (?:abstraction|déduction|exclusion)\ faite | moins\ ce(?:ux|lles) | outre | fait\ le\ tour | les\ pieds |
    ras[-\ ]le[-\ ]bol | soupé\ de | plus\ envie | (?:n['’]importe\ (?:qui|quoi|quel\w*)|quoi|qui)\ d['’]autre\ que |
    ailleurs\ que | d['’]autres\ que | autre\ chose\ que | différent(?:e|s|es)?\ (?:de|du|des) |
    distinct\w*\ (?:de|du|des) | loin\ (?:de|du|des) | lass[ée]\w*\ de | fatigu[ée]\w*\ de | allergique\ (?:à|aux?) |
    grâce\ (?:de|du|des) | en\ (?:ôtant|enlevant|retirant|écartant|omettant|évitant|ignorant|supprimant) |
    en\ (?:éliminant|oubliant|sautant|négligeant|bannissant) | en\ (?:mettant|laissant)\ (?:de\ côté|tomber|à\ part) |
    passer\ outre | hors\ de\ question | más\ allá\ del? | (?:si\ )?descont(?:ar|amos|ando|ados) |
    diferentes?\ (?:del?|a) | salvedad | a\ no\ ser | prescindiendo\ de | evitando | sobran? | lejos\ del? |
    ajen[oa]s?\ al | ni\ se\ te\ ocurra | harta?\ del | ningún\ tipo
"""

# Verbs that a question may also report ("did they ignore Wired?"): they exclude where a request begins
REQUESTS = r"""
    ignore | skip | avoid | omit | drop | discard | disregard | remove | reject | eliminate |
    leave\ (?:out|aside|off) | exempt | (?:filter|rule|take|cut|keep|throw|sort|weed|screen|strip|hold)\ out |
    set\ aside | strike(?:\ out)? | scratch | cross\ (?:off|out) | nix | (?:leave|set|put)(?:\ to\ one\ side) |
    disqualify | subtract | ban | stop\ (?:showing|using) | hide | block | forget(?:\ about)? | bypass |
    spare\ (?:me|us) | mute | suppress | dump | ditch | cut | ignorier(?:e|t|en) | überspring(?:e|t|en) |
    vermeid(?:e|et|en) | entfern(?:e|t|en) | streich(?:e|t|en)? | verzicht(?:e|et|en)\ auf |
    (?:lass|lasse|lasst|lassen\ sie)\ (?:außen\ vor|weg|aus|beiseite) | meid(?:e|et|en) | blend(?:e|et)\ aus |
    ignor(?:e|ez|ons|er) | évit(?:e|ez|ons|er) | oubli(?:e|ez|er) | écart(?:e|ez|er) | élimin(?:e|ez|er) |
    retir(?:e|ez|er) | omet(?:s|tez|tre) | supprim(?:e|ez|er) | enl[eè]v(?:e|ez|er) | laiss(?:e|ez)\ de\ côté |
    masqu(?:e|ez|er) | cach(?:e|ez|er) | sort(?:ez)? | ocult(?:a|ar|es) | dejar\ (?:fuera|de\ lado|aparte) |
    tach(?:a|ar|es) | met(?:s|tez)\ de\ côté | ignor(?:a|es|en|ar|ad) | omit(?:e|as|an|ir|iendo) |
    evit(?:a|es|en|ar|ando) | descart(?:a|es|en|ar|ando) | elimin(?:a|es|en|ar) | quit(?:a|es|en|ar) |
    olvid(?:a|ate\ de|es|ar) | prescind(?:e|a|ir)\ de | ignorando | sált(?:ate|ese) | deja\ (?:fuera|de\ lado) |
    lay\ off | never\ ?mind | delete | erspar(?:e|t)? | schenk(?:e|t)\ (?:dir|mir) | vergiss | lösch(?:e|t|en)? |
    nimm\ (?:aus|raus) | klammer(?:e|t)?\ aus | verschone?\ mich | passe[zr]?\ (?:sur|outre) |
    épargn(?:e|ez|er)(?:[-\ ](?:moi|nous))? | évit(?:e|ez|er)[-\ ](?:moi|nous) |
    laiss(?:e|ez|er|ons)\ (?:tomber|de\ côté) | (?:je\ )?(?:zapp|boycott|saut)(?:e|es|ez|er|erais|ons) |
    bann(?:is|ir|issez|issons) | proscri(?:s|re|vez) | dispens(?:e|ez)(?:[-\ ](?:moi|nous))? |
    fai(?:s|tes)[-\ ](?:moi|nous)\ grâce | effac(?:e|ez|er) | vir(?:e|ez|er) | jett?(?:e|ez) |
    ahórr(?:ame|anos|enme|ate|ese|ar) | obvi(?:a|ar|es|en) | vet(?:a|ar|es|en) | borr(?:a|ar|es|e|en)(?:me|nos)? |
    bórr(?:ame|anos|alos) | sác(?:ame|anos|alos) | apart(?:a|ar|es|en) | sálta(?:me|te|nos) | salt(?:a|ar|es|en) |
    pas(?:a|ar|es|en)\ de
"""

# What precedes a verb at the beginning of a request
REQUESTING = r"""
    please | and | but | then | or | also | just | let['’]?s | to | (?:could|can|would|will)\ you |
    (?:if|when)\ (?:you|we|I) | bitte | und | aber | zu | (?:kannst|könntest)\ du | et | mais |
    (?:peux|pourrais|pouvez|pourriez)[-\ ](?:tu|vous) | por\ favor | y | pero | podrías? | puedes | podéis
"""

# Words that may stand between a cue and a name without changing what is excluded; none is made of others, so that a run
# of them is read in one way only
FILLERS = r"""
    go | going | goes | nach | contar | compter | se | directed | sponsored | distributed | designed | organi[sz]ed |
    hosted | managed | developed | located | à | the |
    a | an | any | anything | anyone | all | everything | those | these | this | that | whatever | what | which | who |
    of | from | by | in | on | at | with | for | to | through | is | are | was | were | be | been | being | has |
    have | had | do | does | did | it | its | me | us | my | our | you | your | I | we | there | one | ones | please |
    ever | need | want | wanted | like | use | using | used | include | including | included | show | showing | shown |
    give | list | listing | return | search | searching | look(?:ing)? | up | read | reading | consider | considering |
    considered | trust | take | taking | count | counting | quote | quoting | cite | citing | see | hear | fetch |
    bring | pull | query | rely | relying | interested | care | about | come | comes | came | coming | appear |
    appearing | articles? | reports? | stor(?:y|ies) | pieces? | posts? | reviews? | coverage | columns? |
    interviews? | papers? | sources? | outlets? | newspapers? | sites? | websites? | publications? | publishers? |
    magazines? | news | texts? | pages? | brands? | products? | models? | devices? | appliances? | makers? |
    manufacturers? | courts? | decisions? | rulings? | judg(?:e)?ments? | opinions? | cases? | airlines? | carriers? |
    flights? | tickets? | teams? | things? | stuff | results? | items? | content | information | info | entr(?:y|ies) |
    documents? | records? | offers? | laptops? | phones? | tvs? | say | says | said | saying | reported | published |
    written | covered | mentioned | posted | decided | made | operated | run | sold | manufactured | built | filed |
    assigned | handled | owned | raised | opened | offered | produced | released | printed | authored | sent |
    rendered | delivered | based | handed\ down | belong(?:s|ing)? | branded | as | der | die | das | den | dem | des |
    ein(?:e|er|es|em|en)? | alle[mnrs]? | von | vom | aus | bei | beim | im | auf | durch | welche[mnrs]? | etwas |
    irgend\w* | artikel\w* | berichte?\w* | meldung\w* | beitr[aä]g\w* | quellen? | texten? | produkte?\w* |
    ger[aä]te?\w* | marken? | modelle?\w* | gerichte?\w* | urteile?\w* | entscheidung\w* | fl[uü]ge?\w* |
    verbindung\w* | stammen | stammt | ist | sind | sein | war | wurden? | mir | uns | bitte | zu | zum | zur | mit |
    für | ergebnisse?\w* | sachen | denen | deren | dessen | geschrieben | veröffentlicht\w* | erlassen | gefällt |
    hergestellt | nutze | nutzen | verwende | verwenden | zeige? | zeigen | nimm | nehmen | suche | suchen | sie |
    ich | will | möchte | brauche | berücksichtige\w* | kommen | gehören | über | le | la | les | un | une | du | de |
    d | l | par | sur | chez | dans | avec | ce | ceux | celles? | celui | qui | que | sont | est | soit | soient |
    provien\w* | viennent | vienne | aux? | produits? | marques? | appareils? | décisions? | arrêts? | jugements? |
    vols? | compagnies? | équipes? | provenant | venant | issu\w* | rendu\w* | publié\w* | fabriqué\w* |
    tou(?:t|te|tes|s) | moi | nous | utilise\w* | montre\w* | pris(?:e|es)? | veux | voudrais | cherche\w* | tribunal |
    cour | cours | el | los | las | lo | un[oa]s? | del | por | en | con | quien | sea | sean | son | es | esté\w* |
    artículos? | fuentes? | noticias? | productos? | marcas? | aparatos? | sentencias? | fallos? | decisiones |
    resoluciones | vuelos? | aerolíneas? | compañías? | equipos? | teng\w+ | proveng\w+ | proced\w+ | publicad[oa]s? |
    dictad[oa]s? | fabricad[oa]s? | tod[oa]s? | nada | nos | muestr\w+ | uses | usen | usar | usando | utilic\w+ |
    incluy\w+ | quiero | quisiera | busc\w+ | busqu\w+ | consult\w+ | al | asignad[oa]s? | operad[oa]s? | cuent\w+
"""

# Words of what announces a list: "the following two: ..."
ANNOUNCING = r"""
    following | below | such | usual\ suspects | two | three | four | five | folgende[nrsm]? | diese[nrsm]? | zwei |
    drei | vier | beide[nrsm]? | suivante?s? | ci-dessous | ces | deux | trois | quatre | siguientes? | est[ao]s? |
    es[ao]s? | dos | tres | cuatro
"""
# What excludes the list that it announces with a colon
TITLES = r"""
    (?:to\ be\ )?excluded | unwanted | undesired | banned | blocked | ignored | skipped | omitted | removed | rejected |
    forbidden | off-?limits | blacklist(?:ed)? | exclusions? | unerwünscht\w* | ausgeschlossen\w* | gesperrt\w* |
    nicht\ (?:erw|gew)ünscht\w* | ausschluss | ausschlüsse | auszuschließen\w* | exclu(?:e|s|es)? | indésirables? |
    interdit(?:e|s|es)? | excluid[oa]s? | prohibid[oa]s? | vetad[oa]s? | (?:no\ |in)desead[oa]s? | exclusi(?:ón|ones)
"""

# Negations that name what follows
NAMING = r"""
    yes\ or\ no | who(?:m)?,?\ if\ not | wer,?\ wenn\ nicht | qui,?\ si(?:non|\ ce\ n['’]est) | quién,?\ sino |
    or\ not |
    (?:exclud\w*|remov\w*|hid\w*|hide)(?:\ \w+){1,3}\ (?:other\ than|except|but|that\ (?:is\ not|(?:is|are)n['’]t)) |
    (?:skip\w*|ignor\w*|drop\w*|omit\w*|filter\w*)(?:\ \w+){1,3}\ (?:other\ than|except|but|that\ isn['’]t) |
    (?:blende|schließe?|lass|entferne?|ignoriere?)\ alles(?:\ [\w,]+){0,4}\ nicht |
    (?:descarta|quita|elimina|excluye|ignora)\ todo\ lo\ que\ no |
    (?:excluez|exclus|écarte|masque|retire)\ tout\ ce\ qui\ n['’]est\ pas |
    (?:can['’]t|cannot|never)\ get\ enough\ of | say\ no\ to | nirgendwo\ anders(?:\ \w+)?\ als |
    (?:not|n['’]t)\ (?:only|just|merely|simply|solely) |
    (?<!bar\x20)(?:nothing|none|nobody|no\ one|nowhere)\ (?:but|except|besides|other\ than|else\ than|else\ but) |
    no\ other\ (?:\w+\ )?than | kein\w*\ ander\w*\ als | niemand\ (?:außer|als) |
    (?:no|not|never|without|\w+n['’]t|cannot)(?:\ \w+){1,4}\ (?:but|except(?:\ for)?|besides|other\ than) |
    (?:kein\w*|nicht\w*|nie)(?:\ \w+){1,4}\ (?:außer|als|bis\ auf) |
    (?:pas|aucun\w*|personne|jamais)(?:\ [\w'’]+){1,4}\ (?:sauf|hormis|à\ part|que|excepté) |
    (?:no|ningun\w*|ningún|nadie|nunca)(?:\ \w+){1,4}\ (?:excepto|salvo|menos|más\ que|sino|aparte\ de) |
    otra\ cosa\ que | nada\ que\ no\ sea | rien\ d['’]autre | (?:is|was|are|were)\ it\ not | ist\ es\ nicht |
    \w+n['’]t(?:\ \w+){1,3}\ without | cannot(?:\ \w+){1,3}\ without | n['’]oubli\w+\ (?:pas|surtout\ pas) |
    no\ olvid\w+ | vergiss\ nicht | nicht\ (?:zu\ )?vergessen |
    (?:not|n['’]t|never)\ (?:leave\ out|skip|omit|forget|ignore|exclude|drop|miss|overlook) | not\ (?:without|unless) |
    nicht\ (?:nur|bloß|allein) | nichts\ (?:außer|als) | keine?[nrs]?\ außer | (?:pas|non)\ (?:seulement|uniquement) |
    rien\ (?:que|d['’]autre\ que) | no\ (?:solo|sólo|solamente|únicamente) |
    nada\ (?:más\ que|menos\ que|excepto|salvo) | ningun[oa]?\ otr[oa] | no\ otherwise | why\ not | ¿?por\ qué\ no |
    pourquoi\ pas | no\ más\ que |
    n(?:e\ |['’])(?:omet\w*|exclu\w*|écart\w*|saut\w*|néglig\w*|laiss\w*)\ (?:surtout\ |donc\ )?(?:pas|jamais) |
    n(?:e\ |['’])(?:zapp\w*|évit\w*|ignor\w*|retir\w*|supprim\w*)\ (?:surtout\ |donc\ )?(?:pas|jamais) |
    no\ (?:omit\w+|ignor\w+|descart\w+|exclu\w+|dej\w+|salt\w+|elimin\w+|quit\w+|pas\w+\ por\ alto) |
    sans\ (?:oublier|omettre|négliger|exclure) | sin\ (?:olvidar|omitir|descartar|excluir|dejar) |
    ohne\ (?:zu\ )?vergessen
"""

# Further words that leave in doubt what is said of a name beside them
NEGATIONS = r"""
    kein\w+ | by\ no\ means | ex |
    as\ opposed\ to | \w+n['’]t | w/o | hat\w+ | loath\w+ | dislik\w+ | pass\ on | scrap | nothing | nobody | unless |
    lest | refus\w+ | avoid\w* | ignor\w+ | exclu\w+ | omit\w* | skip\w* | reject\w* | nichts | rien | nada |
    unerwünscht | personne | inutile | pas\ la\ peine |
    n(?:e\ |['’])(?:[\w'’-]+\ ){1,5}?(?:plus|pas|guère|point|rien|aucun\w*) | fini(?:e|s|es)? | boycott\w* | zapp\w* |
    bannis\w* | bannir | sieh\w*(?:\ \w+){0,2}\ vo[nm] | erspar\w* | déçu\w* | enttäuscht\w* | disappoint\w* |
    decepcion\w* | descart\w+ | evit\w+ | évit\w+ | écart(?:e|er|ez|ons|ant) | retir(?:e|er|ez|ant) | verzicht\w* |
    vermeid\w* | meide\w*
"""

# Verbs and adverbs that exclude the names between them: "leave ... out"
ENCLOSING_BEFORE = r"""
    leave | leaving | keep | keeping | take | taking | filter | filtering | rule | ruling | cut | cutting | set |
    setting | put | putting | weed | drop | strike | scratch | cross | lass(?:e|t|en)? | filter(?:e|t) |
    sortier(?:e|t) | streich(?:e|t)? | schlie(?:ß|ss)(?:e|en|t)? | klammer(?:e|t) | nimm | blend(?:e|et) |
    laisse[zr]? | mets | mettez | deja[dr]? | dejando | dejemos
"""
ENCLOSING_AFTER = r"""
    (?<!came\x20)(?<!come\x20)(?<!comes\x20)out(?!\ (?:there|loud)) | aside | to\ (?:one|the)\ side | off\ the\ list |
    from\ (?:the|my|this|your)\ (?:search|results?|list|comparison|answer) | weg | beiseite | außen\ vor |
    aus(?!\ (?:de[rmn]|eine[rmn]|(?-i:[A-ZÄÖÜ\d]))) |
    heraus | raus | unberücksichtigt | von\ der\ liste | de\ côté | à\ part | de\ la\ liste | fuera | de\ lado |
    al\ margen | aparte | de\ la\ lista
"""

# What excludes the name before it
AFTER = r"""
    (?:kannst|könnt)\ (?:du|ihr)\ (?:dir|euch)\ sparen | fällt\ weg | entfällt | brauche?\ ich\ nicht | excluded |
    excepted | exempted | omitted | left\ out | aside | apart | notwithstanding | ruled\ out | off\ the\ table |
    out\ of\ the\ (?:question|running) | removed | disregarded |
    not\ (?:included|wanted|needed|considered|please|thanks|an\ option) |
    (?:do|does)(?:\ not|n['’]t)\ (?:interest|matter|count|work\ for|appeal) | no\ (?:thanks|way) |
    (?:should|must|shall)(?:\ not|n['’]t)\ (?:be\ )?(?:used|included|shown|considered|count|counted|appear) |
    ausgenommen | abgesehen | ausgeschlossen | (?:beiseite|weg|aus|außer\ acht)(?:ge)?lassen |
    kommt\ nicht\ in\ ?frage | habe?\ ich\ (?:genug|satt) | exclu(?:e|s|es)? | excepté(?:e|s|es)? |
    mis(?:e|es)?\ à\ part | à\ part | non\ compris(?:e|es)? | excluid[oa]s? | exceptuad[oa]s? | no\ incluid[oa]s? |
    aparte | ni\ hablar | no\ me\ (?:importa|interesa|gusta) | a\ miss | a\ wide\ berth | non\ inclu(?:s|e|se|ses)? |
    non\ merci | très\ peu\ pour\ (?:moi|nous) | ça\ suffit | suffi(?:t|sent) | n['’]y\ figure(?:nt)?\ (?:plus|pas) |
    ne\ m['’]intéresse(?:nt)?\ (?:pas|plus) | que\ (?:je|nous|on)\ ne\ veu(?:x|t|lons)\ (?:plus|pas) |
    no[,]?\ (?:gracias|thank\ you) | nein[,]?\ danke | need\ not\ apply |
    (?:mal\ |einmal\ )?abs(?:ieht|ehe|ehen|iehst) | lass\w*(?:\ \w+)?\ die\ finger |
    interessier(?:t|en)\ (?:mich|uns)\ nicht | (?:bitte|lieber)\ nicht | exclus(?:e|es)? | no\ me\ interesan? |
    me\ sobran? | descartad[oa]s? | fuera
"""

# Words of something else than what is named: "... , so recommend somebody else"
ALTERNATIVES = r"""
    other | others | else | elsewhere | otherwise | instead | alternatives? | alternatively | rest | remaining |
    apart | ander(?:[esm]|e[nrsm])? | sonst | sonstige\w* | stattdessen | alternativ\w* | übrig\w* | woanders |
    autres? | ailleurs | sinon | plutôt | restant\w* | reste | restent | otr[oa]s? | demás | resto | quedan? |
    alternativas?
"""

# "I have read all of Wired's, so exclude them": what a pronoun stands for is not clear
PRONOUNS = r"""
    no\ more\ of\ (?:them|those|these|that) | not\ (?:those|these) |
    (?:\w+n['’]t|not|never|no)(?:\ \w+){1,4}\ (?:it|them|those)(?=$|[.,;:!?]) |
    (?:exclude|skip|ignore|omit|drop|avoid|leave|remove|hide)\ (?:them|it|those|that|these|him|her) |
    (?:exclu[st]?|excluez|ignore[zr]?|écarte[zr]?|évite[zr]?|retire[zr]?)[-\ ](?:les?|la|cette|ces|ce|celle|ceux) |
    (?:on|je|nous)\ (?:les?|la|l['’])\ ?(?:oubli\w+|saut\w+|exclu\w+|ignor\w+|écart\w+|laiss\w+|retir\w+|zapp\w+) |
    (?:exclúye|ignóra|omíte|descárta|evíta)l[oa]s? | (?:lass|ignoriere?|schließe?)\ (?:sie|es|ihn|diese[nrs]?|die|das)
"""

# What takes up a list before a colon: "Wired, Fortune: both out"
BOTH = r"""
    both | these | those | them | beides? | beiden | diese | ces | les\ deux | ceux-ci | los\ dos | las\ dos |
    amb[oa]s | est[oa]s
"""

# What a question says of the exception that it has just named: "All have signed except Acme; what is pending there?"
REFERRING = r"""
    them | theirs? | dort | dafür | dazu | y\ (?:est|sont) | eux | elles? | leurs? | ahí | allí | ell[oa]s?
"""

# "Rather ... than": the second is excluded
PREFERENCES = r"""
    rather | sooner | prefer\w* | lieber | eher | préf[eéè]r\w+ | plutôt | prefier\w+ | mejor | antes(?!\ del?(?!\w))
"""
COMPARED = r"""
    than | over | to | als | statt | à | que | a | antes\ que | antes\ de
"""

CONJUNCTIONS = r"""
    and | or | nor | as\ well\ as | oder | und | noch | sowie | ou | et | ni | o | u | y | e
"""
PREPOSITIONS = r"""
    by | from | in | on | of | with | von | vom | aus | bei | mit | avec | par | de | del | du | chez | por | en | con
"""
ARTICLES = r"""
    the | a | an | der | die | das | den | dem | le | la | les | el | los | las
"""

# Words that begin another clause, of which a negation before them says nothing
CLAUSES = r"""
    but | while | whereas | although | though | because | when | where | if | then | sondern | aber | während | dass |
    weil | wenn | mais | tandis | alors | lorsque | quand | sino | pero | mientras | cuando | porque
"""

# What with another negation before it names all the same: "never without", "nunca sobra", "not a day skips"
TWICE = r"""
    (?:that|which|who)\ (?:is|are|was|were|do|does|did)(?:n['’]t|\ not) |
    without | ohne | sans | sin | sobran? | omit\w* | skip\w* | exclud\w* | ignor\w* | evit\w* | descart\w* | falt\w* |
    fehl\w* | lass\w* | trop | too\ much
"""
