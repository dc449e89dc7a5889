"""Reading an npz by hand gives what numpy gives."""

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.npz import read_npz

ARRAYS: dict[str, NDArray[Any]] = {
    "0/points": np.arange(12, dtype=np.float32).reshape(4, 3),
    "1/points": np.zeros((0, 3), np.float32),
    "0/name": np.array("scene-1 ä"),
    "0/none": np.array(""),
    "0/names": np.array(["a", "bcd"]),
    "0/flag": np.array(True),
    "0/fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "0/big": np.arange(3, dtype=">i4"),
    "0/record": np.zeros(2, [("ü", "f8"), ("b", "i2", (2,))]),
    "ü": np.array([2**63], np.uint64),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_arrays_are_those_of_numpy(save: Any) -> None:
    file = io.BytesIO()
    save(file, **ARRAYS)
    expected = np.load(io.BytesIO(file.getvalue()), allow_pickle=False)
    found = read_npz(file.getvalue())
    assert list(found) == expected.files
    for name, array in found.items():
        want = expected[name]
        assert (array.dtype, array.shape) == (want.dtype, want.shape), name
        assert array.tobytes("A") == want.tobytes("A"), name
        assert array.flags.f_contiguous == want.flags.f_contiguous, name
        assert array.flags.writeable, name


def test_pickles_and_short_arrays_are_refused() -> None:
    file = io.BytesIO()
    np.savez(file, a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        read_npz(file.getvalue())
    file = io.BytesIO()
    np.savez(file, a=np.arange(3))
    with pytest.raises(ValueError, match="buffer is too small"):
        read_npz(file.getvalue().replace(b"(3,)", b"(9,)"))
