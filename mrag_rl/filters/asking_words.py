"""The words by which questions ask for documents: tables for `mrag_rl.filters`, in four languages.

Each table is a regular expression in which plain spaces mean nothing and `\\ ` is white space (`pattern`).
"""

from __future__ import annotations

# Before a description of documents: "show me", "the", "any"
ASKING = r"""
    show | give | find | list | want | need | love | like | looking\ for | any | some | all | either |
    entweder | soit | only | just | the
    | me | us | my | no | non | plus | and | or | an? | une? | una | ein\w* | und | oder | et | ou | y | o |
    as\ well\ as | along\ with | together\ with | sowie | ainsi\ que | así\ como |
    zeig\w* | suche | nur | alle | montre\w* | cherche | des | les | busco | muestra\w* | quiero | los | las |
    gute | good | best | new | recent | latest | cheap |
    (?:that|which|who)\ (?:is|are|was|were|(?:has|have)\ been)(?:\ still)? | still | (?:ist|sind)\ noch |
    qui\ (?:est|sont) | que\ (?:es|son|está\w*)
"""

# Before a description of documents and a verb of them: "which cameras cost", "welche Kameras haben"
WHICH = r"""
    which | what | welche[rsn]? | quel(?:le)?s? | qué | cuáles | are\ there | gibt\ es | hay | y\ a-t-il | do |
    have\ you
"""
VERBS = r"""
    cost | costs | have | has | are | do | can | could | come | comes | leave | leaves | start | starts | begin |
    depart | include | includes | offer | offers | accept | allow | allows | take | takes | last | mention | cover |
    got |
    kosten | kostet | haben | hat | sind | gibt | kann | können | enthalten | dauern | erlauben | coûtent | coûte |
    ont | sont | peut | peuvent | cuestan | cuesta | tienen | tiene | están | hay | son | incluyen | permiten |
    aceptan | dürfen
"""

# Before a name, in lower case
PREPOSITIONS = r"""
    in | on | at | by | from | for | to | through | via | near | under | chez | bei | von | aus | nach | de | en | à
    | para | por
"""

# Behind a description of documents
FOLLOWING = r"""
    by | with | without | on | from | in | at | under | over | below | above | about | for | that | which | who
    | as\ well\ as | along\ with | sowie | ainsi\ que | así\ como | set | of | nor | noch | ni | until | since |
    before | after | between | less | more | cheaper | up |
    via | and | or | plus |
    but | only | please | first | if | when | where | while | made | worth | around | near |
    approx | approximately | roughly | circa | ca |
    (?:cost|weigh|last|sell|go|charg|start|leav|depart|award|involv|concern|cover|includ|contain|hav|offer|accept|
    allow|tak|begin|com|deal|requir)ing | (?:19|20)\d\d | (?!need)\w+ed |
    von | vom | mit | ohne | über | unter | aus | bei | für | die | der | das | und | oder | seit | ab | bis |
    du | sur | avec | sans | par | pour | dans | qui | depuis | et | ou | con | sin | sobre | en | de | del |
    que | para | desde | y | o
"""

# Where a question begins that asks about the world, and not for documents
INFORMATIONAL = r"""
    why | how | what['’]s(?!\ (?:on|new|available|there)) | what\ (?:caused|happened|made|makes|causes) |
    what\ (?:(?:is|are)(?!\ (?:on|there|available|new|the\ \w+\ ones))|was|were|do|does|did|should|would|can) |
    (?:is|are|was(?!\ (?:wurden?|gibt|haben?|hat)(?!\w))|were)(?!\ (?:there|any)) |
    can\ (?:i|you|one|we)(?!\ (?:book|get|find|have|see|rent|buy)) |
    do\ (?:i|we|people|they) | does(?!\ \w+\ (?:\w+\ )?(?:have|sell|offer)) | explain | tell\ me\ (?:about|why|how) |
    the\ history\ of | where\ (?:do|does|did)\ (?:the|this|that|an?)\ (?:\w+\ ){1,8}come\ from |
    when\ (?:is|was|did|do|does) | who | which\ (?:company|country|inventor|scientist|person) |
    should | has(?!\ any) | warum | wieso | weshalb | wie | was\ (?:ist|sind|war|kostet|macht|bedeutet) |
    kann\ (?:man|ich) | pourquoi | comment | qu['’]est-ce\ que\ (?:c['’]est|le|la) | combien | est-ce\ que\ je |
    por\ qué | cómo | qué\ (?:es|son|significa) | cuánt\w*
"""

# What denies an amount's comparison, with the words between: "should not cost more than", "nothing under"
DENYING = r"""
    (?:not|no|nothing|none|never|cannot|nicht|nichts|kein\w*|nie|ne|pas|rien|nada|nunca|
    (?:do|does|ca|wo|should|must|is|are)n['’]t)
    (?:\ (?:should|must|may|want|wants|to|be|been|cost|costs|costing|spend|pay|take|takes|last|lasts|have|has|is|are|it|
    those|ones|anything|things|with|that|mehr|kosten|über|es|cuesten?|de)){0,4}
"""

# Behind an amount without a unit
UNCOUNTED = r"""
    and | but | or | in | at | on | with | for | to | from | by | max | min | und | oder | aber | mit | für | et
    | ou | mais | en | avec | pour | y | o | pero | con | para
"""

# What denies a boolean field that is named behind it, with a few words between
NEGATIONS_OF_FLAGS = r"""
    not | no | non | without | nothing | none | nobody | no\ one | niemand | personne | nadie | never | neither |
    nor | cannot | \w+n['’]t | lacks? | lacking |
    out\ of | nicht | kein\w* | ohne | nichts | nie | pas | sans | aucun\w* | rien | jamais | sin | nada | ningun\w* |
    ningún | nunca | tampoco | exclud(?:e|es|ing) | except(?:ing)? | other\ than | omit(?:ting)? | skip(?:ping)? |
    avoid(?:ing)? | ignor(?:e|ing|iere?) | außer | ausgenommen | vermeide?n? | exclu(?:s|re|ez|ant) | sauf | hormis |
    évit(?:e|er|ez|ant) | excluy(?:e|endo) | excluir | excepto | salvo | evit(?:a|ar|ando) | descart(?:a|ar|ando)
"""

# What denies one that is named before it
DENIED_FLAGS = r"""
    -free | \ (?:(?:is|are|be|being|was|were|must|should|ist|sind|est|sont|es|son)\ )?(?:not|nicht|pas)
    (?:\ (?:allowed|included|accepted|available|welcome|permitted|possible|offered|erlaubt|inbegriffen|verfügbar|
    autorisé\w*|inclus\w*|permitid\w*|incluid\w*))?(?=\s*(?:$|[.,;:!?)]|(?:and|or|und|oder|et|ou|y|o|in|at)\b)) |
    \s?[:=]\s?(?:no|not|false|none|0|nein|falsch|non|pas|faux|falso)(?!\w) |
    \ (?:isn|aren|wasn|weren)['’]t(?:\ (?:allowed|included|accepted|available|welcome|permitted|possible|offered))? |
    \ (?:prohibited|forbidden|excluded|verboten|interdits?|interdites?|prohibid[oa]s?)
"""

# What says that it does not matter, before and behind
INDIFFERENT = r"""
    (?:do|does|did|wo|need)n['’]t\ (?:need|have\ to|care|mind|matter|require) | need\ not | no\ need | not\ only |
    not\ just | with\ or\ without | (?:i|we)\ (?:have|own)\ no | travel\w*\ without | brauch\w*\ kein\w* |
    nicht\ nur | mit\ oder\ ohne | avec\ ou\ sans | pas\ besoin\ d[e'’] | con\ o\ sin | no\ (?:necesit|hace\ falta)\w*
"""
INDIFFERENT_AFTER = r"""
    or\ (?:no|not|without) | oder\ nicht | ou\ (?:non|pas) | o\ no | (?:is|are|would\ be)\ (?:fine|ok|okay|optional) |
    (?:\w+\ )?(?:(?:is|are)n['’]t|(?:is\ |are\ )?not)\ (?:important|necessary|needed|required|essential) |
    at\ (?:no|an?)\ extra | optional
"""
