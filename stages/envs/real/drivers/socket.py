"""A robot at the other end of a socket, one JSON object a line in each direction.

The simulated robot speaks it (`python -m stages.envs.mujoco.simulated_robot`), and it is small
enough to be spoken by the controller of any other. Requests: {"op": "hello" | "state" | "stop" |
"release" | "frame"} and {"op": "move", "target": [...], "dt": s}. Answers: {"ok": true, ...}, or
{"ok": false, "kind": "stopped" | "refused", "error": "..."}.
"""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.envs.real.driver import Float, JointLimits, RobotState
from stages.envs.real.errors import ConnectionLostError, MotionRefusedError, StoppedRobotError
from stages.robot import Frame

TIMEOUT_S = 10.0
LONGEST = 2**26  # bytes of an answer


class SocketDriver:
    """`address` is HOST:PORT. Threads may share it: one request at a time."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        try:
            self._socket = socket.create_connection((host, int(port)), timeout_s)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(
                f"robot at {address}: cannot be reached: {error}; is its program running?"
            ) from error
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()
        try:
            hello = self.ask({"op": "hello"})
            with self.understood("hello"):
                self._limits = JointLimits(
                    names=tuple(hello["names"]),
                    **{k: np.array(hello[k], np.float64) for k in ("lower", "upper", "speed")},
                )
        except BaseException:
            self.close()
            raise

    @property
    def limits(self) -> JointLimits:
        return self._limits

    def state(self) -> RobotState:
        answer = self.ask({"op": "state"})
        with self.understood("state"):
            qpos = np.array(answer["qpos"], np.float64)
            if qpos.shape != self._limits.lower.shape or not np.isfinite(qpos).all():
                raise ValueError(f"qpos: expected {len(self._limits.lower)} numbers, got {qpos}")
            return RobotState(
                qpos=qpos, stopped=bool(answer["stopped"]), fault=str(answer["fault"])
            )

    def send(self, target: Float, dt: float) -> None:
        self.ask({"op": "move", "target": target.tolist(), "dt": dt})

    def stop(self) -> None:
        self.ask({"op": "stop"})

    def release(self) -> None:
        self.ask({"op": "release"})

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def camera(self) -> "SocketCamera":
        """The robot's own camera."""
        return SocketCamera(self)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        try:
            with self._lock:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
                line = self._lines.readline(LONGEST)
            if not line.endswith(b"\n"):
                raise ConnectionError("the connection was closed")
            answer: Any = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError(f"expected a JSON object, got {answer!r:.60}")
        except (OSError, ValueError, RecursionError) as error:
            raise ConnectionLostError(
                f"robot at {self.address}: no answer to {request['op']!r}: {error}; it holds its "
                "place or is off. Open the driver again"
            ) from error
        if not answer.get("ok"):
            text = str(answer.get("error", answer))
            raise (
                StoppedRobotError(text)
                if answer.get("kind") == "stopped"
                else (MotionRefusedError(text))
            )
        return answer

    @contextmanager
    def understood(self, op: str) -> Iterator[None]:
        """Around the reading of an answer: ConnectionLostError where it is another protocol's."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ConnectionLostError(
                f"robot at {self.address}: its answer to {op!r} is not of this protocol: "
                f"{type(error).__name__}: {error}; is it another program's port?"
            ) from error


class SocketCamera:
    """Frames over the driver's connection."""

    def __init__(self, driver: SocketDriver) -> None:
        self._driver = driver

    def read(self) -> Frame:
        answer = self._driver.ask({"op": "frame"})
        with self._driver.understood("frame"):
            K = Intrinsics.from_array(answer["intrinsics"])
            return Frame(
                depth=_array(answer["depth"], np.float32, (K.height, K.width)),
                intrinsics=K,
                colour=_array(answer["colour"], np.uint8, (K.height, K.width, 3)),
                segment=_array(answer["segment"], np.uint16, (K.height, K.width)),
                segment_table={str(k): int(v) for k, v in answer["segment_table"].items()},
                T_world_cam=np.array(answer["T_world_cam"], np.float64),
                time=float(answer["time"]),
                name="robot",
            )

    def close(self) -> None:
        """The driver closes the connection."""


def packed(array: NDArray[Any]) -> str:
    """An array as text, little-endian."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _array(text: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()
