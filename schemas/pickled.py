"""`.npy` files that hold a pickled dict or list, read without running what is in them.

A pickle is a program. This reader lets it name four things only: numpy's array, its dtype, and the
two functions that rebuild arrays and scalars, under the exact names that releases of numpy give
them. It also takes no dtype's state from the file: numpy would believe its flags, and an object
array whose dtype denies that it holds objects is a way to forge pointers.
"""

import io
import pickle
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from schemas.errors import ForeignFileError
from schemas.files import NPY_LIMIT, read_limited

_RECONSTRUCT, _SCALAR = np.zeros(0).__reduce__()[0], np.float64(0).__reduce__()[0]
# numpy 1, a few of its releases, numpy 2
_HOMES = ("numpy.core.multiarray", "numpy.core._multiarray_umath", "numpy._core.multiarray")
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(home, "_reconstruct"): _RECONSTRUCT for home in _HOMES},
    **{(home, "scalar"): _SCALAR for home in _HOMES},
}
PLAIN_KINDS = "biufcSUO"  # bool, integers, floats, complex, bytes, text, objects
NATIVE_ORDERS = ("=", "|", np.dtype(np.int32).str[0])


# The one written in Python, since only there can a single instruction (BUILD) be restricted.
_Unpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]


class _ArraysOnly(_Unpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the name {module}.{name}") from None

    def load_build(self) -> None:
        state, made = self.stack[-1], self.stack[-2]
        if isinstance(made, np.dtype):
            # Code and size came in the constructor; the byte order is all that is left.
            order = state[1] if isinstance(state, tuple) and len(state) == 8 else None
            if made.kind not in PLAIN_KINDS or made.names or order not in NATIVE_ORDERS:
                raise pickle.UnpicklingError(f"the dtype {made} with the state {state}")
            self.stack.pop()
        elif type(made) is np.ndarray:
            super().load_build()
        else:
            raise pickle.UnpicklingError(f"a state for {type(made).__name__}")

    dispatch[pickle.BUILD[0]] = load_build


def read_pickled(path: Path, encoding: str = "ASCII") -> Any:
    """The dict, list or array of a `.npy` file, or of a bare pickle in a file of another name.

    A 0-d object array gives what it holds, an N-d one a list. `encoding` is that of text which
    Python 2 pickled ("latin1" when it pickled arrays). Raises ForeignFileError for anything but
    arrays, scalars, numbers, text and the plain containers.
    """
    file = io.BytesIO(read_limited(path, NPY_LIMIT))
    try:
        bare = path.suffix != ".npy"
        value = _ArraysOnly(file, encoding=encoding).load() if bare else _read(file, encoding)
    except Exception as error:  # a broken pickle raises whatever its instructions do
        raise ForeignFileError(path, f"{error or type(error).__name__}") from error
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.item() if value.ndim == 0 else value.tolist()
    return value


def _read(file: IO[bytes], encoding: str) -> Any:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        _, _, dtype = np.lib.format.read_array_header_2_0(file)
    if not dtype.hasobject:
        file.seek(0)
        return np.load(file, allow_pickle=False)
    return _ArraysOnly(file, encoding=encoding).load()
