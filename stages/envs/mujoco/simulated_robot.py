"""A robot and a depth camera that are not there: MuJoCo in a process of its own, over a socket.

    python -m stages.envs.mujoco.simulated_robot [--hand xarm7_ability] [--port 0]

prints the port it listens on and serves until its standard input ends. Simulated time goes on with
each "move" only, by its dt, so that what happens does not depend on how fast this machine is. Like
a real controller it refuses targets out of range, stops when the connection that moves it is lost,
and then needs "release". "freeze" hangs the camera: it repeats its last picture.
"""

import argparse
import json
import socketserver
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from schemas.camera import Intrinsics
from schemas.frames import look_at
from stages.assets.hands.load import load_hand
from stages.crop import slopes_at
from stages.envs.errors import EnvConfigError
from stages.envs.mujoco.collision import OBJECT_CONAFFINITY, OBJECT_CONTYPE, OBJECT_GROUP
from stages.envs.mujoco.hand_index import drive_hand, hand_index, joint_limits, set_hand_qpos
from stages.envs.mujoco.hand_model import hand_mjspec
from stages.envs.mujoco.object_model import add_table
from stages.envs.real.drivers.socket import packed

TIMESTEP = 0.002  # s
SPEED = np.pi  # rad/s, the joints of an xArm7
CAMERA = Intrinsics(fx=190.0, fy=190.0, cx=80.0, cy=60.0, width=160, height=120)
EYE, TARGET = (0.8, -0.25, 0.5), (0.26, 0.0, 0.04)  # m
SEGMENTS = {"background": 0, "table": 1, "object:0": 2, "object:1": 3, "robot": 4}
LIGHT = np.array([0.3, -0.4, 0.87])  # towards it


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    """A free body on the table."""

    kind: mujoco.mjtGeom
    size: tuple[float, ...]  # half sizes, or radius and half height, m
    at: tuple[float, float, float]
    rgba: tuple[float, float, float, float]


THINGS = (
    Thing(kind=mujoco.mjtGeom.mjGEOM_BOX, size=(0.03, 0.045, 0.05), at=(0.28, 0.1, 0.05),
          rgba=(0.8, 0.2, 0.15, 1)),
    Thing(kind=mujoco.mjtGeom.mjGEOM_CYLINDER, size=(0.033, 0.04, 0.0), at=(0.26, -0.08, 0.04),
          rgba=(0.2, 0.4, 0.8, 1)),
)  # fmt: skip


class SimulatedRobot:
    """The arm of a hand file that stands on a base, a table, two things and a camera."""

    def __init__(self, hand: str) -> None:
        spec = load_hand(hand)
        if spec.mocap:
            raise EnvConfigError(f"hand {hand!r}: floats; a simulated robot needs an arm on a base")
        model = hand_mjspec(spec)
        model.option.timestep = TIMESTEP
        model.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        add_table(model)
        for i, thing in enumerate(THINGS):
            body = model.worldbody.add_body(name=f"object:{i}", pos=thing.at)
            body.add_freejoint()
            body.add_geom(
                type=thing.kind, size=thing.size, rgba=thing.rgba, mass=0.2,
                contype=OBJECT_CONTYPE, conaffinity=OBJECT_CONAFFINITY, group=OBJECT_GROUP,
            )  # fmt: skip
        self._model = model.compile()
        self._data = mujoco.MjData(self._model)
        self._spec, self._index = spec, hand_index(spec, self._model)
        self._limits = joint_limits(self._model, self._index)
        self._base = np.array(spec.base_pose)
        set_hand_qpos(self._data, self._index, np.concatenate([self._base, spec.open_qpos]))
        mujoco.mj_forward(self._model, self._data)
        self._ids = np.array([self._segment(g) for g in range(self._model.ngeom)], np.uint16)
        self.stopped, self.fault, self.moves = False, "", 0
        self._frozen: dict[str, Any] | None = None
        self._last: dict[str, Any] = {}

    def _segment(self, geom: int) -> int:
        body = self._model.geom_bodyid[geom]
        name = self._model.body(body).name
        if name in SEGMENTS:
            return SEGMENTS[name]
        return SEGMENTS["table"] if body == 0 else SEGMENTS["robot"]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of the protocol (stages/envs/real/drivers/socket.py)."""
        op = request.get("op")
        known = ("hello", "state", "move", "stop", "release", "frame", "freeze")
        if op not in known:
            return {"ok": False, "kind": "refused", "error": f"op {op!r}: expected one of {known}"}
        return {"ok": True} | (getattr(self, f"_{op}")(request) or {})

    def _hello(self, _: dict[str, Any]) -> dict[str, Any]:
        lower, upper = self._limits.T
        return {
            "names": list(self._spec.joint_names),
            "lower": np.maximum(lower, -2 * np.pi).tolist(),
            "upper": np.minimum(upper, 2 * np.pi).tolist(),
            "speed": [SPEED] * len(lower),
        }

    def _state(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "qpos": self._data.qpos[self._index.joint_qpos].tolist(),
            "qvel": self._data.qvel[self._index.joint_dof].tolist(),
            "stopped": self.stopped,
            "fault": self.fault,
            "moves": self.moves,
            "time": self._data.time,
        }

    def _move(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.stopped:
            self._run(float(request["dt"]))  # time goes on for an arm that brakes
            return {"ok": False, "kind": "stopped", "error": f"stopped: {self.fault}"}
        target = np.array(request["target"], np.float64)
        low, high = self._limits.T
        if target.shape != low.shape or not ((target >= low) & (target <= high)).all():
            return {"ok": False, "kind": "refused", "error": "target out of range"}
        drive_hand(self._data, self._index, np.concatenate([self._base, target]))
        self.moves += 1
        self._run(float(request["dt"]))
        return {}

    def _run(self, dt: float) -> None:
        for _ in range(max(1, round(dt / TIMESTEP))):
            mujoco.mj_step(self._model, self._data)

    def _stop(self, _: dict[str, Any]) -> None:
        self.halt("emergency stop")

    def halt(self, reason: str) -> None:
        """Hold the joints where they are."""
        if not self.stopped:
            self.stopped, self.fault = True, reason
        here = self._data.qpos[self._index.joint_qpos]
        drive_hand(self._data, self._index, np.concatenate([self._base, here]))

    def _release(self, _: dict[str, Any]) -> None:
        self.halt("")
        self.stopped, self.fault = False, ""

    def _freeze(self, _: dict[str, Any]) -> None:
        self._frozen = self._last or self._picture()

    def _frame(self, _: dict[str, Any]) -> dict[str, Any]:
        self._last = self._frozen or self._picture()
        return self._last

    def _picture(self) -> dict[str, Any]:
        K, T = CAMERA, look_at(EYE, TARGET)
        count = K.width * K.height
        x, y = slopes_at(np.arange(count), K)
        rays = np.stack([x, y, np.ones(count)], axis=1).astype(np.float64)
        length = np.linalg.norm(rays, axis=1)
        world = (rays / length[:, None]) @ T[:3, :3].T
        geom, distance = np.zeros(count, np.int32), np.zeros(count)
        normal = np.zeros((count, 3))
        mujoco.mj_multiRay(
            self._model, self._data, T[:3, 3], world.reshape(-1), None, True, -1, geom, distance,
            normal.reshape(-1), count, 10.0,
        )  # fmt: skip
        hit = geom >= 0
        depth = np.where(hit, distance / length, np.nan).astype(np.float32)
        shade = 0.4 + 0.6 * np.clip(normal @ LIGHT, 0, 1)
        colour = self._model.geom_rgba[geom, :3] * shade[:, None] * 255
        colour[~hit] = 30
        ids = np.where(hit, self._ids[geom], 0).astype(np.uint16)
        return {
            "depth": packed(depth),
            "colour": packed(colour.astype(np.uint8)),
            "segment": packed(ids),
            "segment_table": SEGMENTS,
            "intrinsics": K.to_array().tolist(),
            "T_world_cam": T.tolist(),
            "time": time.time(),
        }


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        moved = False
        try:
            for line in self.rfile:
                with server.lock:
                    try:
                        request = json.loads(line)
                        answer = server.robot.answer(request)
                        moved |= request["op"] == "move"
                    except (ValueError, TypeError, KeyError, AttributeError) as error:
                        answer = {"ok": False, "kind": "refused", "error": f"bad request: {error}"}
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass
        finally:
            if moved:  # who moved it is gone
                with server.lock:
                    server.robot.halt("connection lost")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, robot: SimulatedRobot) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.robot, self.lock = robot, threading.Lock()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hand", default="xarm7_ability", help="a hand file with an arm")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    args = parser.parse_args()
    with _Server(args.port, SimulatedRobot(args.hand)) as server:
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
