"""What words mean in questions: tables for `mrag_rl.filters.field_words`, in English, German, French and Spanish.

Each row of a table is one thing, by all its words, of which the first names it; what is indented further belongs to the
row above.
"""

from __future__ import annotations

UNITS = """
    euro euros eur €
    dollar dollars usd $ dólar dólares
    pound pounds gbp £ quid pfund libras livres
    yen jpy ¥
    franc francs chf franken
    minute minutes min mins minuten minuto minutos
    hour hours hr hrs h stunde stunden heure heures hora horas
    day days tag tage tagen jour jours día días
    night nights nacht nächte nächten nuit nuits noche noches
    week weeks woche wochen semaine semaines semana semanas
    month months monat monate monaten mois mes meses
    year years jahr jahre jahren an ans année années año años
    star stars stern sterne sternen étoile étoiles estrella estrellas
    page pages seite seiten página páginas
    bedroom bedrooms schlafzimmer chambre chambres dormitorio dormitorios habitación habitaciones
    room rooms zimmer pièce pièces cuarto cuartos
    sqm m² m2 qm quadratmeter quadratmetern carrés cuadrados square
    kilometre kilometres kilometer kilometers kilometern km kms kilómetro kilómetros kilomètre kilomètres
    metre metres meter meters metern m metro metros mètre mètres
    centimetre centimetres centimeter centimeters cm zentimeter centimètre centimètres centímetro centímetros
    millimetre millimetres millimeter millimeters mm
    mile miles meile meilen milla millas
    kilogram kilograms kilo kilos kg kilogramm kilogramme kilogrammes kilogramo kilogramos
    gram grams gramm g gramme grammes gramo gramos
    calorie calories kcal kalorien calorías
    inch inches zoll pouce pouces pulgada pulgadas
    gigabyte gigabytes gb
    percent % prozent pourcent porcentaje pourcentage percentage
    person persons people guest guests participant participants patient patients subject subjects attendee attendees
        visitor visitors teilnehmer teilnehmern teilnehmende besucher patienten participantes pacientes asistentes
        personen gäste personne personnes personas huéspedes
"""
"""Units of measure."""

THINGS = """
    rating rated rate ratings score scores scored scoring grade bewertung bewertet note noté notée notés notées
        puntuación valoración valorado valorada calificación
    experience berufserfahrung erfahrung expérience experiencia
    age aged alter âge edad
    citation citations cited zitiert zitate citée cité cités citées citas citado citada citados citadas
    salary salaries wage wages pay pays paying paid earn earning gehalt lohn verdienen salaire salaires gagner
        sueldo salario ganar cobrar
    price prices priced cost costs costing cheap cheaper expensive spend preis preise kosten kostet billiger
        günstiger teurer prix coûte coûtant coûter cher chère précio precio precios cuesta cueste cuesten barato
        barata baratos baratas caro cara
    budget budgets
    length long longer short shorter runtime duration länge lang länger kürzer dauer dauert laufzeit spieldauer durée
        longueur court courte largo larga duración dura duren
    area large larger big bigger small smaller size surface groß größer größe fläche grand grande superficie
    height tall taller high higher hoch höhe höher hauteur haut haute alto alta altura
    claims claim ansprüche ansprüchen anspruch patentansprüche revendication revendications reivindicación
        reivindicaciones
    downloads downloaded download heruntergeladen téléchargement téléchargements téléchargé téléchargés descargas
        descargado descargados
    seats seat seating plätze plätzen sitzplätze sitzplätzen couverts asientos plazas
    words word wörter wörtern wort mots palabras
    views viewed aufrufe aufrufen vues visualizaciones vistas
    comments commented kommentare kommentaren commentaires comentarios
    paragraphs paragraph paras absätze absätzen randnummern paragraphes párrafos
    judges judge richter richtern juges jueces magistrados
    users user nutzer nutzern benutzer benutzern anwender utilisateurs usuarios affected betroffene betroffenen
        betroffener affectés affectées touchés touchées afectados afectadas
    messages message nachrichten nachricht mensajes mensaje
    replies reply answers antworten réponses respuestas
    votes voted stimmen voix votos
    players player spieler spielern joueurs jugadores
    employees employee staff mitarbeiter mitarbeitern employés empleados
    servings serves serving portions portionen portion raciones porciones
    ingredients zutaten ingrédients ingredientes
    steps schritte schritten étapes pasos
    bathrooms bathroom badezimmer bäder salles baños
    floors floor storey stockwerk stockwerke étage étages planta plantas
    doors door türen türer portes puertas
    mileage kilometerstand laufleistung kilométrage kilometraje
    power leistung puissance potencia
    speed geschwindigkeit vitesse velocidad
    battery akku akkulaufzeit batterie autonomie batería autonomía
    storage memory speicher speicherplatz stockage mémoire almacenamiento memoria
    warranty guarantee garantie garantía
    distance strecke distanz entfernung distancia
    elevation ascent climb höhenmeter höhenmetern anstieg dénivelé desnivel
    premium beitrag prämie beiträge prime cotisation prima cuota
    deductible excess selbstbeteiligung selbstbehalt franchise franquicia
    coverage cover deckung deckungssumme couverture cobertura
    interest zins zinsen zinssatz intérêt intérêts interés intereses
    deposit kaution anzahlung caution acompte fianza depósito
    alcohol alkohol alkoholgehalt alcool
    credits ects leistungspunkte crédits créditos
    episodes folgen épisodes episodios
    chapters kapitel chapitres capítulos
    capacity kapazität fassungsvermögen capacité capacidad aforo
    signed sign signature unterschrieben unterzeichnet signé signée signés signées firmado firmada firmados firmadas
        firmó firmaron
    finished finish completed fertig fertiggestellt abgeschlossen beendet terminé terminée terminés terminées achevé
        achevés terminado terminada terminados terminadas finalizado finalizados
    departure departs depart departing leave leaves leaving abflug abreise abfahrt abfliegen losgehen
        reisebeginn départ départs salida salidas salir saliendo
    defended defence verteidigt verteidigung soutenu soutenue soutenus soutenues defendido defendida defendidas
    booking bookings booked bookable buchung buchungen gebucht buchbar réservation réservations réserver réservé reserva
        reservas reservar reservado
    authors author autor autoren autorin auteur auteurs autrice autora autores autoras
    granted grant issue erteilt erteilung délivré délivrée délivrés délivrées concedido concedida concedidos
        concedidas
    weight heavy heavier light lighter weigh weighs weighing gewicht schwer leichter wiegt poids lourd léger peso
        pesa ligero
    published publish publication publications publicación veröffentlichung appeared released release out
        premiered issued aired emitido emitida emitidos
        emitidas ausgestrahlt diffusé diffusés veröffentlicht erschienen
        erschien herausgekommen paru parue parus parues sorti sortie sortis sorties publié publiée publiés publiées
        estrenó estrenada estrenado estrenadas estrenados publicado publicada publicados publicadas salió
        launched launch introduced eingeführt lancé lancée lancés lancées lanzado lanzada lanzados lanzadas
    added add acquired acquire arrived dazugekommen hinzugekommen neu nouveautés nouveauté novedades bought buy
        purchased arrivals hinzugefügt aufgenommen angeschafft ajouté ajoutés
        ajoutée ajoutées acquis añadido añadida añadidos añadidas adquirido adquiridos
    posted post listed list went online advertised uploaded listing eingestellt inseriert ligne anunciado
        anunciados subido dazugekommen nouveautés nouveauté novedades
    decided decide handed ruled decision judgment ruling delivered pronounced entschieden geurteilt urteil ergangen
        verkündet rendu rendue rendus rendues décidé jugé prononcé prononcée prononcés prononcées dictado dictada
        dictados dictadas
    heard hearing hearings verhandelt verhandlung anhörung audience audiencia vista plaidé plaidée
    filed file angemeldet presentada presentados presentadas opened open submitted reported registered registration
        created raised logged brought lodged eingereicht eröffnet eingelegt interpuesto interpuesta
        erstellt gemeldet déposé déposée déposés déposées
        ouvert ouverts créé créés créée créées signalé signalés signalée signalées soumis soumise soumises enviado
        enviada
        enviados enviadas comunicado comunicada comunicados comunicadas presentado abierto abiertos abierta abiertas
        creado
    closed close resolved solved fixed deadline bewerbungsschluss frist einsendeschluss plazo cierre due expire ends
        geschlossen gelöst behoben fermé fermés résolu
        résolus expires expiring endet enden läuft ablaufen expirent vence vencen caducan cerrado cerrados resuelto
        resueltos
    updated update modified changed edited aktualisiert geändert mis modifié actualizado modificado
    started start starts starting began begin begins beginning commence commenced first beginnt begann beginnen
        startet
        startete commencé commencent débute débuté empieza empezó empezaron empiezan comienza comenzaron
        reisebeginn takes place held statt stattfindet lieu lugar
"""
"""What fields are often about, and what was done to a document on a day."""

DATED = ("published", "posted", "decided", "filed", "granted", "added", "started", "closed", "updated")
"""Those of `THINGS` that date a document, the likeliest first."""

EMPTY = """
    a all an and any are as at average be been by can date dates day days describes description did do does e each
    eg etc field first for from full g given had has have highest how if in indicates into is it its kind last least
    lowest many maximum mean minimum most much name no not number of on one only or per possible required some such
    than that the their there they this time to total two type unique used usually value was were what when where
    whether which who whom whose why will with within yes
"""
"""Words of descriptions that do not tell fields apart."""

NOUNS = """
    article articles report reports story stories piece pieces post posts review reviews item items one ones thing
    things title titles result results option options entry entries document documents record records text texts
    anything something everything stuff offer offers book books film films movie movies paper papers study studies
    case cases decision decisions judgment judgments ruling rulings ticket tickets issue issues job jobs role roles
    position positions vacancy vacancies ad ads listing listings place places home homes flat flats apartment
    apartments house houses hotel hotels trip trips recipe recipes dish dishes food product products model models
    device devices artikel bericht berichte buch bücher filme angebot angebote stelle stellen wohnung wohnungen
    urteil urteile studie studien rezept rezepte gericht gerichte livre livres annonce annonces offre offres arrêt
    arrêts décision décisions étude études recette recettes plat plats libro libros película películas oferta
    ofertas anuncio anuncios sentencia sentencias estudio estudios receta recetas plato platos piso pisos artículo
    matter matters opinion opinions order orders proceeding proceedings manuscript manuscripts publication publications
    séjour séjours voyage voyages viaje viajes estancia estancias reise reisen aufenthalt
    package packages holiday holidays stay stays request requests incident incidents complaint complaints property
    properties veröffentlichung veröffentlichungen publicación publicaciones incidencia incidencias
    literature literatur works deal deals inserat inserate vorgang vorgänge fall fälle sache sachen beitrag beiträge
    dossier dossiers affaire affaires caso casos asunto asuntos trabajo trabajos obra obras publikation publikationen
    artículos producto productos producte produit produits produkt produkte hôtel hôtels hoteles
"""
"""What documents are called."""

PERSONS = """
    judge judges justice justices author authors writer writers director directors assignee assignees agent agents
    technician technicians teacher teachers instructor instructors supervisor supervisors lecturer lecturers speaker
    speakers presenter presenters host hosts guide guides doctor doctors physician physicians surgeon surgeons therapist
    therapists nurse nurses lawyer lawyers attorney attorneys artist artists painter painters sculptor sculptors actor
    actors actress composer composers singer singers conductor conductors photographer photographers designer designers
    architect architects editor editors reporter reporters journalist journalists coach coaches trainer trainers player
    players chef chefs cook person persons people employee employees engineer engineers inventor inventors officer
    officers secretary examiner examiners advisor advisors adviser advisers handler handlers investigator investigators
    professor professors researcher researchers translator translators illustrator illustrators narrator narrators
    richter richterin autor autorin leiter leiterin bearbeiter bearbeiterin lehrer lehrerin arzt ärztin anwalt anwältin
    juge auteur autrice réalisateur réalisatrice enseignant enseignante médecin avocat avocate
    juez jueza magistrado autora directora profesor profesora médico médica abogado abogada
"""
"""Who may be named by the surname alone."""
