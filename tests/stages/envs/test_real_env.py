"""RealEnv on the real code path: a simulated robot in its own process, over a socket."""

import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from schemas.frames import transform_points
from stages.assets.hands.load import load_hand
from stages.crop import CropSpec
from stages.envs.base import build_env
from stages.envs.config import EnvConfig
from stages.envs.errors import EnvConfigError
from stages.envs.mujoco.simulated_robot import SimulatedRobot
from stages.envs.real.config import RealEnvConfig
from stages.envs.real.driver import JointLimits
from stages.envs.real.drivers.socket import SocketDriver
from stages.envs.real.env import RealEnv
from stages.envs.real.errors import (
    BlockedError,
    ConnectionLostError,
    JointLimitError,
    MotionRefusedError,
    NoDeviceError,
    NoGroundTruthError,
    SpeedLimitError,
    StoppedRobotError,
)
from stages.robot import StaleFrameError
from tests.program import ROOT, python

HAND = load_hand("xarm7_ability")
ARM = len(HAND.ik_joints)
AGE = 3600.0  # s; a machine under load is slow, not stale


class Program:
    """The simulated robot, from start to end of its standard input."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stages.envs.mujoco.simulated_robot"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = f"127.0.0.1:{int(self._process.stdout.readline())}"

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(30)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    running = Program()
    yield running
    running.end()


def config(program: Program, **more: object) -> RealEnvConfig:
    values: dict[str, object] = {
        "driver": f"socket:{program.address}", "camera": "robot", "base_pose": HAND.base_pose,
        "home_qpos": HAND.pregrasp_qpos, "speed_scale": 0.5, "max_frame_age": AGE, "max_lag": 0.4,
        "crop": CropSpec(frame="world"),
    }  # fmt: skip
    return RealEnvConfig(**values | more)  # type: ignore[arg-type]


@pytest.fixture
def env(program: Program) -> Iterator[RealEnv]:
    with build_env(EnvConfig(real_env_config=config(program))) as made:
        assert isinstance(made, RealEnv)
        made.release()
        made.reset()
        yield made


@pytest.fixture
def pendant(program: Program) -> Iterator[SocketDriver]:
    """A second connection, as a teach pendant has."""
    other = SocketDriver(program.address)
    yield other
    other.close()


def ahead(env: RealEnv, joint: int, by: float) -> np.ndarray:
    """(1, 7 + J) the last target, one joint `by` further."""
    qpos = np.concatenate([HAND.base_pose, env.get_info()["target"]])[None]
    qpos[0, 7 + joint] += by
    return qpos


def test_reset_goes_home_and_steps_follow(env: RealEnv) -> None:
    assert env.joint_names == HAND.joint_names
    qpos = env.get_qpos()
    assert qpos.shape == (1, 7 + len(HAND.joint_names))
    np.testing.assert_array_equal(qpos[0, :7], HAND.base_pose)
    np.testing.assert_allclose(qpos[0, 7 : 7 + ARM], HAND.pregrasp_qpos[:ARM], atol=0.02)
    for _ in range(25):
        env.step_qpos(ahead(env, 0, -0.02))
    moved = env.get_qpos()[0, 7] - qpos[0, 7]
    assert moved == pytest.approx(-0.5, abs=0.1)  # 25 steps, less the servo's lag
    env.reset()
    for _ in range(20):
        env.step_qpos(ahead(env, 0, 0.0))
    np.testing.assert_allclose(env.get_qpos()[0, 7], HAND.pregrasp_qpos[0], atol=0.02)


def test_motion_outside_limits_is_refused_before_it_is_sent(
    env: RealEnv, pendant: SocketDriver
) -> None:
    sent = pendant.ask({"op": "state"})["moves"]
    limits = pendant.limits
    speed = float(limits.speed[3]) * 0.5 * env.config.control_dt
    beyond = ahead(env, 1, float(limits.upper[1]) + 0.01 - HAND.pregrasp_qpos[1])
    for qpos, error, message in (
        (beyond, JointLimitError, r"joint2: expected -2\.0590 to 2\.0944, got 2\.1044; nothing"),
        (ahead(env, 3, 1.01 * speed), SpeedLimitError, r"joint4: .* expected at most 1\.571"),
        (ahead(env, 3, np.nan), MotionRefusedError, "NaN or infinity"),
        (ahead(env, 3, 0.0)[0], MotionRefusedError, r"expected shape \(1, 20\)"),
        (ahead(env, 3, 0.0)[:, :-1], MotionRefusedError, r"got \(1, 19\)"),
        (ahead(env, -7, 0.001), MotionRefusedError, "only its joints can move"),
        (ahead(env, -2, 0.01), MotionRefusedError, "only its joints can move"),
    ):
        with pytest.raises(error, match=message):
            env.step_qpos(qpos)
    assert pendant.ask({"op": "state"})["moves"] == sent
    env.step_qpos(ahead(env, 3, 0.99 * speed))
    assert pendant.ask({"op": "state"})["moves"] == sent + 1


def test_the_robot_refuses_by_itself_too(pendant: SocketDriver) -> None:
    pendant.release()
    target = pendant.state().qpos
    target[1] = 3.0
    with pytest.raises(MotionRefusedError, match="out of range"):
        pendant.send(target, 0.02)
    with pytest.raises(MotionRefusedError, match="expected one of"):
        pendant.ask({"op": "dance"})


def test_reset_keeps_the_speed(env: RealEnv, pendant: SocketDriver) -> None:
    """From afar, no step of the way is faster than allowed, by the robot's own simulated time."""
    for _ in range(40):
        env.step_qpos(ahead(env, 0, -0.03))
    start, before = env.get_info()["target"], pendant.ask({"op": "state"})["time"]
    env.reset()
    took = pendant.ask({"op": "state"})["time"] - before
    fastest = np.abs(start - np.array(HAND.pregrasp_qpos)) / pendant.limits.speed
    assert took >= float(fastest.max()) / 0.5 - 1e-6
    assert took <= float(fastest.max()) / 0.5 + 2 * env.config.control_dt


def test_an_emergency_stop_stops_and_stays(env: RealEnv, pendant: SocketDriver) -> None:
    for _ in range(10):
        env.step_qpos(ahead(env, 0, -0.03))
    assert abs(pendant.ask({"op": "state"})["qvel"][0]) > 0.5  # rad/s: it moves
    pendant.stop()
    with pytest.raises(StoppedRobotError, match="emergency stop"):
        env.step_qpos(ahead(env, 0, -0.03))
    qpos = np.concatenate([HAND.base_pose, pendant.state().qpos])[None]
    for _ in range(15):  # each try lets time go on for the braking arm
        with pytest.raises(StoppedRobotError, match="release"):
            env.step_qpos(qpos)
        with pytest.raises(StoppedRobotError):
            pendant.send(qpos[0, 7:], 0.05)
    still = pendant.ask({"op": "state"})
    assert np.abs(still["qvel"][:ARM]).max() < 0.02
    assert env.get_info()["stopped"] is True
    assert env.get_info()["fault"] == "emergency stop"
    with pytest.raises(StoppedRobotError):
        env.reset()
    env.release()
    env.reset()
    assert env.get_info()["stopped"] is False


def test_an_arm_that_the_pendant_moved_does_not_jump_back(
    env: RealEnv, pendant: SocketDriver
) -> None:
    env.step_qpos(ahead(env, 0, 0.0))
    pendant.stop()
    pendant.release()
    target = pendant.state().qpos
    for _ in range(30):
        target[0] -= 0.03
        pendant.send(target, 0.02)
    for _ in range(20):
        pendant.send(target, 0.02)
    sent = pendant.ask({"op": "state"})["moves"]
    with pytest.raises(MotionRefusedError, match=r"joint1: is 0\.\d+ away .* nothing was sent"):
        env.step_qpos(ahead(env, 0, 0.0))
    assert pendant.ask({"op": "state"})["moves"] == sent
    env.step_qpos(env.get_qpos())  # from where it is
    assert env.get_qpos()[0, 7] == pytest.approx(target[0], abs=0.05)


def test_stop_of_the_env_itself(env: RealEnv) -> None:
    qpos = ahead(env, 0, 0.0)
    env.stop()
    with pytest.raises(StoppedRobotError):
        env.step_qpos(qpos)


def test_an_arm_that_does_not_follow_is_stopped(program: Program) -> None:
    with RealEnv(config(program, speed_scale=1.0, control_dt=0.1, max_lag=0.02)) as env:
        env.release()

        def push() -> None:
            for _ in range(5):
                env.step_qpos(ahead_of_state(env, 0, 0.3))

        with pytest.raises(BlockedError, match=r"joint1: trails its target by 0\.\d+, expected"):
            push()
        assert env.get_info()["stopped"] is True


def ahead_of_state(env: RealEnv, joint: int, by: float) -> np.ndarray:
    target = env.get_info()["target"]
    qpos = env.get_qpos()
    if target is not None:
        qpos[0, 7:] = target
    qpos[0, 7 + joint] += by
    return qpos


def test_who_moves_it_and_vanishes_stops_it(program: Program, pendant: SocketDriver) -> None:
    env = RealEnv(config(program))
    env.release()
    env.reset()
    env.step_qpos(ahead(env, 0, -0.01))
    env.close()
    deadline = time.monotonic() + 60
    while not pendant.state().stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pendant.state().fault == "connection lost"


def test_a_lost_connection_is_told() -> None:
    own = Program()
    env = RealEnv(config(own))
    env.release()
    env.reset()
    qpos = ahead(env, 0, -0.01)
    env.step_qpos(qpos)
    own.end()
    for call in (
        lambda: env.step_qpos(qpos), env.get_qpos, env.get_pointcloud, env.reset, env.stop,
    ):  # fmt: skip
        with pytest.raises(ConnectionLostError, match="no answer to"):
            call()
    env.close()
    env.close()
    with pytest.raises(ConnectionLostError, match="cannot be reached"):
        SocketDriver(own.address)


def test_threads_share_a_connection(env: RealEnv, pendant: SocketDriver) -> None:
    """Pictures and states asked for at once are each answered with their own kind."""
    camera, done = pendant.camera(), []

    def look() -> None:
        for _ in range(10):
            done.append(camera.read().depth.shape)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(100):
        assert pendant.state().qpos.shape == (len(HAND.joint_names),)
    thread.join(120)
    assert done == [(120, 160)] * 10


@pytest.mark.parametrize(
    "answer",
    [b"220 mail.example\n", b"[1]\n", b'{"ok": true}\n', b'{"ok": true, "names": 5}\n',
     b'{"ok": true, "names": ["a"], "lower": ["x"], "upper": [1], "speed": [1]}\n'],
)  # fmt: skip
def test_a_port_of_another_program_is_told(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends: list[bytes] = []

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)
                client.settimeout(60)
                ends.append(client.recv(1000))  # b"" once the driver has closed

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ConnectionLostError, match=r"no answer to 'hello'|not of this"):
            SocketDriver(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join(120)
        assert ends == [b""]


def test_the_camera_sees_the_scene_where_it_is(env: RealEnv) -> None:
    """The crop's objects stand where the simulation put them, and the box's top is flat."""
    [cloud] = env.get_pointcloud()
    assert env.get_rgb().shape == (1, 120, 160, 3)
    box = cloud.points[cloud.segment == 2]
    assert len(box) > 200
    assert box[:, 2].max() == pytest.approx(0.1, abs=1e-3)
    assert box.min(axis=0) == pytest.approx([0.25, 0.055, 0.0], abs=0.006)
    assert box.max(axis=0)[:2] == pytest.approx([0.31, 0.145], abs=0.006)
    frame = env.get_frame()
    [again] = env.get_pointcloud()
    np.testing.assert_array_equal(again.points, cloud.points)
    assert frame.T_world_cam is not None
    camera = frame.crop(CropSpec()).points
    np.testing.assert_allclose(transform_points(frame.T_world_cam, camera), cloud.points, atol=1e-6)
    assert 0 <= env.get_info()["frame_age"] < AGE


def test_a_camera_that_hangs_is_told_by_age(program: Program, pendant: SocketDriver) -> None:
    late = 0.0
    with RealEnv(config(program), clock=lambda: time.time() + late) as env:
        env.get_pointcloud()
        pendant.ask({"op": "freeze"})
        env.get_pointcloud()
        late = AGE + 1
        for call in (env.get_pointcloud, env.get_rgb):
            with pytest.raises(StaleFrameError, match="is the camera still connected"):
                call()


def test_the_real_world_has_no_verdict(env: RealEnv) -> None:
    with pytest.raises(NoGroundTruthError, match="no ground truth"):
        env.evaluate(None, None, "fc")  # type: ignore[arg-type]


def test_a_workplace_without_robot_or_camera_says_so() -> None:
    with RealEnv(RealEnvConfig()) as env:
        env.reset()
        for call in (env.get_qpos, env.stop, lambda: env.step_qpos(np.zeros((1, 7)))):
            with pytest.raises(NoDeviceError, match="no robot"):
                call()
        with pytest.raises(NoDeviceError, match="no camera"):
            env.get_pointcloud()
        assert env.get_info() == {}


def test_wrong_configs_are_explained() -> None:
    for values, message in (
        ({"base_pose": (0.0, 0.0)}, "base_pose: expected 7 numbers"),
        ({"speed_scale": 2.0}, "speed_scale: expected 0 to 1"),
        ({"control_dt": 0.0}, "control_dt: expected > 0"),
        ({"control_dt": math.inf}, "control_dt: expected finite"),
        ({"camera": "robot"}, 'only a driver "socket:HOST:PORT" has a camera'),
    ):
        with pytest.raises(ValueError, match=message):
            RealEnvConfig(**values)  # type: ignore[arg-type]
    for driver in ("teleport:1", "socket:", "xarm"):
        with pytest.raises(EnvConfigError, match="expected NAME:ADDRESS"):
            RealEnv(RealEnvConfig(driver=driver))
    ones = np.ones(2)
    with pytest.raises(MotionRefusedError, match="lower < upper"):
        JointLimits(names=("a", "b"), lower=ones, upper=ones, speed=ones)
    with pytest.raises(MotionRefusedError, match="speed: expected"):
        JointLimits(names=("a", "b"), lower=-ones, upper=ones, speed=np.ones(3))
    with pytest.raises(EnvConfigError, match="floats; a simulated robot needs an arm"):
        SimulatedRobot("ability_right")


def test_an_xarm_that_is_not_there_is_told() -> None:
    """The maker's own SDK, as far as it goes without an arm; it leaves its socket open."""
    pytest.importorskip("xarm")
    program = (
        "from stages.envs.real.config import RealEnvConfig\n"
        "from stages.envs.real.env import RealEnv\n"
        "from stages.envs.real.errors import ConnectionLostError\n"
        "try: RealEnv(RealEnvConfig(driver='xarm:127.0.0.1'))\n"
        "except ConnectionLostError as error: print('TOLD', error)"
    )
    said = python(program)
    assert "TOLD xArm at 127.0.0.1: cannot be reached" in said
    assert "is the control box on" in said


def test_no_hardware_or_engine_is_imported_for_a_camera(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from stages.envs.base import build_env\n"
        "from stages.envs.config import EnvConfig\n"
        "before = set(sys.modules)\n"
        "from stages.envs.real.config import RealEnvConfig\n"
        "build_env(EnvConfig(real_env_config=RealEnvConfig())).close()\n"
        "heavy = {'torch', 'mujoco', 'sapien', 'mani_skill', 'scipy', 'trimesh', 'zarr', 'PIL',\n"
        "         'pyrealsense2', 'xarm', 'yaml', 'pyarrow'}\n"
        "print(sorted(heavy & {m.partition('.')[0] for m in sys.modules}))\n"
        "print('stages.envs.real.env' in before)"
    )
    assert python(program).split("\n")[:2] == ["[]", "False"]


def test_the_limits_may_be_narrowed_in_speed_only() -> None:
    limits = JointLimits(names=("a",), lower=-np.ones(1), upper=np.ones(1), speed=np.ones(1))
    assert limits.scaled(0.5).speed == 0.5
    limits.check(np.array([0.1]), np.zeros(1), 0.1)
    with pytest.raises(SpeedLimitError):
        limits.scaled(0.5).check(np.array([0.1]), np.zeros(1), 0.1)
    with pytest.raises(JointLimitError):
        replace(limits, upper=np.array([0.05])).check(np.array([0.1]), np.array([0.1]), 0.1)
