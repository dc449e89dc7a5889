"""Does this grasp hold? A small PointNet learns it from the clouds and labels of a dataset.

    python -m pipeline run all --config configs/classifier.yaml
    python examples/06_train_grasp_classifier.py data/out/classifier

A grasp and the cropped single-view cloud around it go in, in the frame between the fingertips,
with the middles of the hand's links as further points; out comes how likely it is that the
protocol `fc` calls it a success. It is judged on objects that it never saw, beside a network of
the same size that learned from shuffled labels. `--exact` names the same dataset without the
sensor's noise, and `--captures` a folder of real depth frames, for the table of what noise and crop
are worth.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from scipy.stats import rankdata
from torch import nn

from pipeline.captures import read_capture, read_mesh
from pipeline.pictures.cloud import load_surface
from schemas.frames import invert, matrix_to_pose, pose_to_matrix
from stages.assets.hands.load import load_hand
from stages.crop import CropSpec, crop_depth
from stages.render.register import register
from stages.shard.clouds import CloudTable
from stages.shard.grasps import GraspTable
from stages.shard.open import load_manifest

REACH, NEAR = 0.12, 128  # m around the grasp, and how many points of the cloud there are used
CONTROLS = 6
CAPTURES = {
    "mustard": "ycb://006_mustard_bottle",
    "sugar": "ycb://004_sugar_box",
    "cheezit": "ycb://003_cracker_box",
}


class Pairs:
    """Every grasp with every cloud of its object, as arrays once all clouds are added."""

    def __init__(self, links: dict):
        self.links = links  # (object, grasp) -> what hand_links says of it
        self.rng = np.random.default_rng(0)
        self.parts: list[tuple] = []
        self.names: list[str] = []

    def read(self, out: Path, split: str, hand: str) -> "Pairs":
        table = CloudTable(out=out, split=split, frame="camera", min_points=NEAR)
        grasps = GraspTable(out, split, hand, "fc")
        for i in range(len(table)):
            cloud = table.read(i, i + 1)[0]
            T_cam_world = invert(cloud["T_world_cam"])
            found = grasps.of_scene(cloud["object_ids"], cloud["object_poses"], T_cam_world)
            self.add(cloud["points"], found, cloud["object_ids"])
        return self.done()

    def add(self, points: np.ndarray, found: dict, object_ids: tuple) -> None:
        """One cloud (N, 3) and `found`, the grasps of its objects in the same frame."""
        slots = found["object_slot"].tolist()
        keys = [(object_ids[s], int(g)) for s, g in zip(slots, found["grasp_index"], strict=True)]
        if not keys:
            return
        T = np.stack([pose_to_matrix(q[:7]) @ self.links[k][0]
                      for q, k in zip(found["grasp_qpos"], keys, strict=True)])  # fmt: skip
        local = (points[None] - T[:, None, :3, 3]) @ T[:, :3, :3]  # (G, N, 3) grasp frame
        near = (local**2).sum(axis=2) < REACH**2
        order = np.argsort(self.rng.random(near.shape) + ~near, axis=1)[:, :NEAR]
        rows = np.arange(len(keys))[:, None]
        cloud, links = local[rows, order], np.stack([self.links[k][1] for k in keys])
        self.parts.append((cloud.astype(np.float32), near[rows, order], links, found["success"]))
        self.names += [f"{name}#{number}" for name, number in keys]

    def done(self) -> "Pairs":
        """(P, NEAR, 3) m, (P, NEAR) bool, (P, L, 3) m, (P,)."""
        clouds, near, links, success = (np.concatenate(a) for a in zip(*self.parts, strict=True))
        self.points, self.near = torch.from_numpy(clouds), torch.from_numpy(near)
        self.hand, self.success = torch.from_numpy(links), success.astype(np.float32)
        self.clouds = len(self.parts)
        return self

    def __len__(self) -> int:
        return len(self.success)

    def batch(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, NEAR + L, 4) points, the last number 1 for the hand, and which are real."""
        points, hand, near = self.points[rows], self.hand[rows], self.near[rows]
        both = nn.functional.pad(torch.cat([points, hand], dim=1) / REACH, (0, 1))
        both[:, NEAR:, 3] = 1
        return both, nn.functional.pad(near, (0, hand.shape[1]), value=True)


class PointNet(nn.Module):
    """Qi et al. 2017 without its transforms: one network a point, the maximum, one network."""

    def __init__(self, links: int):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 192)
        )
        self.hand = nn.Sequential(nn.Linear(links * 3, 128), nn.ReLU())
        self.all = nn.Sequential(
            nn.Linear(192 + 128, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 1)
        )

    def forward(self, points: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Logits (B,)."""
        found = self.each(points).masked_fill(~real[..., None], -1e9).amax(dim=1)
        links = points[:, NEAR:, :3].flatten(1)
        return self.all(torch.cat([found, self.hand(links)], dim=1))[:, 0]


def train(pairs: Pairs, success: np.ndarray, steps: int) -> PointNet:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = PointNet(pairs.hand.shape[1])
    # It starts at the share of successes, so that nothing has to be learned to get there: on the
    # way it would score all that has many points alike, and not even shuffled labels gave 0.5.
    share = float(np.clip(success.mean(), 0.01, 0.99))
    nn.init.constant_(model.all[-1].bias, np.log(share / (1 - share)))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(steps):
        rows = rng.integers(0, len(pairs), 64)
        points, real = pairs.batch(rows)
        points[..., :3] += 0.01 * torch.randn_like(points[..., :3])
        loss = nn.functional.binary_cross_entropy_with_logits(
            model(points, real), torch.from_numpy(success[rows])
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def scores(model: PointNet, pairs: Pairs) -> np.ndarray:
    blocks = np.array_split(np.arange(len(pairs)), max(1, len(pairs) // 512))
    return np.concatenate([model(*pairs.batch(rows)).numpy() for rows in blocks])


def roc_auc(score: np.ndarray, success: np.ndarray) -> float:
    """Probability that a random success scores above a random failure, ties counting half."""
    rank = rankdata(score)
    good = success.astype(bool)
    n, m = good.sum(), (~good).sum()
    return float((rank[good].sum() - n * (n + 1) / 2) / (n * m)) if n and m else float("nan")


def interval(score: np.ndarray, pairs: Pairs) -> str:
    """The AUC and 95 % of 200 draws of the grasps (not of the clouds, which share them)."""
    rng, names = np.random.default_rng(0), np.array(pairs.names)
    grasps, where = np.unique(names, return_inverse=True)
    rows = [np.flatnonzero(where == g) for g in range(len(grasps))]
    drawn = []
    for _ in range(200):
        chosen = np.concatenate([rows[g] for g in rng.integers(0, len(grasps), len(grasps))])
        drawn.append(roc_auc(score[chosen], pairs.success[chosen]))
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return f"{roc_auc(score, pairs.success):.3f} ({low:.2f} to {high:.2f})"


def hand_links(out: Path, splits: list[str], hand: str) -> dict:
    """(object, grasp) -> T_root_grasp and the middles of the links (L, 3) m in the grasp frame."""
    T_root_grasp = pose_to_matrix(np.array(load_hand(hand).T_root_grasp))
    found: dict = {}
    for split in splits:
        table = GraspTable(out, split, hand)
        surface = load_surface(table)
        for name, rows in table.rows.items():
            for row in rows:
                qpos = table.arrays["grasp_qpos"][row].copy()
                qpos[:7] = matrix_to_pose(invert(T_root_grasp))  # the grasp frame is the world
                middles = surface.middles(qpos).astype(np.float32)
                found[name, int(table.arrays["grasp_index"][row])] = (T_root_grasp, middles)
    return found


def real_pairs(out: Path, spec: CropSpec, masked: bool, folder: Path, hand: str, links: dict):
    """Grasps on objects in real frames: their poses by registration, their labels by simulation."""
    pairs = Pairs(links)
    for name, entry in CAPTURES.items():
        capture = read_capture(folder / f"{name}.npy")
        object_id, mesh = read_mesh(entry)
        pose = register(capture.points(), *mesh)
        cloud = crop_depth(
            capture.depth.astype(np.float32), capture.intrinsics, spec, seed=0,
            segment=capture.mask.astype(np.uint8) if masked else None,
            segment_table={"background": 0, "object:0": 1} if masked else None,
        )  # fmt: skip
        split = next(s for s, ids in load_manifest(out)["splits"].items() if object_id in ids)
        found = GraspTable(out, split, hand, "fc").of_scene(
            (object_id,), matrix_to_pose(pose.T_cam_object)[None], np.eye(4)
        )
        pairs.add(cloud.points, found, (object_id,))
    return pairs.done()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", type=Path, nargs="?", default=Path("data/out/classifier"))
    parser.add_argument("--exact", type=Path, help="the same dataset without sensor noise")
    parser.add_argument("--captures", type=Path, help="folder of 6-DOF GraspNet's real frames")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    out, steps = arguments.dataset, 3 if arguments.smoke else arguments.steps

    manifest = load_manifest(out)
    splits = [s for s in manifest["splits"] if manifest["statistics"][s].get("grasps")]
    hand = sorted(manifest["statistics"]["train"]["grasps"])[0]
    held_out = "test" if "test" in splits else "train"
    links = hand_links(out, splits, hand)
    learn = Pairs(links).read(out, "train", hand)
    judge = Pairs(links).read(out, held_out, hand)
    for name, pairs in (("train", learn), ("held out", judge)):
        print(f"{name}: {pairs.clouds} clouds, {len(set(pairs.names))} grasps of {hand}, "
              f"{len(pairs)} pairs, {pairs.success.mean():.0%} succeed")  # fmt: skip

    start = monotonic()
    model = train(learn, learn.success, steps)
    print(f"ROC-AUC on held-out objects: {interval(scores(model, judge), judge)}, "
          f"{steps} steps in {monotonic() - start:.0f} s")  # fmt: skip
    # The control: every grasp keeps its clouds and gets the label of another grasp. One network of
    # these is a random function, whose AUC is 0.5 give or take; so take the mean of a few.
    _, first, of = np.unique(learn.names, return_index=True, return_inverse=True)
    label = learn.success[first]
    aucs = []
    for seed in range(CONTROLS):
        shuffled = np.random.default_rng(seed).permutation(label)[of]
        control = train(learn, shuffled, max(1, steps // CONTROLS))
        aucs.append(roc_auc(scores(control, judge), judge.success))
    each = ", ".join(f"{auc:.2f}" for auc in aucs)
    print(f"{CONTROLS} networks that learned shuffled labels: {np.mean(aucs):.3f} ({each})")

    if arguments.captures is None or not arguments.captures.is_dir():
        print(f"no table of real captures: no folder {arguments.captures}; give --captures")
        return
    spec = CropSpec.from_dict(manifest["crop"])
    tests = {
        "simulated, held out": judge,
        "real, the dataset's crop": real_pairs(out, spec, True, arguments.captures, hand, links),
        "real, all within 1.2 m": real_pairs(
            out, replace(spec, extract_segments=(), max_depth=1.2), False, arguments.captures, hand,
            links,
        ),
    }  # fmt: skip
    models = {"sensor noise": model}
    if arguments.exact is not None:
        clean = Pairs(links).read(arguments.exact, "train", hand)
        models["no noise"] = train(clean, clean.success, steps)
    print("\n| trained with | " + " | ".join(tests) + " |\n|---|" + "---|" * len(tests))
    for name, trained in models.items():
        row = [interval(scores(trained, pairs), pairs) for pairs in tests.values()]
        print(f"| {name} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
