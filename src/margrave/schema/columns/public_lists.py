"""Lists of values that are public: what a column of text may hold although noise has not shown each of them.

`find_list` says which list the released values of a column are from, `choose_list` which one its rows have
texts of, by their noisy counts. Countries, currencies and languages are those of ISO 3166-1, 4217 and 639-1;
the other lists are what their names say, in English.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray


def _split_words(text: str, mark: str | None = None) -> tuple[str, ...]:
    """Words parted by blanks, or phrases by a mark."""
    return tuple(" ".join(part.split()) for part in text.split(mark))


COUNTRIES_2 = _split_words("""
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW
BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI
FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN
IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME
MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF
PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV
SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE
YT ZA ZM ZW
""")
"""ISO 3166-1, codes of two letters."""

COUNTRIES_3 = _split_words("""
ABW AFG AGO AIA ALA ALB AND ARE ARG ARM ASM ATA ATF ATG AUS AUT AZE BDI BEL BEN BES BFA BGD BGR BHR BHS
BIH BLM BLR BLZ BMU BOL BRA BRB BRN BTN BVT BWA CAF CAN CCK CHE CHL CHN CIV CMR COD COG COK COL COM CPV
CRI CUB CUW CXR CYM CYP CZE DEU DJI DMA DNK DOM DZA ECU EGY ERI ESH ESP EST ETH FIN FJI FLK FRA FRO FSM
GAB GBR GEO GGY GHA GIB GIN GLP GMB GNB GNQ GRC GRD GRL GTM GUF GUM GUY HKG HMD HND HRV HTI HUN IDN IMN
IND IOT IRL IRN IRQ ISL ISR ITA JAM JEY JOR JPN KAZ KEN KGZ KHM KIR KNA KOR KWT LAO LBN LBR LBY LCA LIE
LKA LSO LTU LUX LVA MAC MAF MAR MCO MDA MDG MDV MEX MHL MKD MLI MLT MMR MNE MNG MNP MOZ MRT MSR MTQ MUS
MWI MYS MYT NAM NCL NER NFK NGA NIC NIU NLD NOR NPL NRU NZL OMN PAK PAN PCN PER PHL PLW PNG POL PRI PRK
PRT PRY PSE PYF QAT REU ROU RUS RWA SAU SDN SEN SGP SGS SHN SJM SLB SLE SLV SMR SOM SPM SRB SSD STP SUR
SVK SVN SWE SWZ SXM SYC SYR TCA TCD TGO THA TJK TKL TKM TLS TON TTO TUN TUR TUV TWN TZA UGA UKR UMI URY
USA UZB VAT VCT VEN VGB VIR VNM VUT WLF WSM YEM ZAF ZMB ZWE
""")
"""ISO 3166-1, codes of three letters."""

COUNTRIES = (
    """
Afghanistan; Albania; Algeria; American Samoa; Andorra; Angola; Anguilla; Antarctica; Antigua and Barbuda;
Argentina; Armenia; Aruba; Australia; Austria; Azerbaijan; Bahamas; Bahrain; Bangladesh; Barbados;
Belarus; Belgium; Belize; Benin; Bermuda; Bhutan; Bolivia; Bolivia, Plurinational State of; Bonaire;
Bonaire, Sint Eustatius and Saba; Bosnia and Herzegovina; Botswana; Bouvet Island; Brazil; British Indian
Ocean Territory; Brunei; Brunei Darussalam; Bulgaria; Burkina Faso; Burma; Burundi; Cabo Verde; Cambodia;
Cameroon; Canada; Cape Verde; Cayman Islands; Central African Republic; Chad; Chile; China; Christmas
Island; Cocos (Keeling) Islands; Colombia; Comoros; Congo; Congo, The Democratic Republic of the; Cook
Islands; Costa Rica; Croatia; Cuba; Curaçao; Cyprus; Czech Republic; Czechia; Côte d'Ivoire; Democratic
Republic of the Congo; Denmark; Djibouti; Dominica; Dominican Republic; Ecuador; Egypt; El Salvador;
Equatorial Guinea; Eritrea; Estonia; Eswatini; Ethiopia; Falkland Islands (Malvinas); Faroe Islands; Fiji;
Finland; France; French Guiana; French Polynesia; French Southern Territories; Gabon; Gambia; Georgia;
Germany; Ghana; Gibraltar; Great Britain; Greece; Greenland; Grenada; Guadeloupe; Guam; Guatemala;
Guernsey; Guinea; Guinea-Bissau; Guyana; Haiti; Heard Island and McDonald Islands; Holy See (Vatican City
State); Honduras; Hong Kong; Hungary; Iceland; India; Indonesia; Iran; Iran, Islamic Republic of; Iraq;
Ireland; Isle of Man; Israel; Italy; Ivory Coast; Jamaica; Japan; Jersey; Jordan; Kazakhstan; Kenya;
Kiribati; Korea, Democratic People's Republic of; Korea, Republic of; Kuwait; Kyrgyzstan; Lao People's
Democratic Republic; Laos; Latvia; Lebanon; Lesotho; Liberia; Libya; Liechtenstein; Lithuania; Luxembourg;
Macao; Macedonia; Madagascar; Malawi; Malaysia; Maldives; Mali; Malta; Marshall Islands; Martinique;
Mauritania; Mauritius; Mayotte; Mexico; Micronesia; Micronesia, Federated States of; Moldova; Moldova,
Republic of; Monaco; Mongolia; Montenegro; Montserrat; Morocco; Mozambique; Myanmar; Namibia; Nauru;
Nepal; Netherlands; New Caledonia; New Zealand; Nicaragua; Niger; Nigeria; Niue; Norfolk Island; North
Korea; North Macedonia; Northern Mariana Islands; Norway; Oman; Pakistan; Palau; Palestine; Palestine,
State of; Panama; Papua New Guinea; Paraguay; Peru; Philippines; Pitcairn; Poland; Portugal; Puerto Rico;
Qatar; Romania; Russia; Russian Federation; Rwanda; Réunion; Saint Barthélemy; Saint Helena; Saint Helena,
Ascension and Tristan da Cunha; Saint Kitts and Nevis; Saint Lucia; Saint Martin (French part); Saint
Pierre and Miquelon; Saint Vincent and the Grenadines; Samoa; San Marino; Sao Tome and Principe; Saudi
Arabia; Senegal; Serbia; Seychelles; Sierra Leone; Singapore; Sint Maarten (Dutch part); Slovakia;
Slovenia; Solomon Islands; Somalia; South Africa; South Georgia and the South Sandwich Islands; South
Korea; South Sudan; Spain; Sri Lanka; Sudan; Suriname; Svalbard and Jan Mayen; Swaziland; Sweden;
Switzerland; Syria; Syrian Arab Republic; Taiwan; Taiwan, Province of China; Tajikistan; Tanzania;
Tanzania, United Republic of; Thailand; Timor-Leste; Togo; Tokelau; Tonga; Trinidad and Tobago; Tunisia;
Turkey; Turkmenistan; Turks and Caicos Islands; Tuvalu; Türkiye; UK; USA; Uganda; Ukraine; United Arab
Emirates; United Kingdom; United States; United States Minor Outlying Islands; United States of America;
Uruguay; Uzbekistan; Vanuatu; Vatican City; Venezuela; Venezuela, Bolivarian Republic of; Viet Nam;
Vietnam; Virgin Islands; Virgin Islands, British; Virgin Islands, U.S.; Wallis and Futuna; Western Sahara;
Yemen; Zambia; Zimbabwe; Åland Islands
""".strip()
    .replace("\n", " ")
    .split("; ")
)
"""ISO 3166-1, English short names, and what most people call some of them."""

CURRENCIES = _split_words("""
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF
CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT
LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR
NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN
SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAD
XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF XPT XSU XTS XUA XXX YER ZAR ZMW ZWG
""")
"""ISO 4217."""

LANGUAGES = _split_words("""
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee
el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io
is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn
mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se
sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi
vo wa wo xh yi yo za zh zu
""")
"""ISO 639-1."""

US_CODES = _split_words("""
AK AL AR AS AZ CA CO CT DC DE FL GA GU HI IA ID IL IN KS KY LA MA MD ME MI MN MO MP MS MT NC ND NE NH NJ
NM NV NY OH OK OR PA PR RI SC SD TN TX UT VA VI VT WA WI WV WY
""")
"""Codes of the United States Postal Service for states, the district and territories."""

US_NAMES = (
    """
Alabama; Alaska; American Samoa; Arizona; Arkansas; California; Colorado; Connecticut; Delaware; District
of Columbia; Florida; Georgia; Guam; Hawaii; Idaho; Illinois; Indiana; Iowa; Kansas; Kentucky; Louisiana;
Maine; Maryland; Massachusetts; Michigan; Minnesota; Mississippi; Missouri; Montana; Nebraska; Nevada; New
Hampshire; New Jersey; New Mexico; New York; North Carolina; North Dakota; Northern Mariana Islands; Ohio;
Oklahoma; Oregon; Pennsylvania; Puerto Rico; Rhode Island; South Carolina; South Dakota; Tennessee; Texas;
Utah; Vermont; Virgin Islands; Virginia; Washington; West Virginia; Wisconsin; Wyoming
""".strip()
    .replace("\n", " ")
    .split("; ")
)
"""Their names."""

CANADA_CODES = _split_words("""
AB BC MB NB NL NS NT NU ON PE QC SK YT
""")
"""Codes of Canada Post for provinces and territories."""

CANADA_NAMES = (
    """
Alberta; British Columbia; Manitoba; New Brunswick; Newfoundland and Labrador; Northwest Territories; Nova
Scotia; Nunavut; Ontario; Prince Edward Island; Quebec; Saskatchewan; Yukon
""".strip()
    .replace("\n", " ")
    .split("; ")
)
"""Their names."""

GERMAN_STATES = (
    """
Baden-Württemberg; Bayern; Berlin; Brandenburg; Bremen; Hamburg; Hessen; Mecklenburg-Vorpommern;
Niedersachsen; Nordrhein-Westfalen; Rheinland-Pfalz; Saarland; Sachsen; Sachsen-Anhalt;
Schleswig-Holstein; Thüringen
""".strip()
    .replace("\n", " ")
    .split("; ")
)
"""The states of Germany."""

MONTHS = _split_words("January February March April May June July August September October November December")
DAYS = _split_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
WINDS = _split_words("N NNE NE ENE E ESE SE SSE S SSW SW WSW W WNW NW NNW")
BLOOD_GROUPS = [group + factor for group in ("A", "B", "AB", "O") for factor in ("+", "-")]
METHODS = _split_words("GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH")
SIGNS = _split_words(
    "Aries Taurus Gemini Cancer Leo Virgo Libra Scorpio Sagittarius Capricorn Aquarius Pisces"
)
NUMERALS = _split_words("I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI XXII")
GRADES = ["A+", "A", "A-", "B+", "B", "B-", "C+", "C", "C-", "D+", "D", "D-", "E", "F"]
ANSWERS = ["yes", "no", "maybe", "unknown", "other", "none", "refused", "don't know", "not applicable"]
FREQUENCIES = ["never", "rarely", "sometimes", "often", "usually", "always"]
AGREEMENTS = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]


def _in_all_cases(words: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """A list of words in the cases in which they are written, by what that is called."""
    return {
        "": tuple(words),
        ", capital letters": tuple(word.upper() for word in words),
        ", small letters": tuple(word.lower() for word in words),
        ", first letter capital": tuple(word[:1].upper() + word[1:].lower() for word in words),
    }


def _make_lists() -> Mapping[str, tuple[str, ...]]:
    plain = {
        "compass points": WINDS,
        "blood groups": BLOOD_GROUPS,
        "HTTP methods": METHODS,
        "Roman numerals": NUMERALS,
        "grades": GRADES,
        "letters": list(ascii_uppercase),
        "small letters": list(ascii_lowercase),
        "states of the US, codes": US_CODES,
        "provinces of Canada, codes": CANADA_CODES,
        "states of the US and provinces of Canada, codes": [*US_CODES, *CANADA_CODES],
        "countries, ISO 3166 codes of two letters": COUNTRIES_2,
        "countries, ISO 3166 codes of three letters": COUNTRIES_3,
        "currencies, ISO 4217": CURRENCIES,
        "languages, ISO 639": LANGUAGES,
    }
    cased = {
        "months": MONTHS,
        "months, short": [month[:3] for month in MONTHS],
        "days of the week": DAYS,
        "days of the week, short": [day[:3] for day in DAYS],
        "signs of the zodiac": SIGNS,
        "frequencies": FREQUENCIES,
        "degrees of agreement": AGREEMENTS,
        "answers": ANSWERS,
        "states of the US": US_NAMES,
        "provinces of Canada": CANADA_NAMES,
        "states of Germany": GERMAN_STATES,
        "countries": COUNTRIES,
    }
    lists = {name: tuple(words) for name, words in plain.items()}
    for name, words in cased.items():
        for case, spelt in _in_all_cases(words).items():
            if spelt not in lists.values():
                lists[name + case] = spelt
    return MappingProxyType(dict(sorted(lists.items(), key=lambda one: (len(one[1]), one[0]))))


def _find_lists_of() -> Mapping[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for place, words in enumerate(PUBLIC_LISTS.values()):
        for text in words:
            found[text] = (*found.get(text, ()), place)
    return MappingProxyType(found)


PUBLIC_LISTS = _make_lists()
"""The lists by name, the shorter first."""
LEAST_VALUES, LEAST_SHARE = 3, 0.8
"""Released values that must be on a list for it to fit, and their share of all released values; or the share
of the rows."""
EVIDENT_LIST = 5.0
"""Noise standard deviations from which a list's rows are evident: noise alone passes them once in sixty
thousand looks at all lists."""
LISTS_OF = _find_lists_of()
"""The places of the lists that each text is on."""
MOST_LISTS = max(map(len, LISTS_OF.values()))
"""How many lists a text is on, at most."""


BY_LIST = " by the public list "


def lists_used(looks: Collection[str]) -> Mapping[str, str]:
    """Columns whose values were counted by a public list, and its name, from a ledger's public words.

    Args:
        looks: What was asked, in the words of `name_counts`.
    """
    parts = [look.removeprefix("counts of ").rpartition(BY_LIST) for look in looks if BY_LIST in look]
    return {column: name.strip("'") for column, _, name in parts}


def name_counts(column: str, list_name: str) -> str:
    """What counting the listed values of a column is called in the ledger; "" for no public list.

    Example:
        >>> name_counts("month", "months")
        "counts of month by the public list 'months'"
    """
    return f"counts of {column}" + (f"{BY_LIST}'{list_name}'" if list_name else "")


def find_list(texts: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """The name and the values of the public list that most of some texts are from, or None.

    Of several lists that hold as many of the texts the shortest is taken.

    Args:
        texts: Released values of a column.

    Example:
        >>> find_list(["Mon", "Sun", "Fri"])[0]
        'days of the week, short'
        >>> find_list(["Bonn", "Aachen", "Jena"]) is None
        True
    """
    held = count_by_list(texts, repeat(1, len(texts)))
    if held.max() < max(LEAST_VALUES, LEAST_SHARE * len(texts)):
        return None
    return list(PUBLIC_LISTS.items())[int(held.argmax())]


def may_fit_list(texts: Collection[str]) -> bool:
    """Whether too few texts are released to say of a list that it fits, and none says that no list does.

    Args:
        texts: Released values of a column.
    """
    return bool(count_by_list(texts, repeat(1, len(texts))).max() >= LEAST_SHARE * len(texts))


def count_by_list(texts: Iterable[str], counts: Iterable[int]) -> NDArray[np.int64]:
    """Rows by public list, [lists]: a row of a text that is on several lists counts for each. **Not
    private** where the counts are not."""
    found = np.zeros(len(PUBLIC_LISTS), dtype=np.int64)
    for text, count in zip(texts, counts, strict=True):
        for place in LISTS_OF.get(text, ()):
            found[place] += count
    return found


def choose_list(noisy: NDArray[np.float64], sigma: float, rows: float) -> tuple[str, tuple[str, ...]] | None:
    """The name and the values of the public list that most rows have a text of, or None.

    Of several lists whose rows noise does not tell apart the shortest is taken.

    Args:
        noisy: Noisy counts of `count_by_list`.
        sigma: Standard deviation of their noise.
        rows: How many have a text, about.
    """
    least = max(LEAST_SHARE * rows, EVIDENT_LIST * sigma, float(noisy.max()) - EVIDENT_LIST * sigma)
    fitting = np.flatnonzero(noisy >= least)
    return list(PUBLIC_LISTS.items())[fitting[0]] if fitting.size else None
