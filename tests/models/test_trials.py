"""Trials: how settings are searched once a judge can tell them apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.policy import (
    BLOCK_PENALTY_SHARE,
    Candidate,
    Setting,
    choose_setting,
    confirm_penalty,
    search_penalties,
)

GROUPS = ((0, 1, 2, 3),)
MODEL: Any = None
"""The judge of these tests looks at settings alone."""


class Judge:
    """Prefers the penalty nearest to one, and latent blocks by so much; remembers what it was asked to
    fit."""

    def __init__(self, penalty: float, latent_blocks: float = 0.0, late: bool = False) -> None:
        self.penalty, self.latent_blocks, self.late = penalty, latent_blocks, late
        self.fitted: list[Setting] = []

    def is_late(self) -> bool:
        return self.late

    def fit(self, mixture: Mixture, setting: Setting) -> Candidate[Any]:
        self.fitted.append(setting)
        return Candidate(setting, [], MODEL)

    def change_penalty(self, pilot: Mixture, candidate: Candidate[Any], factor: float) -> Candidate[Any]:
        return self.fit(pilot, replace(candidate.setting, penalty=factor * candidate.setting.penalty))

    def _error(self, setting: Setting) -> float:
        plain = setting.penalty / (BLOCK_PENALTY_SHARE if setting.groups else 1.0)
        return abs(math.log(plain / self.penalty)) - (self.latent_blocks if setting.groups else 0.0)

    def prefers(self, rival: Candidate[Any], default: Candidate[Any]) -> bool:
        return self._error(rival.setting) < self._error(default.setting) - 1e-9


def chosen(judge: Any, penalties: bool = True, nested: bool = True) -> Setting:
    plain = Candidate(Setting(100.0), [], MODEL)
    other = Candidate(Setting(100.0 * BLOCK_PENALTY_SHARE, GROUPS), [], MODEL) if nested else None
    return choose_setting(judge, Mixture(), plain, other, penalties, Mixture()).setting


@pytest.mark.parametrize(
    ("best", "found"),
    [(100.0, 100.0), (45.0, 50.0), (68.0, 50 * 2**0.5), (220.0, 200.0), (1e6, 800.0), (1.0, 12.5)],
)
def test_the_price_is_lowered_or_raised_while_that_is_better(best: float, found: float) -> None:
    assert chosen(Judge(best), nested=False).penalty == pytest.approx(found)
    first = Candidate(Setting(100.0), [], MODEL)
    assert search_penalties(Judge(best), Mixture(), first).setting.penalty == pytest.approx(found)  # type: ignore[arg-type]


def test_every_penalty_that_is_compared_takes_as_many_steps_from_where_the_first_ended() -> None:
    asked: list[tuple[Candidate[Any], float]] = []

    class Watched(Judge):
        def change_penalty(self, pilot: Mixture, candidate: Candidate[Any], factor: float) -> Candidate[Any]:
            asked.append((candidate, factor))
            return super().change_penalty(pilot, candidate, factor)

    first = Candidate(Setting(100.0), [], MODEL)
    search_penalties(Watched(1.0), Mixture(), first)  # type: ignore[arg-type]
    # The first penalty as well: a rival's steps alone would make it the better one.
    assert [factor for _, factor in asked] == pytest.approx([2 ** (-power / 2) for power in range(7)])
    assert all(candidate is first for candidate, _ in asked)


def test_latent_blocks_stay_unless_the_plain_mixture_is_better_or_nobody_asks() -> None:
    assert chosen(Judge(100.0)).groups == GROUPS  # as good: the default
    assert chosen(Judge(100.0, latent_blocks=-0.1)).groups == ()
    assert chosen(Judge(400.0, latent_blocks=0.5)).penalty == pytest.approx(400.0 * BLOCK_PENALTY_SHARE)
    judge: Any = Judge(100.0, latent_blocks=-0.1)
    plain, nested = Candidate(Setting(100.0), [], MODEL), Candidate(Setting(65.0, GROUPS), [], MODEL)
    assert choose_setting(judge, Mixture(), plain, nested, True, None, untried=True).setting.groups == GROUPS
    assert choose_setting(judge, Mixture(), plain, None, True, None, untried=True).setting.groups == ()


@pytest.mark.parametrize(
    ("believed", "true", "found"),
    [(1.0, 100.0, 100.0), (1.0, 24.0, 25.0), (1.0, 1.0, 12.5), (45.0, 400.0, 100.0), (800.0, 1.0, 800.0)],
)
@pytest.mark.parametrize("nested", [False, True])
def test_larger_mixtures_take_back_what_pilots_alone_believe(
    believed: float, true: float, found: float, nested: bool
) -> None:
    class Small(Judge):
        """Prefers one penalty in pilots and another in larger mixtures."""

        def fit(self, mixture: Mixture, setting: Setting) -> Candidate[Any]:
            self.penalty = true if mixture.components is None else believed
            return super().fit(mixture, setting)

    pilot, plain = Mixture(components=80), Candidate(Setting(100.0), [], MODEL)
    judge: Any = Small(believed)
    other = judge.fit(pilot, Setting(100.0 * BLOCK_PENALTY_SHARE, GROUPS)) if nested else None
    setting = choose_setting(judge, pilot, plain, other, True, Mixture()).setting
    assert setting.penalty == pytest.approx(found * (BLOCK_PENALTY_SHARE if nested else 1.0))


def test_larger_mixtures_at_every_penalty_take_as_many_steps_from_where_one_ended() -> None:
    begun: list[Candidate[Any]] = []

    class Watched(Judge):
        def change_penalty(self, pilot: Mixture, candidate: Candidate[Any], factor: float) -> Candidate[Any]:
            begun.append(candidate)
            return super().change_penalty(pilot, candidate, factor)

    judge: Any = Watched(100.0)
    found = confirm_penalty(judge, Mixture(), Candidate(Setting(25.0), [], MODEL), 100.0)
    # The one that pilots chose as well: a rival's steps alone would make it the better one.
    assert [one.penalty for one in judge.fitted] == pytest.approx(
        [25.0, 25.0, *(25 * 2 ** (k / 2) for k in range(1, 5))]
    )
    assert len(begun) == 5
    assert all(one is begun[0] for one in begun)
    assert found.setting.penalty == pytest.approx(100.0)


def test_no_larger_mixture_is_fitted_where_none_is_given_no_smaller_one_was_chosen_or_time_is_up() -> None:
    cases = (
        (Judge(100.0), 50.0, None),
        (Judge(1.0), 100.0, Mixture()),
        (Judge(100.0), 200.0, Mixture()),
        (Judge(1.0, late=True), 50.0, Mixture()),
    )
    for judge, penalty, larger in cases:
        best = Candidate(Setting(penalty), [], MODEL)
        assert confirm_penalty(judge, larger, best, 100.0) is best  # type: ignore[arg-type]
        assert judge.fitted == []


def test_a_given_price_and_a_deadline_end_the_search() -> None:
    assert chosen(Judge(800.0), penalties=False).penalty == pytest.approx(100.0 * BLOCK_PENALTY_SHARE)
    late = Judge(800.0, late=True)
    assert chosen(late, nested=False) == Setting(100.0)
    assert late.fitted == []
