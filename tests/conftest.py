"""What every test sees."""

import os

import pytest

from tests.hands import MENAGERIE


@pytest.fixture(scope="session", autouse=True)
def menagerie_root() -> None:
    """`menagerie://` reads the reference folder, unless MENAGERIE_ROOT says another."""
    if MENAGERIE.is_dir():
        os.environ.setdefault("MENAGERIE_ROOT", str(MENAGERIE))
