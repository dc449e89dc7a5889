"""The hands of the repository, as test parameters that skip where the model files are not."""

import pytest

from stages.assets.hands.errors import HandNotFoundError
from stages.assets.hands.load import hand_names, load_hand
from stages.assets.hands.models import resolve_model


def hand_params(*names: str) -> list[object]:
    """`names`, or all hands, each skipped with its reason when its model files are not here."""
    params: list[object] = []
    for name in names or hand_names():
        reason = ""
        try:
            resolve_model(load_hand(name).model)
        except HandNotFoundError as error:
            reason = str(error)
        params.append(pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=reason)))
    return params
