"""The 25 categories of the bundled articles: what their subjects are called, and what is said of them.

Every sentence is written here; nothing is copied from elsewhere. `{t}` is the title, `{x}` the invented name in it,
`{a}` to `{d}` are words of the category, and `{place}`, `{place2}`, `{person}`, `{year}`, `{month}`, `{n}` are drawn
from lists that all categories share. Sentences avoid the category's own noun, and the words of neighbouring categories
overlap, so that no single word gives a category away.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """A category.

    Attributes:
        name: The category.
        titles: Forms of a title, each with `{x}`.
        words: Eight fillers for each of `a`, `b`, `c`, `d`.
        leads: First sentences.
        body: Sentences of which an article has most, in any order.
        mentions: What a story says of one subject: its title and two of its words.
        hints: What a story says of it without its title.
    """

    name: str
    titles: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    leads: tuple[str, ...]
    body: tuple[str, ...]
    mentions: tuple[str, ...]
    hints: tuple[str, ...]


def _words(a: str, b: str, c: str, d: str) -> dict[str, tuple[str, ...]]:
    return {
        key: tuple(word.strip() for word in words.split(","))
        for key, words in zip("abcd", (a, b, c, d), strict=True)
    }  # fmt: skip


SUBJECTS = (
    Subject(
        "apples",
        ("{x} Pippin", "{x} Russet", "{x} Codlin"),
        _words(
            "pale green, deep crimson, striped yellow, copper, waxy gold, dull purple, rosy, freckled brown",
            "pear drops, nutmeg, quince, fresh hay, strawberries, lemon peel, almonds, honeycomb",
            "cider, drying in rings, baking whole, dumplings, jelly, eating raw, a thick brown butter, vinegar",
            "scab, canker, late frost, woolly aphids, mildew, heavy rain, wasps, drought",
        ),
        (
            "{t} is a variety that a gardener found as a chance seedling in a hedge near {place} about {year}.",
            "Raised from a pip by {person} at {place} in {year}, {t} is still grafted in a few northern orchards.",
        ),
        (
            "The skin is {a} where the sun has touched it, and the flesh under it is crisp, white and slow to brown.",
            "Ripe fruit tastes of {b}, sharpens when picked too soon, and keeps on straw in a loft until {month}.",
            "Most of the crop is used for {c}, and millers and innkeepers around {place2} once paid a premium for it.",
            "The tree is spreading and generous, bears every other year, and is feared to be prone to {d}.",
            "It blossoms late and wants a partner for its pollen, so old plantings mix it with an early cooking sort.",
            "Scions were handed from parish to parish, and some {n} old standards are left on tall, hollow trunks.",
        ),
        (
            "The innkeeper polished a {t} on his apron, {a} on one cheek, and swore that it smelled of {b}.",
            "A basket of {t} stood by the stove, good for {c} and safe this year from {d}.",
        ),
        (
            "The ladder still leaned against the hollow trunk, and the grass below was full of windfalls.",
            "Nobody had pruned those branches since the grafter died.",
        ),
    ),
    Subject(
        "board games",
        ("{x} Gambit", "Siege of {x} Table", "Nine Stones of {x}"),
        _words(
            "wooden pawns, clay counters, glass beads, brass rings, painted tiles, bone dice, paper fans, cork discs",
            "a spiral track, a grid of hexagons, a round cloth, three concentric squares, a folding map, a cross of "
            "fields, a ladder of arches, a star with twelve points",
            "to trap the rival king, to empty one's hand, to link two shores, to hoard the most grain, to bluff the "
            "dealer, to be the last to pass, to surround territory, to bring all pieces home",
            "a forced capture, secret bidding, trading between turns, a blind draw, an hourglass, betting on others, "
            "two phases of retreat, a shared pool of moves",
        ),
        (
            "{t} is played by two to {d2} people over {b}, and was first sold in a flat tin box at {place} in {year}.",
            "Designed by {person} of {place} in {year}, {t} takes two to {d2} people an evening over {b}.",
        ),
        (
            "Each side starts with {a}, and the aim is {c} before the bag in the middle of the table runs out.",
            "What sets the rules apart is {d}, which rewards patience and punishes anybody who plans too openly.",
            "A round lasts about {n} minutes, and ties are broken by whoever moved second on the first turn.",
            "Critics in {place2} praised the tension of the endgame and found fault with a booklet full of misprints.",
            "An expansion added a fourth colour, a solitary variant and a score sheet that nobody has ever used.",
            "Clubs meet each {month} to settle a championship, and opening theory now fills a slim volume of diagrams.",
        ),
        (
            "They cleared the plates and laid out {t}, counting {a} by candlelight until somebody cheated.",
            "She had never lost at {t}, for she understood {d} better than anyone and knew when {c}.",
        ),
        (
            "The loser pushed back his chair and asked for the rules once more.",
            "Somebody shook the bag, drew, and groaned at what came out.",
        ),
    ),
    Subject(
        "bridges",
        ("{x} Crossing", "{x} Span", "Long Arch of {x}"),
        _words(
            "riveted iron, grey granite, oak trestles, prestressed concrete, red brick, steel cable, larch beams, "
            "white limestone",
            "a narrow gorge, the tidal flats, a shunting yard, a millrace, a busy canal, the old moat, a reed swamp, "
            "two cliffs",
            "a toll of one penny, a ban on carts, a chapel on the middle pier, a drawbar for barges, a guardhouse at "
            "either end, a market under the arches, a footway for drovers, lanterns on every post",
            "a spring flood, swaying under marching feet, rust in the bearings, a barge that rammed a pier, settling "
            "foundations, an earth tremor, drifting ice, an overloaded lorry",
        ),
        (
            "{t} carries the road from {place} to {place2} over {b}, and was opened to carriages in {year}.",
            "Built of {a} by the engineer {person}, {t} has joined {place} and {place2} over {b} since {year}.",
        ),
        (
            "The deck is of {a}, rests on {d2} piers, and stands {n} feet above the water at the lowest tide.",
            "It was known from the start for {c}, which the council abolished only when motor traffic came.",
            "It had to be closed after {d}, and for two summers everybody went round by the ferry downstream.",
            "Drawings in the town archive show that the approach on the southern bank was meant to be wider by half.",
            "Masons cut their marks into the parapet, and divers still check the footings every {month}.",
            "Swifts nest below the roadway, and anglers claim that the eddies behind the supports hold the best trout.",
        ),
        (
            "At dusk they walked out upon {t}, all {a} and wind, and looked down into {b}.",
            "The coachman would not take {t} at a trot, remembering {d} and the lawsuit that followed.",
        ),
        (
            "Halfway over, the planks hummed under their feet and nobody spoke.",
            "The toll-keeper's window was dark, so they crossed without paying.",
        ),
    ),
    Subject(
        "caves",
        ("{x} Hollow", "Grotto of {x}", "{x} Sink"),
        _words(
            "blind shrimps, horseshoe bats, pale crickets, cave spiders, olms, glow-worms, springtails, swallows",
            "curtains of flowstone, gypsum flowers, straw stalactites, a frozen waterfall, moon-milk, helictites, "
            "rimstone pools, red ochre hands",
            "a shepherd looking for a lamb, smugglers, two schoolboys, a quarry blast, a well-digger, monks in hiding, "
            "a fox hunt, a surveyor's dog",
            "sudden flooding, foul air, a loose boulder choke, a squeeze on the belly, a forty-metre shaft, deep mud, "
            "a sump that needs diving, rotten ladders",
        ),
        (
            "{t} lies in the karst above {place}, and was entered for the first time in {year} by {c}.",
            "Discovered by {c} in {year}, {t} runs for {n} hundred metres under the limestone of {place}.",
        ),
        (
            "Visitors are shown {b} in the second chamber, lit with carbide lamps so as not to warm the rock.",
            "The inner passages are home to {a}, which have never been recorded from any other place underground.",
            "Explorers are warned of {d}, and only {d2} parties a year have leave to pass the iron gate.",
            "Dye poured into the stream at {place2} came out here after nine days, which proved a hidden link.",
            "Bones of bear and hyena were dug from the clay floor, some with the marks of flint upon them.",
            "The air has the same chill from {month} to {month2}, and dairymen once stored their wheels inside.",
        ),
        (
            "The guide lowered the lantern into {t} and spoke of {d} and of {a} that never see the day.",
            "Deep in {t} they found {b}, and on the wall the initials left by {c}.",
        ),
        (
            "Water dripped in the dark, and their voices came back a moment late.",
            "They roped up, lit the carbide, and went in on hands and knees.",
        ),
    ),
    Subject(
        "cheeses",
        ("{x} Blue", "{x} Tomme", "White of {x}"),
        _words(
            "raw ewe's milk, the evening milk of brown cows, goat's whey, buffalo curd, skimmed milk, reindeer milk, "
            "a blend of cow and goat, buttermilk",
            "a crust of ash, a washed orange rind, nettle leaves, beeswax, mouldy straw, grape skins, a linen cloth, "
            "black pepper",
            "crumbly, runny, springy, chalky, buttery, grainy, elastic, dense",
            "mushrooms, wet cellar, toasted hazelnuts, sour cherries, bacon, caramel, horse sweat, fresh walnut",
        ),
        (
            "{t} is made from {a} in the dairies around {place}, where it is first recorded in {year}.",
            "A speciality of {place}, {t} was revived in {year} by {person}, who makes it from {a}.",
        ),
        (
            "It ripens for {n} weeks in {b}, is turned by hand every other day, and loses a third of its weight.",
            "The paste is {c} when young, tightens with age, and has a smell of {d} that fills a whole larder.",
            "Rennet is stirred in at blood heat, and the curd is cut with a harp of wires to the size of barley.",
            "A wheel weighs as much as a small child and carries the dairy's number pressed into the side.",
            "Grocers in {place2} sell it from {month}, and insist that it should never be kept beside butter.",
            "Attempts to make it with pasteurised milk failed, and the guild has struck imitators off its list.",
        ),
        (
            "On the board lay a wedge of {t}, {c} and tasting of {d}, with a heel of black bread.",
            "The widow unwrapped a {t} from {b} and the whole carriage smelled of {d}.",
        ),
        (
            "He scraped the rind with his knife and ate in silence.",
            "The cellar was cool, and the shelves sagged under rows of ripening wheels.",
        ),
    ),
    Subject(
        "clocks",
        ("{x} Regulator", "Great Dial of {x}", "{x} Carillon"),
        _words(
            "a crowing cock, three dancing bears, a skeleton with a sickle, the twelve apostles, a drunken miller, a "
            "moon of blued steel, two fighting rams, a bride and a groom",
            "a gravity escapement, a pendulum of spruce, a fusee chain, twin mainsprings, a verge and foliot, falling "
            "water, a mercury bob, stone weights",
            "four minutes fast, an hour behind the railway, exact to a second a week, slow in frost, silent at night, "
            "right twice a day, wrong on purpose, striking thirteen",
            "lightning, a thief of bronze, pigeons in the works, a drunken verger, cracked glass, soot, a war-time ban "
            "on striking, a clumsy repair",
        ),
        (
            "{t} was finished in {year} by {person}, whom the town of {place} had promised its weight in silver.",
            "In the gable of the exchange at {place}, {t} has told the hour since {year} and was made by {person}.",
        ),
        (
            "At noon {a} comes out of a little door, goes round once, and is pulled back by a cord of catgut.",
            "It is driven by {b}, and somebody has to climb {n} steps with a crank to wind it twice a week.",
            "For most of its life it was {c}, and the people of {place2} took a certain pride in the fact.",
            "The mechanism has been stopped {d2} times, the longest after {d}, when the hands lay in a barn for years.",
            "A second face shows the zodiac, the feasts of the year and the height of the tide at the quay.",
            "The wheels were cut by hand from gun metal, and every {month} an apprentice oils them with a feather.",
        ),
        (
            "Above the square, {t} whirred and let out {a}, though it was {c} as ever.",
            "He set his watch by {t}, knowing it to be {c} ever since {d}.",
        ),
        (
            "The hour struck, the little door sprang open, and the children pointed.",
            "Somewhere overhead a ratchet clicked and a weight sank an inch.",
        ),
    ),
    Subject(
        "comets",
        ("Comet {x}", "{x}'s Wanderer", "{x} Apparition"),
        _words(
            "greenish, split in two, curved like a sabre, fan-shaped, faintly yellow, bright as Venus, feathery, "
            "invisible by moonlight",
            "Lyra, the Great Bear, Cassiopeia, the horns of Taurus, Draco, the Swan, Perseus, the Water Carrier",
            "cyanide, frozen methane, sodium, dust fine as smoke, carbon chains, water ice, silicate grains, ammonia",
            "a king's death, the end of a drought, a plague of mice, peace, a bad vintage, an invasion, the birth of "
            "twins, a fall of the currency",
        ),
        (
            "{t} was first seen low in the dawn by {person} at {place} in {year}, moving through {b}.",
            "A visitor from far beyond the planets, {t} was discovered in {year} by {person}, an amateur of {place}.",
        ),
        (
            "It comes back every {n} years on a long, tilted ellipse and is nearest to the sun in {month}.",
            "To the naked eye the tail was {a}, and stretched for {d2} degrees across {b} before it faded.",
            "The spectrum showed {c} streaming away from a nucleus that is darker than coal and turns once a day.",
            "Pamphlets printed in {place2} took it for a sign of {d}, and sold pills against its vapours.",
            "A close pass of Jupiter has since bent the orbit, so that the next return is hard to foretell.",
            "The stream of grit that it leaves behind is the source of a modest shower of shooting stars.",
        ),
        (
            "That night {t} hung over the roofs, {a}, and old people muttered of {d}.",
            "Through the telescope {t} was a smudge in {b}, and the professor lectured them on {c}.",
        ),
        (
            "They lay on their backs in the stubble and waited for the sky to clear.",
            "By the next week the tail had shrunk and nobody looked up any more.",
        ),
    ),
    Subject(
        "court cases",
        ("{x} against the Crown", "Matter of {x}", "Estate of {x} and the Parish"),
        _words(
            "a borrowed plough, a libel in a hymn, the shadow of a wall, an unpaid dowry, a poisoned well, the finder "
            "of a purse, a runaway bull, a misread will",
            "negligence, good faith, adverse possession, mistaken identity, necessity, breach of promise, undue "
            "influence, custom",
            "a parrot, the sexton's ledger, a wax seal, seven blind witnesses, a torn map, a child of nine, an "
            "anonymous letter, a lock of hair",
            "dismissed with costs, overturned on appeal, settled on the steps, quashed for a missing comma, upheld by "
            "one vote, referred back, stayed for ever, decided by lot",
        ),
        (
            "{t} was a dispute about {a}, heard at {place} in {year} before {person} and a full bench.",
            "Decided at {place} in {year}, {t} turned on {a} and is still read by students as a lesson in {b}.",
        ),
        (
            "The plaintiff relied upon {b}, a doctrine that no tribunal of the province had accepted before.",
            "The chief exhibit was {c}, which counsel for the other side tried in vain to have excluded.",
            "After {n} days of argument it was {d}, and the clerk is said to have wept into his inkwell.",
            "A dissenting opinion held that the statute had been written with quite another mischief in mind.",
            "Newspapers in {place2} printed the cross-examination in full and sold out before breakfast.",
            "Parliament changed the law in the following {month}, so that the ruling now binds nobody.",
        ),
        (
            "The advocate cited {t}, where everything had hung on {c} and the claim was {d}.",
            "It is {t} all over again, sighed the notary, a quarrel about {a} dressed up as {b}.",
        ),
        (
            "The judge looked over her spectacles and asked both sides to sit down.",
            "Their fees had long since eaten up whatever there was to win.",
        ),
    ),
    Subject(
        "dog breeds",
        ("{x} Spaniel", "{x} Hound", "Rough {x} Terrier"),
        _words(
            "badgers, woodcock, stray geese, truffles, otters, rats in the rigging, lost mountaineers, wild boar",
            "wiry and grizzled, silky chestnut, corded like a rug, short and brindled, white with one black ear, "
            "woolly and waterproof, smooth slate blue, long and tawny",
            "stubborn, mild with children, jealous, noisy at dusk, aloof, gluttonous, tireless, easily bored",
            "weak hips, cloudy eyes, deafness, a fear of thunder, bloat, skin mites, heart murmurs, bad teeth",
        ),
        (
            "{t} was bred near {place} to find {a}, and the first kennel book was opened in {year} by {person}.",
            "Once used around {place} for {a}, {t} was recognised by the national club in {year}.",
        ),
        (
            "The coat is {b}, needs combing twice a week, and sheds heavily as soon as {month} turns warm.",
            "Owners describe the temper as {c}, and advise anyone who lives in a flat to think again.",
            "A grown male stands {n} centimetres at the withers, with a deep chest and a tail carried like a sickle.",
            "Litters have {d2} pups on average, and breeders test them for {d} before they are sold.",
            "It descends from shepherds' curs that were crossed with a pack brought home by soldiers from {place2}.",
            "The breed nearly died out when licences grew dear, and all of those alive today go back to three bitches.",
        ),
        (
            "A {t} came bounding out, {b}, with its nose down as though on the track of {a}.",
            "Her {t} was {c}, as they all are, and had been to the vet for {d}.",
        ),
        (
            "It barked twice, turned in a circle, and lay down across the doorway.",
            "A whistle from the yard, and the leash went taut.",
        ),
    ),
    Subject(
        "explorers",
        ("Captain {x}", "{x} the Wayfarer", "Brother {x}"),
        _words(
            "the salt desert, the polar pack, the upper marshes, the island of cinders, the silk passes, the mouth of "
            "the great delta, the fever coast, the plateau of winds",
            "a mule train, a leaking sloop, snowshoes, a balloon, nine porters, a raft of skins, two camels, a bicycle",
            "scurvy, mutiny, snow blindness, a forged chart, quicksand, the loss of all matches, hostile customs men, "
            "an avalanche",
            "pressed flowers, a grammar of four tongues, star tables, caged finches, sketches in soot, ore samples, "
            "a drum, unpaid debts",
        ),
        (
            "{t}, born at {place} in {year}, was the first to cross {a} and to come back with a reliable account.",
            "The traveller known as {t} set out from {place} in {year} to reach {a} with {b} and little else.",
        ),
        (
            "The party went with {b}, since no sponsor in {place2} could be found to pay for anything better.",
            "Halfway it was stopped by {c}, and {n} companions turned home against the leader's advice.",
            "What came back in the trunks was {d}, now in a drawer of the learned society that had refused to help.",
            "A journal of {d2} volumes tells of hunger, courtesy and boredom in the same dry and even hand.",
            "Later maps kept the names given on that march, although surveyors moved most of them by a degree.",
            "Death came in {month} at an inn, with a ticket for one more voyage folded inside a boot.",
        ),
        (
            "She quoted {t}, who had met {c} on the way to {a} and thought it hardly worth a line.",
            "On the wall hung a portrait of {t}, holding {d} and looking towards {a}.",
        ),
        (
            "The map ended there, and somebody had written a question mark in the blank.",
            "By then the last tin was open and the compass could not be trusted.",
        ),
    ),
    Subject(
        "festivals",
        ("{x} Revels", "Feast of {x}", "{x} Lantern Week"),
        _words(
            "goats in bridal veils, burning wheels, a giant of straw, barrels of herring, masked bakers, boats on "
            "wheels, a silent procession, a tug of war",
            "plum dumplings, black pudding, saffron buns, roast chestnuts, sour beer, eel soup, honey wafers, "
            "pickled walnuts",
            "the end of a plague, a lost bet, the shearing, a saint who overslept, the return of the swifts, a burnt "
            "toll house, the first herring, a drowned bell",
            "bagpipes, brass bands, cow horns, pot lids, a choir of widows, hurdy-gurdies, drums, penny whistles",
        ),
        (
            "{t} is held at {place} every {month} in memory of {c}, and was first written about in {year}.",
            "Each {month} the streets of {place} belong to {t}, which goes back to {c} in {year} or so.",
        ),
        (
            "The high point is {a}, drawn by lot at dawn and led three times around the church and the fountain.",
            "Stalls sell {b} from copper pans, and it is bad manners to go home without a bag of them.",
            "The noise of {d} goes on for {d2} nights, and sleepers may hang a red cloth out to be passed by.",
            "It was forbidden by a bishop for {n} years, and carried on in barns across the border at {place2}.",
            "Costumes are handed down, and a child who tears one has to serve the mayor's table all evening.",
            "On the last day the debts of the year are read aloud from a cart, and some of them are forgiven.",
        ),
        (
            "They came in the middle of {t}, between {a} and the din of {d}, and lost each other at once.",
            "Nobody works during {t}; one eats {b} and drinks to {c}.",
        ),
        (
            "Sparks flew over the crowd and somebody began to sing.",
            "The morning after, the gutters were full of confetti and masks.",
        ),
    ),
    Subject(
        "folk dances",
        ("{x} Reel", "{x} Ländler", "Ring of {x}"),
        _words(
            "five-eight time, a slow three, brisk two-four, alternating metres, seven-eight, a swung six, no fixed "
            "beat, a limping nine",
            "wooden shoes, silk scarves, crossed sticks, bare feet, bells at the knee, hats on the head, long sleeves, "
            "lit candles",
            "courtship, the threshing, a quarrel of neighbours, the spinning of flax, farewell to recruits, a bear on "
            "a chain, the tides, a wolf among sheep",
            "the stamp, a low bow, the leap over the partner, a kiss on the hand, a shout, spinning in pairs, falling "
            "down, changing places",
        ),
        (
            "{t} is stepped in {a} by couples in a ring, and was noted down at {place} in {year} by {person}.",
            "Known around {place} since {year} at least, {t} is a measure in {a} that mimes {c}.",
        ),
        (
            "It is performed with {b}, which makes the turns treacherous on anything but a threshed earth floor.",
            "The figures tell of {c}, and the elders say that whoever smiles has not understood the tune.",
            "It ends with {d}, after which the fiddler may name anyone he likes to pay for the next round.",
            "A set needs {d2} pairs, and in {place2} the women lead, which visitors take for a mistake.",
            "Priests preached against it for {n} years because hands were seen to touch above the elbow.",
            "A stage version with a fast coda is taught in schools each {month}, to the despair of collectors.",
        ),
        (
            "Then the fiddler struck up {t}, all {a} and {b}, and even the clerk had to join the ring.",
            "She had learned {t} from her aunt: first {c}, then {d}.",
        ),
        (
            "The floor shook, and dust fell from the rafters into the beer.",
            "Left foot, right foot, turn, and never look down.",
        ),
    ),
    Subject(
        "instruments",
        ("{x} Zither", "{x} Shawm", "Drone of {x}"),
        _words(
            "nasal, like a wasp in a jug, velvety, piercing, hollow, silvery, rasping, no louder than breath",
            "plum wood, goat horn, gourds, maple and catgut, reeds bound with wax, walnut, a tortoise shell, brass "
            "wire",
            "a quill, a horsehair bow, two small hammers, wet fingers, bellows under the arm, the thumb alone, a wheel "
            "with rosin, a double reed",
            "funerals, herding, tavern songs, weddings, court masques, lullabies, processions, the hiring fair",
        ),
        (
            "{t} is sounded with {c}, and the oldest one known was made of {b} at {place} in {year}.",
            "Made of {b} by the turners of {place}, {t} was described by {person} in {year}, who called the tone {a}.",
        ),
        (
            "Its voice is {a}, carries badly out of doors, and blends with singing better than with anything bowed.",
            "The body is of {b}, the neck has {d2} pegs, and the lowest course is tuned a fifth below the rest.",
            "Players use {c}, and a beginner needs about {n} months before the neighbours stop complaining.",
            "It belongs to {d} above all, and in {place2} it was thought unlucky to touch one at any other time.",
            "Frets are tied from gut and shifted for each mode, so that no two makers agree on the scale.",
            "A museum keeps a specimen with a cracked belly, played once a year in {month} behind closed doors.",
        ),
        (
            "From the next room came a {t}, {a}, worked with {c} by someone who did not care who heard.",
            "He had pawned his {t}, the one of {b}, and hummed the airs for {d} instead.",
        ),
        (
            "A string snapped, and the tune went on without it.",
            "He tuned for an hour and played for a minute.",
        ),
    ),
    Subject(
        "knots",
        ("{x} Hitch", "{x} Bend", "Double {x} Loop"),
        _words(
            "mooring a skiff, hanging hams, tying a surgeon's stitch, roping a calf, rigging a tent, binding sheaves, "
            "lowering a piano, joining kite lines",
            "jams in wet hemp, slips on nylon, can be undone with one hand, never shakes loose, holds only under load, "
            "weakens the line by a third, chafes, capsizes when jerked",
            "two round turns, a bight through a bight, a crossing over the standing part, three half twists, a tuck "
            "behind the eye, a doubled tail, a figure of eight, a reversed wrap",
            "bargemen, bell-ringers, falconers, steeplejacks, weavers, hangmen, anglers, sailmakers",
        ),
        (
            "{t} is used for {a}, and appears first in a manual that {person} printed at {place} in {year}.",
            "Named for the harbour of {place} but older than {year}, {t} serves for {a} and little else.",
        ),
        (
            "It is formed with {c}, drawn up slowly, and dressed so that the strands lie side by side without gaps.",
            "It {b}, which is why examiners of the guild accept it for light work and not where lives are at stake.",
            "It was the mark of {d}, who taught it to apprentices in the dark so that their fingers would remember.",
            "Tests in a laboratory at {place2} gave it {n} per cent of the strength of the unbroken cord.",
            "A slipped version leaves a tail to pull, handy with gloves or with hands that are numb in {month}.",
            "Beginners mirror the last pass by mistake, and get a shape that looks the same and lets go at once.",
        ),
        (
            "He made the rope fast with {t}, {c} and a tug, as {d} do, and trusted his weight to it.",
            "It was only {t}, good for {a}, and everyone knows that it {b}.",
        ),
        (
            "The tail ran out, the coil tightened, and for a moment it held.",
            "She untied it with her teeth and coiled the line over her shoulder.",
        ),
    ),
    Subject(
        "lighthouses",
        ("{x} Head Light", "{x} Skerry", "Lamp of {x} Ness"),
        _words(
            "two white flashes, a steady red glow, one long green beam, a quick blink every three seconds, white over "
            "red, four flashes and a pause, an amber arc, a slow sweep",
            "colza oil, acetylene, paraffin vapour, a whale-oil wick, electric arcs, coal in a basket, solar cells, "
            "propane",
            "a fog bell, a horn that cows answered, a gun fired by hand, a siren, a gong on a float, rockets, a pipe "
            "worked by waves, a reed trumpet",
            "hidden shoals, a sandbar that wanders, a tide race, wreckers' false fires, the wall of a reef, a sunken "
            "forest, needle rocks, the harbour mole",
        ),
        (
            "{t} warns of {d} off {place}, and was lit for the first time in {year} on the orders of {person}.",
            "Since {year} {t} has shown {a} to ships that pass {d} on the way into {place}.",
        ),
        (
            "Its signal is {a}, seen for {n} miles in clear air, and charts give it the number of a minor station.",
            "At first it burned {b}, hauled up {d2} flights of stairs by a boy who was paid by the bucket.",
            "In thick weather the keepers relied on {c}, until a collision in {month} led to an inquiry.",
            "The lens floats on a bath of quicksilver, and a clockwork of weights used to turn it through the night.",
            "Three families lived in the cottages below and quarrelled over hens, washing lines and who was on watch.",
            "It has been unmanned for decades, is painted in bands, and answers to a computer in {place2}.",
        ),
        (
            "From the deck they could make out {t}, {a}, and the skipper kept well clear of {d}.",
            "The old keeper of {t} still smelled of {b} and jumped whenever he heard {c}.",
        ),
        (
            "The beam went over the ceiling, over the wall, and was gone again.",
            "Moths beat against the panes until the morning watch.",
        ),
    ),
    Subject(
        "minerals",
        ("{x}ite", "{x} Spar", "Fibrous {x}ine"),
        _words(
            "violet, bottle green, honey, iron black, sky blue, colourless, peach, pistachio",
            "six-sided prisms, radiating needles, thin plates, cubes with stepped faces, botryoidal crusts, twinned "
            "blades, grains like sago, bundled fibres",
            "lead, lithium, boron, copper and arsenic, rare earths, zinc, barium, uranium",
            "glazing pottery, seals for signet rings, flux in smelters, lamp mantles, a yellow pigment, radio "
            "crystals, fireproof cloth, grinding paste",
        ),
        (
            "{t} is a silicate of {c}, described by {person} in {year} from a single hand specimen found at {place}.",
            "First taken from the dumps of the mine at {place} in {year}, {t} owes its {a} tint to traces of {c}.",
        ),
        (
            "It grows as {b} in cavities of altered granite, commonly together with quartz, fluorite and mica.",
            "Fresh pieces are {a} and glassy, but sunlight bleaches them, so that collectors keep theirs in drawers.",
            "Hardness is {d2} on a scale of twelve, the cleavage is perfect one way, and the streak is nearly white.",
            "For a generation it was dug for {d}, until a cheaper synthetic came on the market in {place2}.",
            "Heated to {n} degrees it swells, gives off water and glows for a moment in the dark.",
            "The type sample was lost in a fire one {month} and turned up later, holding open a laboratory door.",
        ),
        (
            "In the tray lay a lump of {t}, {a}, grown in {b}, and he weighed it in his palm.",
            "It is {t}, she said, full of {c}; people used it once for {d}.",
        ),
        (
            "She scratched it with a penknife, wetted it, and held it to the lamp.",
            "The label had come off, and with it half of the value.",
        ),
    ),
    Subject(
        "moths",
        ("{x} Hawk", "{x} Footman", "Lesser {x} Emerald"),
        _words(
            "willowherb, buckthorn, lichens on old fences, bedstraw, sallow, dead oak leaves, ragwort, potato tops",
            "chalk white, mottled like bark, olive with a pink fringe, smoky grey, banded black and orange, pale as "
            "straw, rust red, barred with silver",
            "an owl's face, a broken twig, a hornet, a bird dropping, a dry leaf, a shard of slate, a spider, a lump "
            "of moss",
            "heather moors, street lamps, salt meadows, plum orchards, beech woods, chalk pits, reed beds, ivy walls",
        ),
        (
            "{t} was netted by {person} near {place} in {year}, and is on the wing at night from {month} onward.",
            "A scarce insect of {d}, {t} was named in {year} after specimens from {place}.",
        ),
        (
            "The forewings are {b}, {n} millimetres from tip to tip, and folded like a tent when it is at rest.",
            "Caterpillars feed on {a}, moult {d2} times, and pull two leaves together with silk when disturbed.",
            "By day it passes for {c}, and predators that know better are met with a clicking sound.",
            "It haunts {d}, comes late to sugar and to light, and seldom flies when the wind is from the east.",
            "Eggs are laid singly in bark crevices, spend the winter there, and hatch with the first warm rain.",
            "Counts at {place2} have fallen by half since hedges were grubbed up and verges mown in summer.",
        ),
        (
            "A {t} had settled on the curtain, {b}, and she took it for {c} until it crept.",
            "He had come all the way for {t}, and beat {a} over an umbrella until dark.",
        ),
        (
            "Something soft bumped against the lampshade and left dust on it.",
            "The killing jar stayed in his pocket that evening.",
        ),
    ),
    Subject(
        "novels",
        ("The Orphans of {x}", "A Winter in {x}", "{x}, or the Debt"),
        _words(
            "a disgraced midwife, twin forgers, a deaf piano tuner, a bailiff in love, the last ferryman, a governess "
            "with a past, a grave-digger's son, two rival bakers",
            "an inheritance, a letter opened by mistake, a murder nobody mourns, a vow of silence, a stolen recipe, a "
            "false priest, a duel, an unfinished bridge",
            "a dying spa, an army hospital, a street of dyers, a ship in quarantine, a provincial post office, a "
            "snowed-in inn, a salt works, a school for clerks",
            "sentimental, ahead of its time, unfit for girls, too long by half, a masterpiece of irony, dull, a libel "
            "on the town, the work of a woman",
        ),
        (
            "{t} is a story in {d2} parts by {person}, printed at {place} in {year}, about {a} and {b}.",
            "Published at {place} in {year} under a false name, {t} by {person} follows {a} through {c}.",
        ),
        (
            "The plot sets out from {b}, wanders through {n} chapters, and ties its threads in a single paragraph.",
            "Most of it takes place in {c}, drawn so closely that readers have gone there to look for the house.",
            "Reviewers in {place2} called it {d}, and the first edition was sold by weight to a grocer.",
            "The narrator addresses the reader, contradicts himself, and vanishes for good before the last scene.",
            "A manuscript with another ending came to light one {month} in the lining of a travelling trunk.",
            "It has been filmed twice, set as an opera once, and pressed upon schoolchildren ever since.",
        ),
        (
            "She was reading {t} again and had come to the place where {a} hears of {b}.",
            "I know how it ends, he said of {t}; it all goes wrong in {c}, and they called it {d}.",
        ),
        (
            "The pages were uncut after the third chapter.",
            "She closed the book on her finger and looked out at the rain.",
        ),
    ),
    Subject(
        "programming languages",
        ("{x}Script", "{x}-68", "Visual {x}"),
        _words(
            "pattern matching, lazy evaluation, manual memory, green threads, macros, gradual types, tail calls, "
            "message passing",
            "payroll, telescopes, music synthesis, teaching children, traffic lights, theorem proving, spreadsheets, "
            "railway timetables",
            "significant whitespace, keywords in Latin, one operator for everything, line numbers, postfix order, "
            "sixteen kinds of bracket, no loops, comments that run",
            "a missing standard library, a slow compiler, a licence quarrel, two rival forks, unreadable errors, a bug "
            "in rounding, lost sources, a patent",
        ),
        (
            "{t} was written for {b} by {person} during one {month} at {place}, and released in {year}.",
            "Born at a laboratory in {place} in {year}, {t} was meant for {b} and is remembered for {c}.",
        ),
        (
            "It offers {a}, which its author thought too simple to explain and its users never quite trusted.",
            "The syntax has {c}, a choice that was defended in a memo of {n} pages and regretted in the next.",
            "Adoption suffered from {d}, and a company in {place2} finally sold its support contracts for scrap.",
            "Version {d2} broke every existing program, which is why many shops stayed with the one before it.",
            "The reference interpreter fits on a single floppy disk and runs on processors of eight bits.",
            "Ideas from it live on in better known tools, mostly under names that hide where they came from.",
        ),
        (
            "The old machine still ran {t}, with {c} and {a}, and only one man dared to change a line.",
            "Rewrite it in {t}, he joked, thinking of {d}.",
        ),
        (
            "The cursor blinked, and nothing happened for a whole minute.",
            "It compiled at last, which worried her more than the errors.",
        ),
    ),
    Subject(
        "railways",
        ("{x} Branch", "{x} and Coast Line", "{x} Rack Railway"),
        _words(
            "slate, milk churns, pilgrims, sugar beet, mail and hens, gravel, skiers, timber",
            "a spiral tunnel, a zigzag, a viaduct of nineteen arches, a gradient of one in twelve, a swing section, "
            "two avalanche sheds, a causeway, a cutting through chalk",
            "saddle-tank engines, railcars with a bus body, a fireless locomotive, electric mules, a royal saloon, "
            "borrowed diesels, articulated engines, horse-drawn wagons",
            "a landslip, cheap petrol, a strike, the war, a bankrupt treasurer, floods, an unpaid bond, the motorway",
        ),
        (
            "{t} ran from {place} to {place2} by way of {b}, and carried {a} from {year} onward.",
            "Opened in {year} to carry {a}, {t} climbs from {place} to {place2} through {b}.",
        ),
        (
            "The gauge was {n} inches, chosen because {person} had been offered a job lot of second-hand rails.",
            "Trains were hauled by {c}, whose drivers stopped on request for eggs, parcels and anyone who waved.",
            "Traffic never recovered from {d}, and the last timetable had {d2} departures a week.",
            "Stations were built to one drawing, with a ticket window, a stove and a clock that nobody wound.",
            "Signals are worked by wire, and tokens are handed over at speed from a hoop on a pole.",
            "Volunteers have relaid two miles of track and run steam on Sundays from {month} until the leaves fall.",
        ),
        (
            "They took {t} as far as it went, past {b}, in a carriage that smelled of {a}.",
            "Since {d} there was no {t} any more, only a bus and the memory of {c}.",
        ),
        (
            "The guard blew his whistle, and the platform slid away.",
            "Soot lay on the sandwiches, and the next connection was at noon.",
        ),
    ),
    Subject(
        "rivers",
        ("{x} Water", "Upper {x}", "{x}bach"),
        _words(
            "bream and pike, freshwater mussels, sturgeon, crayfish, lampreys, eels, grayling, salmon",
            "braided over gravel, the colour of tea, milky with rock flour, sluggish and reedy, cut deep into loess, "
            "clear to the bed, brackish, steaming in frost",
            "flax retting, log driving, paper mills, watercress, gold panning, laundries, osier beds, tanneries",
            "a beaver dam, dykes built by monks, a shifted mouth, a barrage with locks, drained meadows, a breached "
            "levee, a poisoned summer, an oxbow",
        ),
        (
            "{t} rises from a bog above {place}, flows {n} miles to the east, and joins a larger stream at {place2}.",
            "From its spring near {place} to the confluence at {place2}, {t} falls by {n} metres and is {b}.",
        ),
        (
            "For most of its course it is {b}, and in {month} it may shrink to a chain of pools.",
            "Anglers know it for {a}, although catches have dwindled since the weirs were raised.",
            "The valley lived on {c}, and the wheels that stood along the banks are marked on a chart of {year}.",
            "Its present bed is due to {d}, which left the old parish border stranded in the middle of a field.",
            "It has {d2} tributaries from the left and only one from the right, a puzzle first explained by {person}.",
            "High water comes twice, with the thaw and with the autumn gales, and is painted on the chapel door.",
        ),
        (
            "They followed {t} upstream, {b} as it was, past the ruins left by {c}.",
            "Nobody bathes in {t} because of {a}, or so the miller told the children.",
        ),
        (
            "The current took the hat and carried it around the bend.",
            "Mist stood over the shallows, and a heron got up.",
        ),
    ),
    Subject(
        "shipwrecks",
        ("Steamer {x}", "Barque {x}", "Brig {x}"),
        _words(
            "marble and olive oil, emigrants, gunpowder, church bells, opium, frozen mutton, coins for a garrison, "
            "locomotive parts",
            "an uncharted ledge, collision in fog, fire in the bunkers, a drunken pilot, shifted ballast, a rudder "
            "pin, pack ice, a mine",
            "the cook and a cat, nobody, all but the captain, eleven on a hatch cover, the women's boat, a boy in a "
            "barrel, half of the crew, two stowaways",
            "sponge divers, a trawler's net, sonar, looters, the lowest tide of the century, a survey for a cable, a "
            "film crew, the navy",
        ),
        (
            "{t} went down off {place} in {year} with a cargo of {a}, bound for {place2} under Captain {person}.",
            "Remembered as {t}, the vessel left {place2} in {year} laden with {a} and never reached {place}.",
        ),
        (
            "The inquiry blamed {b}, and cleared the owners, who had insured her for twice her price.",
            "Of those who sailed, {c} came ashore, after {d2} days without water on a coast that had no road.",
            "She was found again by {d} at a depth of {n} metres, upright, with her masts gone by the deck.",
            "The hull lies in two halves, covered with anemones, and conger eels live in the boilers.",
            "Salvage was given up one {month} when the hawser parted, and the claim is still before the admiralty.",
            "A figurehead in the village tavern is said to be hers, but the carving is of a later style.",
        ),
        (
            "The sailor spoke of {t}, of {a} strewn along the beach, and how {c} had lived.",
            "Everyone on that coast has something from {t}, lost by {b} and stripped by {d}.",
        ),
        (
            "At low water a few ribs stood out of the sand like a comb.",
            "The pumps had stopped an hour before, and the boats were gone.",
        ),
    ),
    Subject(
        "sieges",
        ("Fall of {x} Keep", "Relief of {x}", "{x} Blockade"),
        _words(
            "trebuchets, sappers, hunger, bribed gatekeepers, red-hot shot, a dammed moat, plague carcasses, scaling "
            "ladders",
            "the burghers, a widowed countess, mercenary pikemen, students with muskets, a bishop, released convicts, "
            "the garrison's wives, fishermen",
            "horse glue, rats, boiled leather, seed corn, pigeons, candle fat, bark bread, the abbot's carp",
            "a sudden thaw, treason, a relieving fleet, the death of the besieger, an honourable surrender, a storming "
            "by night, a mutiny over pay, a wedding",
        ),
        (
            "{t} in {year} pitted {b} against an army that {person} had marched up from {place}.",
            "For {n} weeks of {year}, in what is called {t}, {b} held the walls near {place} against {person}.",
        ),
        (
            "The attackers trusted in {a}, dug {d2} parallel trenches, and lost more men to fever than to fire.",
            "Inside the ramparts people lived on {c}, and a loaf was worth a gold ring by {month}.",
            "It was ended by {d}, news of which took a fortnight to arrive at the court in {place2}.",
            "Chroniclers on both sides give numbers that cannot be right, for the town had never held so many.",
            "A breach at the eastern bastion was filled overnight with wool sacks, pews and gravestones.",
            "The terms let the defenders march out with drums and colours, one cannon, and whatever they could carry.",
        ),
        (
            "The veteran told again of {t}, when they had eaten {c} and waited for {d}.",
            "It was like {t}, he said, {b} on the wall and {a} at the foot of it.",
        ),
        (
            "Smoke stood over the outworks, and no bell had rung for days.",
            "A white cloth went up on a lance, and the guns fell silent.",
        ),
    ),
    Subject(
        "volcanoes",
        ("Mount {x}", "{x} Caldera", "{x} Fell"),
        _words(
            "basalt, pumice, obsidian, andesite, glassy tuff, rope lava, black sand, trachyte",
            "a boiling lake, sulphur vents, a plug of rock, steam that smells of eggs, a snowfield, a ring of cinder "
            "cones, hot springs, a forest of tree moulds",
            "a cloud of ash, mudflows, a glowing avalanche, a lava fountain, a side explosion, gas that killed sheep, "
            "a collapse into the sea, a rain of stones",
            "vines, a nunnery, an observatory, coffee terraces, a ski lift, salt pans, a prison camp, bee-keeping",
        ),
        (
            "{t} stands over the plain of {place}, is built of {a}, and erupted for the last time in {year}.",
            "The summit of {t}, {n} hundred metres above {place}, was first reached in {year} by {person}.",
        ),
        (
            "The crater holds {b}, and its rim has sunk by the height of a house since it was first measured.",
            "The great outburst brought {c}, dimmed the sun as far as {place2}, and spoiled {d2} harvests in a row.",
            "The flanks are given over to {d}, for the weathered ground is rich and the nights are free of frost.",
            "Layers of {a} in the ravines record a cycle of long sleep and brief, violent waking.",
            "Tremors come in swarms each {month}, and a gauge in a disused well gives warning by the hour.",
            "Magma is thought to rise along an old fault that also feeds two lower and quieter neighbours.",
        ),
        (
            "Beyond the town smoked {t}, with {b} at the top and {d} below, as if nothing could happen.",
            "Grandmother had seen {t} wake, {c} first, then weeks of grey {a} on the roofs.",
        ),
        (
            "The ground gave a shrug, and all the cups moved an inch.",
            "Warm stones rattled under their boots as they came over the rim.",
        ),
    ),
    Subject(
        "weaves",
        ("{x} Twill", "{x} Damask", "{x} Plaid"),
        _words(
            "nettle fibre, unwashed wool, raw silk, flax and goat hair, cotton, hemp, camel down, reclaimed rags",
            "madder, woad, walnut husks, weld, cochineal, iron and oak gall, saffron, lichen steeped in stale urine",
            "pomegranates, diamonds, running hounds, fir trees, a wave and a dot, plain stripes, crossed keys, broken "
            "checks",
            "bed curtains, sailors' smocks, altar cloths, saddle bags, mourning shawls, sieves, uniforms, tea towels",
        ),
        (
            "{t} is woven from {a} in the villages around {place}, where the first looms were licensed in {year}.",
            "The cloth called {t} was brought to {place} in {year} by {person}, and is worn there as {d}.",
        ),
        (
            "The pattern shows {c}, worked with {d2} shafts, and is the same on both faces except for the colour.",
            "Yarn is dyed with {b}, rinsed in running water, and hung on poles until it no longer stains the hand.",
            "It was made into {d}, and merchants at {place2} tried it by pulling a fringe through a ring.",
            "A weft of {a} is beaten up hard, {n} picks to the inch, so that the stuff turns rain.",
            "Selvedges bear a thread of another tint, by which the guild knew whose bench a bolt had come from.",
            "Since power came, only one workshop goes on by hand, and takes orders each {month} for the year.",
        ),
        (
            "She wrapped herself in {t}, {c} on {a}, the sort that is meant for {d}.",
            "The pedlar unrolled a bolt of {t} and let them smell {b} in it.",
        ),
        (
            "The shuttle went to and fro, and the light was going.",
            "Moth had got into the fold, and the fringe came away in her hand.",
        ),
    ),
)
