"""What was released and what was promised, in plain words and exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from margrave.privacy.accounting.conversions import bound_belief
from margrave.privacy.unit import Neighbours
from margrave.release import FALSE_ALARM, PRIOR, Guarantee, Release
from margrave.report.html import (
    Child,
    Markup,
    count,
    details,
    equals,
    factor_at_most,
    facts,
    join,
    mark_name,
    percent,
    percent_at_most,
    significant,
    tag,
)
from margrave.schema.describe import describe_rule
from margrave.schema.frame import type_warning

_ROWS_ONLY = (
    "It protects single rows. Somebody with k rows in the table is protected less, with k times the ε and a "
    "larger δ; the owner of each row was not known to the run."
)
_OWNERS_AS_TOLD = (
    "It protects owners as the owner column tells them apart: one person under two identifiers counts as two "
    "owners."
)
_GROUPS = (
    "It does not hide what is true of groups. If the table shows that a habit goes with a disease, so may "
    "the release, and a reader may apply that to somebody with the habit, in the table or not."
)
_SEVERAL = (
    "It does not make several releases of the same table one. Each has its own ε and δ, and they add up."
)
_ACCURACY = "It says nothing about the accuracy of the release; that is what the following parts are about."
_MACHINE = (
    "It covers the release, not the machine it was made on: not the running time and memory of the run, nor "
    "who could read the private table itself."
)
_LAW = "It is a mathematical property. Whether it meets a legal standard is for the reader to judge."


def owner_box(guarantee: Guarantee) -> Markup | None:
    """A red box where no owner was named: one row is not one person."""
    if guarantee.neighbours.unit.owner is not None or guarantee.warning:
        return None
    return tag(
        "div",
        tag("p", tag("strong", "One row is protected, not one person.")),
        tag(
            "p",
            "No column was named that says whose row it is. If every person has one row at most, the two "
            "are the same; whoever keeps the table has to confirm that. If not, a person with k rows has k "
            "times the ε: release again with ",
            tag("code", "--owner", class_="nb"),
            " and ",
            tag("code", "--max-rows", class_="nb"),
            ".",
        ),
        class_="box far",
        role="note",
        aria_label="Whom the guarantee protects",
    )


def rules_box(release: Release) -> Markup | None:
    """A box with the declared rules that rows may break."""
    left_out = (
        "These were declared and are left out: no row of the values that were discovered, with noise, "
        "obeys them together with the rules that were kept. Either a rule is not true of the table, or "
        "noise hid what a column holds: declare bounds and values of its columns, or check the rule."
    )
    not_read = (
        "These were declared without a table, and their two columns were not measured together, so there is "
        "nothing to read them off: declare the table, or take a method that measures the pair."
    )
    reasons = [(left_out, release.rules_left_out), (not_read, release.rules_not_read)]
    said = [
        part
        for words, rules in reasons
        if rules
        for part in (tag("p", words), tag("ul", *(tag("li", describe_rule(rule)) for rule in rules)))
    ]
    if not said:
        return None
    return tag(
        "div",
        tag("p", tag("strong", "Rules that rows may break")),
        *said,
        class_="box care",
        role="note",
        aria_label="Rules that rows may break",
    )


def not_private_banner(guarantee: Guarantee) -> Markup | None:
    """A red box above everything, where the noise came from a seed."""
    if not guarantee.warning:
        return None
    return tag(
        "aside",
        tag("strong", "NOT PRIVATE"),
        tag("p", guarantee.warning),
        tag("p", "Keep this page, and all that was made from the run, where the private table is kept."),
        class_="banner",
        aria_label="Warning",
    )


def overview(release: Release, rows: int | None) -> Markup:
    """The key facts of the release.

    Args:
        release: What left the private side.
        rows: Number of synthetic rows, if the page was made with them.
    """
    guarantee = release.guarantee
    public = guarantee.neighbours.rows_are_public
    promised: list[tuple[str, Child]] = [
        (
            "Guarantee",
            join(
                "differential privacy, ",
                tag("span", equals("ε", significant(guarantee.epsilon)), class_="nb"),
                ", ",
                tag("span", equals("δ", significant(guarantee.delta)), class_="nb"),
            ),
        ),
        ("Protects", tag("span", describe_unit(guarantee.neighbours))),
        ("Accounting", guarantee.accountant.removeprefix("accounting ")),
    ]
    none: list[tuple[str, Child]] = [
        ("Guarantee", "NOT PRIVATE: none"),
        ("Protects", "nobody"),
        ("Noise", f"as for ε = {significant(guarantee.noise_epsilon)}, drawn from a seed"),
    ]
    entries: list[tuple[str, Child]] = [
        *(none if guarantee.warning else promised),
        ("Columns", count(len(release.schema.columns))),
        ("Rows, public" if public else "Rows, with noise", count(release.total)),
        ("Noisy tables released", count(len(release.measurements))),
        ("Method", release.notes.get("method", f"{release.strategy} with {release.fitter}")),
    ]
    if rows is not None:
        entries.insert(6, ("Synthetic rows", count(rows)))
    return facts(entries)


def guarantee_section(release: Release) -> Markup:
    """The guarantee: a sentence, exactly, what it means, what it does not mean, what was public."""
    guarantee = release.guarantee
    if guarantee.warning:
        return join(
            tag("p", guarantee.warning, class_="lead"),
            tag("h3", "What it means", id="meaning"),
            tag("p", "Whoever subtracts the noise has the exact counts of the private table."),
            tag("h3", "What it does not mean", id="limits"),
            tag("p", "It is no release with a large ε: no number would be large enough."),
            tag("h3", "What was taken as public", id="public"),
            public_facts(release),
        )
    return join(
        describe_promise(guarantee),
        tag("h3", "What it does not mean", id="limits"),
        tag("ul", *[tag("li", text) for text in _limits(release)]),
        tag("h3", "What was taken as public", id="public"),
        public_facts(release),
    )


def describe_promise(guarantee: Guarantee) -> Markup:
    """What was promised: a sentence, exactly, and what it means."""
    return join(
        tag("p", _sentence(guarantee), class_="lead"),
        _exactly(guarantee),
        tag("h3", "What it means", id="meaning"),
        tag("p", _explain_guarantee(guarantee)),
        tag(
            "p",
            (
                "The promise holds whatever else the reader of the release knows, now or later, "
                "and whatever is computed from the release: rows, charts and statistics made from "
                "it cost nothing more."
            ),
        ),
    )


def public_facts(release: Release) -> Markup:
    """The facts that the guarantee does not cover."""
    declared = list(release.declared_columns)
    found = [column.name for column in release.schema.columns if column.name not in declared]
    items: list[Child] = [
        "the names of the columns, their order and their storage types"
        + (f" ({_storage(release)})" if release.dtypes else ""),
        "the settings of the run: ε, δ, the unit, the adjacency and the method",
    ]
    if warning := type_warning(release.frame):
        items.append(join("of these types: ", warning))
    if declared:
        items.append(join("what was declared (values or bounds, and missingness) of ", _names(declared)))
    if found:
        items.append("what was declared of other columns, where a part of them was")
    if public := release.guarantee.neighbours.public:
        items.append(
            join("the rows of these columns, in their order, and so who is in the table: ", _names(public))
        )
    if release.guarantee.neighbours.rows_are_public:
        items.append("the number of rows, which neighbouring tables share under this adjacency")
    after = (
        join(
            "Not wholly declared: ",
            _names(found),
            (
                ". What was not declared of these was discovered from the private table with noise, and "
                "is paid for in the ledger."
            ),
        )
        if found
        else join("Every column was declared; discovery spent nothing on values or bounds.")
    )
    return join(
        tag(
            "p",
            (
                "These facts are not covered by the guarantee. They must have been known, or fit "
                "to publish, without looking at the private rows:"
            ),
        ),
        tag("ul", *[tag("li", item) for item in items]),
        tag("div", after, class_="para"),
    )


def _names(names: Sequence[str]) -> Markup:
    shown = [
        join(mark_name(name), "" if place == len(names) - 1 else ", ") for place, name in enumerate(names)
    ]
    if len(shown) <= 20:
        return join(*shown)
    return join(tag("span", f"{len(names)} columns "), details("which", tag("p", *shown)))


def _storage(release: Release) -> str:
    return ", ".join(sorted(set(release.dtypes.values())))


def describe_unit(neighbours: Neighbours) -> Markup:
    """Whom the guarantee protects."""
    unit = neighbours.unit
    if unit.owner is None:
        return join("one row")
    rows = "1 row" if unit.max_rows == 1 else f"at most {unit.max_rows} rows"
    return join("one owner in ", mark_name(unit.owner), f", {rows} each")


def describe_difference(neighbours: Neighbours) -> Markup:
    """How two neighbouring tables differ."""
    unit = neighbours.unit
    others = "other row" if unit.owner is None else f"others (at most {unit.max_rows})"
    difference = neighbours.words.difference.format(others=others)
    public = join("; ", _names(neighbours.public), " stay as they are and are public")
    after = join(difference, public if neighbours.public else "")
    if unit.owner is None:
        return join("one row ", after)
    rows = "the row" if unit.max_rows == 1 else f"the rows (at most {unit.max_rows}, drawn at random)"
    return join(f"{rows} of any one owner, as told by the column ", mark_name(unit.owner), ", ", after)


def _sentence(guarantee: Guarantee) -> Markup:
    factor = factor_at_most(guarantee.epsilon)
    return join(
        "What ",
        "any one row" if guarantee.neighbours.unit.owner is None else "any one owner",
        " can change about the release is bounded: no result becomes more than ",
        f"{factor} times as likely, up to a probability of {significant(guarantee.delta)}, by ",
        describe_difference(guarantee.neighbours),
        ".",
    )


def _at_one_order(accounting: str) -> str:
    order = accounting.removeprefix("rdp-")
    return (
        f"Rényi differential privacy at order {order} (ρ is the divergence over the order), composed over "
        "every event of the ledger and converted to (ε, δ)"
    )


def _exactly(guarantee: Guarantee) -> Markup:
    mu = math.sqrt(2 * guarantee.rho)
    accounting = {
        "zcdp": (
            "zero-concentrated differential privacy (zCDP), composed over every event of the "
            "ledger and converted to (ε, δ)"
        ),
        "gdp": (
            f"Gaussian differential privacy (GDP) with μ = {significant(mu)}, composed over "
            "every event of the ledger and converted to (ε, δ)"
        ),
    }.get(guarantee.accounting, _at_one_order(guarantee.accounting))
    formal = (
        "For every two tables T and T′ that are neighbours, and every set S of results: "
        "Pr[A(T) ∈ S] ≤ exp(ε) · Pr[A(T′) ∈ S] + δ, where A is the whole run, discovery "
        "included."
    )
    return facts(
        [
            ("ε (epsilon)", significant(guarantee.epsilon, 6)),
            ("δ (delta)", f"{significant(guarantee.delta, 6)}{_one_in(guarantee.delta)}"),
            ("Unit protected", describe_unit(guarantee.neighbours)),
            ("Adjacency", _adjacency(guarantee.neighbours)),
            ("Accounting", accounting),
            ("ρ (rho) allowed", significant(guarantee.rho, 6)),
            ("Formally", formal),
        ],
        css="terms",
    )


def _one_in(delta: float) -> str:
    """The same probability as one in a number."""
    return f", that is 1 in {count(1 / delta)}" if 0 < delta < 0.5 else ""


def _adjacency(neighbours: Neighbours) -> Markup:
    return join(f"{neighbours.words.noun}: neighbouring tables differ by ", describe_difference(neighbours))


def _explain_guarantee(guarantee: Guarantee) -> str:
    power = guarantee.bound_power(FALSE_ALARM)
    belief = percent_at_most(bound_belief(PRIOR, power, FALSE_ALARM))
    return (
        "Suppose that somebody knows every other row of the table and wants to tell from "
        f"the release {guarantee.neighbours.words.doubt}. If they are to be wrong in at most "
        f"{percent(FALSE_ALARM, 0)} of the cases in which the answer is no, they find out "
        f"at most {percent_at_most(power)} of the cases in which it is yes; pure guessing finds "
        f"{percent(FALSE_ALARM, 0)}. If they held yes {percent(PRIOR, 0)} likely before, at most "
        f"{belief} of the cases that they then take for a yes are one."
    )


def _limits(release: Release) -> tuple[str, ...]:
    expected = significant(release.guarantee.delta * release.total, 2)
    chance = (
        "δ is a probability with which the promise may fail. It should be far below one over the number of "
        f"people; here δ times the number of rows used is {expected}."
    )
    whom, groups, several, machine, law = list_limits(release.guarantee)
    return (whom, groups, several, chance, _ACCURACY, machine, law)


def list_limits(guarantee: Guarantee) -> tuple[str, str, str, str, str]:
    """What no promise of this kind means: whom, groups, several releases, the machine, the law."""
    whom = _ROWS_ONLY if guarantee.neighbours.unit.owner is None else _OWNERS_AS_TOLD
    return (whom, _GROUPS, _SEVERAL, _MACHINE, _LAW)
