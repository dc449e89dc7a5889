"""Does memory stay flat while ManiSkill's scenes are built again and again?

    python benchmarks/soak_maniskill.py [--rebuilds 200] [--labels]

Builds another scene every time, as a renderer does, or with --labels as rollouts do, and prints
the resident memory of this process as it goes (GPU memory too where there is a GPU). Exit code 1
when it grew by more than --allow MiB between the first fifth and the end.
"""

import argparse
import sys

import numpy as np
import psutil
import torch
import trimesh

from schemas.camera import Intrinsics
from schemas.frames import look_at
from schemas.records import ObjectAsset, Scene
from stages.assets.build import packed
from stages.assets.inertia import mass_properties
from stages.assets.load import Mesh
from stages.envs.config import MsEnvConfig, RendererConfig, RolloutConfig
from stages.envs.maniskill.env import MsEnv
from stages.envs.maniskill.renderer import View, build_renderer
from stages.envs.maniskill.scenes import GraspScene

MIB = 2**20
K = Intrinsics(fx=300.0, fy=300.0, cx=160.0, cy=120.0, width=320, height=240)


def random_scene(seed: int) -> GraspScene:
    """Three balls of their own sizes, so that no mesh is like one before."""
    rng = np.random.default_rng(seed)
    assets: list[ObjectAsset] = []
    poses = []
    for i in range(3):
        ball = trimesh.creation.icosphere(3, rng.uniform(0.02, 0.05))
        assets.append(ball_asset(ball, f"ball-{seed}-{i}"))
        poses.append([0.12 * (i - 1), 0, 0.06, 1, 0, 0, 0])
    scene = Scene(
        scene_id=f"soak-{seed}", kind="tabletop", split="train",
        object_ids=tuple(a.object_id for a in assets), object_poses=np.array(poses),
        object_scales=np.ones(3), object_masses=np.ones(3),
        table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]), table_size=np.ones(2), settle_time=0.0,
    )  # fmt: skip
    return GraspScene(scene=scene, assets=tuple(assets))


def ball_asset(ball: trimesh.Trimesh, name: str) -> ObjectAsset:
    mesh = Mesh(vertices=np.asarray(ball.vertices), faces=np.asarray(ball.faces))
    mass = mass_properties(mesh.vertices, mesh.faces)
    return ObjectAsset(
        object_id=name, source=name, licence="CC0", sha256=name, scale=1.0,
        vertices=ball.vertices.astype(np.float32), faces=ball.faces.astype(np.int32),
        **packed([mesh]), volume=mass.volume, density=500.0, mass=500.0 * mass.volume,
        center_of_mass=mass.center_of_mass, inertia=500.0 * mass.inertia,
        stable_poses=np.zeros((0, 7)),
        stable_probabilities=np.zeros(0), notes="",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rebuilds", type=int, default=200)
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--allow", type=float, default=64.0, help="MiB")
    given = parser.parse_args()
    if given.labels:
        env = MsEnv(MsEnvConfig(agent="allegro_right_floating_base", rollout=RolloutConfig()))

        def build(i: int) -> None:
            env.load([random_scene(i)])
    else:
        renderer = build_renderer(RendererConfig(camera=K, num_envs=1))
        T = look_at([0.4, 0.3, 0.4], [0, 0, 0.05])

        def build(i: int) -> None:
            renderer.render([View(scene=random_scene(i), T_world_cam=T)])

    process, seen = psutil.Process(), []
    for i in range(given.rebuilds):
        build(i)
        seen.append(process.memory_info().rss / MIB)
        if i % max(1, given.rebuilds // 10) == 0 or i == given.rebuilds - 1:
            cuda = (
                f", CUDA {torch.cuda.memory_reserved() / MIB:.0f} MiB" * torch.cuda.is_available()
            )
            print(f"rebuild {i:4d}: {seen[-1]:.0f} MiB{cuda}", flush=True)
    grown = seen[-1] - max(seen[: max(1, given.rebuilds // 5)])
    print(f"grown by {grown:.1f} MiB since the first fifth, {grown / given.rebuilds:.3f} a rebuild")
    sys.exit(1 if grown > given.allow else 0)


if __name__ == "__main__":
    main()
