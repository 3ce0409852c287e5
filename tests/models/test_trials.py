"""Trials: how settings are searched once a judge can tell them apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.policy import (
    BLOCK_PENALTY_SHARE,
    Candidate,
    Setting,
    choose_groups,
    choose_setting,
    search_penalties,
)

GROUPS, SMALL = ((0, 1, 2, 3),), ((0, 1), (2, 3))
MODEL: Any = None
"""The judge of these tests looks at settings alone."""


class Judge:
    """Prefers the penalty nearest to one, latent blocks by so much, and small ones by so much more; remembers
    what it was asked to fit."""

    def __init__(
        self, penalty: float, latent_blocks: float = 0.0, late: bool = False, small: float = 0.0
    ) -> None:
        self.penalty, self.latent_blocks, self.late, self.small = penalty, latent_blocks, late, small
        self.fitted: list[Setting] = []

    def is_late(self) -> bool:
        return self.late

    def fit(self, mixture: Mixture, setting: Setting) -> Candidate[Any]:
        self.fitted.append(setting)
        return Candidate(setting, [], MODEL)

    def _error(self, setting: Setting) -> float:
        plain = setting.penalty / (BLOCK_PENALTY_SHARE if setting.groups else 1.0)
        small = self.small if setting.groups == SMALL else 0.0
        return abs(math.log(plain / self.penalty)) - (self.latent_blocks if setting.groups else 0.0) - small

    def prefers(self, rival: Candidate[Any], default: Candidate[Any]) -> bool:
        return self._error(rival.setting) < self._error(default.setting) - 1e-9


def chosen(judge: Any, penalties: bool = True, nested: bool = True) -> Setting:
    plain = Candidate(Setting(100.0), [], MODEL)
    settings = [Setting(100.0 * BLOCK_PENALTY_SHARE, groups) for groups in (GROUPS, SMALL) if nested]
    other = choose_groups(judge, Mixture(), settings)
    return choose_setting(judge, Mixture(), plain, other, penalties).setting


@pytest.mark.parametrize(
    ("best", "found"), [(100.0, 100.0), (45.0, 50.0), (220.0, 200.0), (1e6, 800.0), (1.0, 12.5)]
)
def test_the_price_is_halved_or_doubled_while_that_is_better(best: float, found: float) -> None:
    assert chosen(Judge(best), nested=False).penalty == pytest.approx(found)
    first = Candidate(Setting(100.0), [], MODEL)
    assert search_penalties(Judge(best), Mixture(), first).setting.penalty == pytest.approx(found)  # type: ignore[arg-type]


def test_nests_stay_unless_the_plain_mixture_is_better_and_the_other_is_tried_at_the_last_price() -> None:
    assert chosen(Judge(100.0)).groups == GROUPS  # as good: the default
    assert chosen(Judge(100.0, latent_blocks=-0.1)).groups == ()
    judge = Judge(400.0, latent_blocks=0.5)
    assert chosen(judge) == Setting(pytest.approx(400.0 * BLOCK_PENALTY_SHARE), GROUPS)
    assert judge.fitted[-1] == Setting(pytest.approx(400.0))


def test_smaller_groups_are_taken_where_they_are_better_and_the_price_is_searched_with_them() -> None:
    assert chosen(Judge(100.0, small=0.1)).groups == SMALL
    assert chosen(Judge(100.0, small=-0.1)).groups == GROUPS
    assert chosen(Judge(400.0, latent_blocks=0.5, small=0.1)) == Setting(
        pytest.approx(400.0 * BLOCK_PENALTY_SHARE), SMALL
    )


def test_whole_mixtures_have_the_last_word_where_they_are_asked() -> None:
    class Flattered(Judge):
        """Prefers latent blocks in pilots and none in whole mixtures."""

        def fit(self, mixture: Mixture, setting: Setting) -> Candidate[Any]:
            self.latent_blocks = -0.5 if mixture.components is None else 0.5
            return super().fit(mixture, setting)

    pilot, plain = Mixture(components=80), Candidate(Setting(100.0), [], MODEL)
    for whole, groups in ((None, GROUPS), (Mixture(), ())):
        judge: Any = Flattered(100.0)
        other = choose_groups(judge, pilot, [Setting(100.0 * BLOCK_PENALTY_SHARE, GROUPS)])
        assert choose_setting(judge, pilot, plain, other, True, whole).setting.groups == groups


def test_a_given_price_and_a_deadline_end_the_search() -> None:
    assert chosen(Judge(800.0), penalties=False).penalty == pytest.approx(100.0 * BLOCK_PENALTY_SHARE)
    late = Judge(800.0, late=True)
    assert chosen(late) == Setting(100.0)
    assert late.fitted == []
