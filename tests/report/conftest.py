from __future__ import annotations

import pytest
from adult_like import Mixture, release

from margrave.release import Release
from margrave.schema.encoded import Encoded


@pytest.fixture(scope="session")
def made() -> tuple[Release, Mixture, Encoded, Encoded]:
    return release()
