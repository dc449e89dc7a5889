"""Pickled files: what is data comes in, what is a program does not run."""

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.pickled import pickled_bytes, read_pickled


def npy(pickled: bytes) -> bytes:
    """A `.npy` file whose content is `pickled`."""
    out = io.BytesIO()
    header = {"descr": "|O", "fortran_order": False, "shape": ()}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + pickled


class Calls:
    """Pickles as a call of `function`, then a state."""

    def __init__(self, function: Any, *args: Any, state: Any = None) -> None:
        self.parts = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self.parts


def call_by_name(module: str, name: str, *args: str) -> bytes:
    """A pickle, protocol 4, that calls `module`.`name`; dots in the name walk into attributes."""
    texts = [b"\x8c" + bytes([len(t)]) + t.encode() for t in (module, name, *args)]
    return b"\x80\x04" + texts[0] + texts[1] + b"\x93(" + b"".join(texts[2:]) + b"tR."


MARK = "open('mark', 'w').close()"


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps(Calls(os.system, "touch mark")),
        pickle.dumps(Calls(eval, MARK)),
        pickle.dumps({"a": [Calls(exec, MARK)]}),
        pickle.dumps(Calls(exec, MARK), protocol=0),
        call_by_name("numpy.f2py.crackfortran", "myeval", MARK),
        call_by_name("numpy.lib._npyio_impl", "os.system", "touch mark"),
        call_by_name("numpy", "os.system", "touch mark"),
        call_by_name("numpy._core.multiarray", "os.system", "touch mark"),
        call_by_name("numpy.core.multiarray", "builtins.exec", MARK),
        call_by_name("numpy", "ndarray.tofile", "mark"),
        call_by_name("numpy", "memmap", "mark", "uint8", "w+"),
        call_by_name("numpy._core._multiarray_umath", "_reconstruct", "a"),
        call_by_name("builtins", "getattr", "a", "b"),
        call_by_name("numpy", "_reconstruct", "a"),
    ],
)
def test_a_program_is_refused_and_does_not_run(
    payload: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npy").write_bytes(npy(payload))
    with pytest.raises(GraspFormatError, match=r"a\.npy: content: expected .* got the name "):
        read_pickled(tmp_path / "a.npy")
    assert not (tmp_path / "mark").exists()


def test_those_programs_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Calls(os.system, "touch mark")))
    assert (tmp_path / "mark").exists()
    (tmp_path / "mark").unlink()
    pickle.loads(call_by_name("numpy.lib._npyio_impl", "os.system", "touch mark"))
    assert (tmp_path / "mark").exists()


def test_an_object_array_cannot_be_forged_from_bytes(tmp_path: Path) -> None:
    """A dtype that claims to hold no objects would make pointers of the file's bytes."""
    rebuild, first, _ = np.zeros(0).__reduce__()
    liar = Calls(np.dtype, "O8", False, True, state=(3, "|", None, None, None, -1, -1, 0))
    forged = Calls(rebuild, *first, state=(1, (2,), liar, False, b"\x41" * 16))
    (tmp_path / "a.npy").write_bytes(npy(pickle.dumps(forged)))
    with pytest.raises(GraspFormatError):
        read_pickled(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "value", [np.zeros(2, [("a", "O")]), np.zeros(2, ">f4"), np.zeros(1, "M8[s]")]
)
def test_unusual_dtypes_are_refused(value: Any, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(pickled_bytes({"a": value}))
    with pytest.raises(GraspFormatError, match="the dtype"):
        read_pickled(tmp_path / "a.npy")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not numpy", npy(b""), npy(b"\x80\x04]")])
def test_broken_files_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(GraspFormatError, match=r"a\.npy"):
        read_pickled(tmp_path / "a.npy")
    with pytest.raises(FileNotFoundError):
        read_pickled(tmp_path / "b.npy")


def test_data_comes_back_as_it_was(tmp_path: Path) -> None:
    data = {
        "array": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "scalar": np.float64(0.06),
        "flags": np.array([True, False]),
        "text": "thing",
        "texts": np.array(["a", "bcd"]),
        "objects": np.array([None, {"x": (1, 2.5)}], object),
        "plain": [1, (2.0, None), {"k": {3}}, b"bytes"],
    }
    (tmp_path / "a.npy").write_bytes(pickled_bytes(data))
    back = read_pickled(tmp_path / "a.npy")
    assert list(back) == list(data)
    for name in ("array", "flags", "texts"):
        np.testing.assert_array_equal(back[name], data[name])
        assert back[name].dtype == data[name].dtype
    assert back["scalar"] == 0.06
    assert type(back["scalar"]) is np.float64
    assert back["objects"].tolist() == [None, {"x": (1, 2.5)}]
    assert back["plain"] == data["plain"]

    rows = [{"qpos": {"a": 1.0}}, {"qpos": {"a": 2.0}}]
    (tmp_path / "b.npy").write_bytes(pickled_bytes(rows))
    assert read_pickled(tmp_path / "b.npy") == rows
    np.save(tmp_path / "c.npy", np.eye(3))
    np.testing.assert_array_equal(read_pickled(tmp_path / "c.npy"), np.eye(3))


def test_names_of_numpy_1_are_known(tmp_path: Path) -> None:
    """Older files name `numpy.core`, newer ones `numpy._core`."""
    content = pickled_bytes({"a": np.arange(3.0), "b": np.float32(2)})
    new, old = b"\x16numpy._core.multiarray", b"\x15numpy.core.multiarray"
    assert new in content
    raw = content[content.index(b"\n") + 1 :]
    unframed = raw[:2] + raw[11:] if raw[2:3] == b"\x95" else raw
    (tmp_path / "a.npy").write_bytes(npy(unframed.replace(new, old)))
    back = read_pickled(tmp_path / "a.npy")
    np.testing.assert_array_equal(back["a"], np.arange(3.0))
    assert back["b"] == 2
