"""Solids shared by the tests of all rooms."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from tests.solids import box_asset, jaw_grasps, jaw_row


@pytest.fixture(scope="session")
def box() -> ObjectAsset:
    """60 x 40 x 60 mm."""
    return box_asset((0.06, 0.04, 0.06))


@pytest.fixture(scope="session")
def make_box() -> Callable[..., ObjectAsset]:
    return box_asset


@pytest.fixture(scope="session")
def make_row() -> Callable[..., NDArray[np.float64]]:
    return jaw_row


@pytest.fixture(scope="session")
def make_grasps() -> Callable[..., GraspSet]:
    return jaw_grasps
