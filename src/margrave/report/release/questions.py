"""Twenty questions of whoever has to sign for a release, answered on its page: docs/questions.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from margrave.privacy.unit import Neighbours
from margrave.release import FALSE_ALARM, Release
from margrave.report.html import (
    Markup,
    count,
    factor_at_most,
    join,
    mark_name,
    percent,
    percent_at_most,
    significant,
    tag,
)
from margrave.report.release.advice import headline
from margrave.report.release.record import (
    NO_INPUT_HASH,
    NOT_GIVEN,
    describe_cap,
    describe_history,
    describe_rare,
    describe_texts,
    list_identifiers,
)
from margrave.report.release.summary import describe_difference
from margrave.report.release.usefulness import Usefulness


@dataclass(frozen=True, slots=True)
class Case:
    """What answers are made from: the release, the verdict on it, and checksums of its files by name."""

    release: Release
    use: Usefulness
    outputs: Mapping[str, str]

    @property
    def neighbours(self) -> Neighbours:
        """Whom the guarantee protects."""
        return self.release.guarantee.neighbours


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Args:
        key: Its anchor is "q-" and this.
        short: For the list on the first screen.
        words: The question.
        answer: Makes the answer.
        more: The id of the part of the page that says more.
    """

    key: str
    short: str
    words: str
    answer: Callable[[Case], Markup]
    more: str


def question_links() -> Markup:
    """All questions as links, for the first screen."""
    links = [tag("li", tag("a", one.short, href=f"#q-{one.key}")) for one in QUESTIONS]
    return tag("ol", *links, class_="links")


def questions_section(release: Release, use: Usefulness, outputs: Mapping[str, str]) -> Markup:
    """The section of the page."""
    case = Case(release, use, outputs)
    parts = [
        tag(
            "div",
            tag("h3", one.words, id=f"q-{one.key}"),
            tag("div", _answer(one, case), class_="para answer"),
            tag(
                "p",
                tag("a", "More", href=f"#{one.more}", aria_label=f"More: {one.short}"),
                class_="note more",
            ),
        )
        for one in QUESTIONS
    ]
    return join(*parts)


def _usable(case: Case) -> Markup:
    return join(
        f"{headline(case.use)} The verdict is about statistics of many rows. Synthetic rows describe nobody: "
        "no decision about a person may rest on one of them."
    )


def _unit(case: Case) -> Markup:
    if case.neighbours.unit.owner is None:
        return join(
            "One row of the table. That is one person only if each person has exactly one row, and no run "
            "can check that. Somebody with k rows is protected with k times the ε, and a larger δ."
        )
    return join(
        "One owner as told by the column ",
        mark_name(case.neighbours.unit.owner),
        ", with all rows of theirs that were used. Whether an owner in that column is one person is for "
        "whoever keeps the table to say: one person under two identifiers is two owners.",
    )


def _epsilon(case: Case) -> Markup:
    guarantee = case.release.guarantee
    factor = factor_at_most(guarantee.epsilon)
    return join(
        f"ε = {significant(guarantee.epsilon)}: no result of the run is more than {factor} times as likely "
        f"{case.neighbours.words.comparison}. δ = {significant(guarantee.delta)} is a probability with which "
        "that may fail; it should be far below one over the number of people. Smaller is more private, for "
        "both."
    )


def _adjacency(case: Case) -> Markup:
    noun = case.neighbours.words.noun
    return join(
        f"Adjacency says which two tables the promise compares ({noun}): those that differ by ",
        describe_difference(case.neighbours),
        ".",
    )


def _rho(case: Case) -> Markup:
    guarantee = case.release.guarantee
    return join(
        "Every answer that was drawn from the table is a line of the ledger with its cost ρ, entered before "
        f"its noise was drawn. The costs add up to at most ρ = {significant(guarantee.rho, 6)}, and the sum "
        f"is turned into ε and δ by {guarantee.accountant}."
    )


def _attacker(case: Case) -> Markup:
    power = percent_at_most(case.release.guarantee.bound_power(FALSE_ALARM))
    return join(
        f"Somebody who knows every other row wants to learn {case.neighbours.words.doubt}. If they are to be "
        f"wrong in at most {percent(FALSE_ALARM, 0)} of the cases in which the answer is no, they find out "
        f"at most {power} of the cases in which it is yes. It holds whatever else they know, have, or "
        "compute, now or later."
    )


def _answer_uncovered(case: Case) -> Markup:
    return join(
        "What is true of groups and so of their members; what else is released of the same people; the facts "
        "listed as public; errors and the running time of the run; who can read the private table itself."
    )


def _origin(case: Case) -> Markup:
    origin = case.release.provenance
    return join(
        "Data set: ",
        mark_name(origin.dataset) if origin.dataset else NOT_GIVEN,
        ". File: ",
        mark_name(origin.source) if origin.source else NOT_GIVEN,
        f". Day: {origin.date or NOT_GIVEN}. Made by: ",
        mark_name(origin.operator) if origin.operator else NOT_GIVEN,
        ". The names are as they were given.",
    )


def _earlier(case: Case) -> Markup:
    return describe_history(case.release.provenance.history)


def _public(case: Case) -> Markup:
    declared = len(case.release.declared_columns)
    return join(
        "Column names, their order and storage types, the settings of the run, and what was declared: "
        f"{count(declared)} of {count(len(case.release.schema.columns))} columns were declared in full. All "
        "else, the number of rows too unless this page calls it public, was found out with noise and paid "
        "for."
    )


def _identifiers(case: Case) -> Markup:
    return list_identifiers(case.release)


def _texts(case: Case) -> Markup:
    return join(describe_texts(case.release))


def _rare(case: Case) -> Markup:
    return join(describe_rare(case.release))


def _cap(case: Case) -> Markup:
    return join(describe_cap(case.release))


def _answer_copied(case: Case) -> Markup:
    return join(
        "No. Each synthetic row is drawn from a distribution fitted to noisy counts; no private row is "
        "copied or altered. A synthetic row can be equal to a private one by chance, most of all in tables "
        "of few columns, and nobody can tell from the release that it is."
    )


def _checks(case: Case) -> Markup:
    return join(
        f"The ledger on this page lists all {count(len(case.release.events))} spends with their noise: "
        "whoever knows the theory can add them up. The proofs, file by file, are in docs/privacy/claim.md of "
        "margrave, the known limits in docs/privacy/limits.md, and what was corrected in "
        "docs/privacy/corrections.md. `margrave audit` attacks the program itself many times and reports "
        "what leaked at least."
    )


def _integrity(case: Case) -> Markup:
    given = (
        "By the SHA-256 of the outputs on this page, which any tool computes. "
        if case.outputs or case.release.provenance.schema
        else "No checksum was recorded: this page was made without naming the files. "
    )
    return join(given, NO_INPUT_HASH)


def _gdpr(case: Case) -> Markup:
    return join(
        "This page cannot say so. The GDPR asks whether somebody can be identified by means reasonably "
        "likely to be used (recital 26); the guarantee bounds what anybody can learn about one unit, which "
        "speaks to singling out, linking and inferring, within the size of ε and for the unit above. Whether "
        "that is enough, and making the release as such, is a matter of law. docs/privacy/law.md of margrave "
        "goes through the questions."
    )


def _hipaa(case: Case) -> Markup:
    return join(
        "This page cannot say so. Synthetic rows hold no identifiers only if no column with any of the "
        "eighteen kinds was released as values: see the columns one by one. An expert who determines that "
        "the risk is very small (45 CFR 164.514(b)(1)) can rest on the guarantee, ε and δ above, and has to "
        "judge them. docs/privacy/law.md of margrave goes through the questions."
    )


def _retention(case: Case) -> Markup:
    return join(
        "Keep the ledger or the book as long as the private table exists or anything more is released of the "
        "same people; keep the release file and this page as long as the rows are used. Comparisons with the "
        "real rows are as private as the table."
    )


def _answer(question: Question, case: Case) -> Markup:
    """The answer; where nothing is promised, that to questions about the promise says so."""
    warning = case.release.guarantee.warning
    if warning and question.key in PROMISED:
        return join(warning)
    return join(tag("strong", "NOT PRIVATE. ") if warning else None, question.answer(case))


PROMISED = frozenset(
    {"unit", "epsilon", "adjacency", "rho", "attacker", "uncovered", "copied", "checks", "gdpr", "hipaa"}
)
"""Keys of the questions whose answers rest on a promise."""
QUESTIONS: tuple[Question, ...] = (
    Question("usable", "What is it good for?", "What may this release be used for?", _usable, "usefulness"),
    Question("unit", "Who is protected?", "Is one person protected, or one row?", _unit, "guarantee"),
    Question("epsilon", "What are ε and δ?", "What do ε and δ mean here?", _epsilon, "guarantee"),
    Question(
        "adjacency", "What is adjacency?", "Which tables does the promise compare?", _adjacency, "guarantee"
    ),
    Question("rho", "What is ρ?", "How was the cost added up, and what is ρ?", _rho, "ledger"),
    Question(
        "attacker",
        "What can be found out?",
        "What can somebody find out who knows all else?",
        _attacker,
        "meaning",
    ),
    Question(
        "uncovered", "What is not covered?", "What does the promise not cover?", _answer_uncovered, "limits"
    ),
    Question(
        "origin",
        "Which data, by whom?",
        "Which data set, file and day, and who did it?",
        _origin,
        "record",
    ),
    Question(
        "earlier",
        "What was released before?",
        "What was released of this data set before, and what is the total?",
        _earlier,
        "earlier",
    ),
    Question("public", "What was public?", "What was taken as public?", _public, "public"),
    Question(
        "identifiers",
        "Names and numbers?",
        "What happened to names, numbers and other identifiers?",
        _identifiers,
        "identifiers",
    ),
    Question("texts", "Free text?", "What happened to free text?", _texts, "texts"),
    Question("rare", "Rare groups?", "What happens to rare values and small groups?", _rare, "rare"),
    Question("cap", "Were rows left out?", "Were rows left out, and which?", _cap, "cap"),
    Question(
        "copied",
        "Are these real people?",
        "Is a synthetic row the row of a real person?",
        _answer_copied,
        "handling",
    ),
    Question("checks", "How is it checked?", "How can the promise be checked?", _checks, "ledger"),
    Question(
        "integrity",
        "Are these the files?",
        "How can I tell that the files are the ones that were made?",
        _integrity,
        "checksums",
    ),
    Question("gdpr", "GDPR?", "Is the release anonymous in the sense of the GDPR?", _gdpr, "handling"),
    Question("hipaa", "HIPAA?", "Is the release de-identified in the sense of HIPAA?", _hipaa, "handling"),
    Question("retention", "What to keep?", "What has to be kept, and for how long?", _retention, "retention"),
)
