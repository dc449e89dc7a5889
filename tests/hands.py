"""The hands of the repository, as test parameters that skip where the model files are not."""

import os
from pathlib import Path

import pytest

from stages.assets.hands.load import hand_names, load_hand
from tests.reference import REFERENCE

MENAGERIE = Path(os.environ.get("MENAGERIE_ROOT") or REFERENCE / "menagerie")


def hand_params(*names: str) -> list[object]:
    """`names`, or all hands, each skipped with its reason when it needs a missing Menagerie."""
    params: list[object] = []
    for name in names or hand_names():
        scheme, _, rest = load_hand(name).model.partition("://")
        missing = scheme == "menagerie" and not (MENAGERIE / rest).is_file()
        skip = pytest.mark.skipif(missing, reason=f"no {rest} in {MENAGERIE}")
        params.append(pytest.param(name, marks=skip))
    return params
