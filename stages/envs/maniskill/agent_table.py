"""Which robots the DexGrasp environment knows. Light: `hand list` reads it without SAPIEN.

A uid is the name of the robot's config, with `_floating_base` for a floating hand on virtual
joints; the bare name of a floating hand is the same hand on a static base. Robots without a hand
file are ManiSkill's own agents under their own uid.
"""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stages.assets.hands.load import load_hand
from stages.assets.hands.models import resolve_model
from stages.assets.yaml_file import SUFFIXES
from stages.envs.errors import EnvConfigError

Base = Literal["virtual", "static", "fixed"]
FLOATING = "_floating_base"


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentEntry:
    """One robot. `virtual`: a hand on six driven joints; `static`: a hand whose root is put where
    it is wanted and stays there; `fixed`: an arm, or something that stands on a base."""

    uid: str
    base: Base
    hand: str = ""  # name in configs/hands, from which the agent is made
    native: str = ""  # else ManiSkill's uid
    file: str = ""  # of a native agent, in ManiSkill's assets
    download: str = ""  # ManiSkill's asset id when the file is not in the wheel
    contact_links: tuple[str, ...] = ()  # of a native agent: links whose push counts
    root_link: str = ""  # of a native agent on virtual joints: the link that they carry

    @property
    def path(self) -> Path:
        """Where the robot's file is or would be."""
        if self.hand:
            return resolve_model(load_hand(self.hand).model)
        if self.download:
            home = os.environ.get("MS_ASSET_DIR", str(Path.home() / ".maniskill"))
            return Path(home) / "data" / self.file
        found = importlib.util.find_spec("mani_skill")
        folder = Path(found.origin).parent if found and found.origin else Path("mani_skill")
        return folder / "assets" / self.file

    @property
    def missing(self) -> str:
        """ "" when the robot's file is here, else one line that says how to get it."""
        try:
            if self.path.is_file():
                return ""
        except LookupError as error:
            return str(error)
        if self.download:
            return f"needs a download: python -m mani_skill.utils.download_asset {self.download}"
        return "needs ManiSkill: pip install 'grasp-clouds[generate]'"


def _hand(name: str) -> tuple[AgentEntry, AgentEntry]:
    return (
        AgentEntry(uid=name, base="static", hand=name),
        AgentEntry(uid=name + FLOATING, base="virtual", hand=name),
    )


def _inspire(side: str) -> tuple[AgentEntry, AgentEntry]:
    folder = "robots/inspire_hand/RH56DFX-2LR/urdf"
    fingers = ("thumb_distal", "index_middle", "middle_middle", "ring_middle", "pinky_middle")
    links = tuple(
        f"{side}_hand_{link}"
        for link in ("hand_base_link", "thumb_proximal", *fingers,
                     *(f"{f}_proximal" for f in ("index", "middle", "ring", "pinky")))
    )  # fmt: skip
    return (
        AgentEntry(
            uid=f"inspire_{side}", base="static", native=f"fixed_inspire_hand_{side}",
            file=f"{folder}/inspire_hand_{side}.urdf", contact_links=links,
        ),
        AgentEntry(
            uid=f"inspire_{side}{FLOATING}", base="virtual", native=f"floating_inspire_hand_{side}",
            file=f"{folder}/inspire_hand_{side}_floating.urdf", contact_links=links,
            root_link=f"{side}_hand_wrist_base_link",
        ),
    )  # fmt: skip


def _native(
    uid: str, file: str, links: tuple[str, ...], download: str = "", native: str = ""
) -> AgentEntry:
    return AgentEntry(
        uid=uid, base="fixed", native=native or uid, file=file, contact_links=links,
        download=download,
    )  # fmt: skip


_PANDA = ("panda_leftfinger", "panda_rightfinger")
_ROBOTIQ = ("left_inner_finger_pad", "right_inner_finger_pad")

AGENTS: dict[str, AgentEntry] = {
    entry.uid: entry
    for entry in (
        *_hand("ability_left"),
        *_hand("ability_right"),
        *_hand("allegro_left"),
        *_hand("allegro_right"),
        *_hand("panda_gripper"),
        AgentEntry(uid="xarm7_ability", base="fixed", hand="xarm7_ability"),
        AgentEntry(uid="bimanual_panda", base="fixed", hand="bimanual_panda"),
        *_inspire("left"),
        *_inspire("right"),
        _native("panda", "robots/panda/panda_v2.urdf", _PANDA),
        _native("panda_wristcam", "robots/panda/panda_v3.urdf", _PANDA),
        _native("so100", "robots/so100/so100.urdf", ("Fixed_Jaw", "Moving_Jaw")),
        _native("koch-v1.1", "robots/koch/follower_arm_v1.1.urdf", ("gripper", "link_6")),
        _native(
            "fetch", "robots/fetch/fetch.urdf", ("l_gripper_finger_link", "r_gripper_finger_link")
        ),
        _native(
            "dclaw",
            "robots/dclaw/dclaw_gripper_glb.urdf",
            ("link_f1_3", "link_f2_3", "link_f3_3"),
        ),
        AgentEntry(
            uid="robotiq_2f85" + FLOATING, base="virtual", native="floating_robotiq_2f_85_gripper",
            file="robots/robotiq_2f/floating_robotiq_2f_85.urdf", download="robotiq_2f",
            contact_links=_ROBOTIQ, root_link="robotiq_arg2f_base_link",
        ),
        _native("xarm6_robotiq", "robots/xarm6/xarm6_robotiq.urdf", _ROBOTIQ, "xarm6"),
        _native("xarm6_robotiq_wristcam", "robots/xarm6/xarm6_robotiq.urdf", _ROBOTIQ, "xarm6"),
        _native(
            "widowx250s", "robots/widowx/wx250s.urdf", ("left_finger_link", "right_finger_link"),
            "widowx250s",
        ),
    )
}  # fmt: skip
"""uid -> robot, in the order of `hand list`."""


def agent_entry(uid: str) -> AgentEntry:
    """The robot of `uid`; EnvConfigError lists the uids."""
    if uid in AGENTS:
        return AGENTS[uid]
    hand = uid.removesuffix(FLOATING)
    if Path(hand).suffix not in SUFFIXES:
        raise EnvConfigError(f"no ManiSkill agent {uid!r}; known: {', '.join(AGENTS)}")
    floating = load_hand(hand).mocap
    base: Base = "virtual" if uid != hand else "static" if floating else "fixed"
    return AgentEntry(uid=uid, base=base, hand=hand)


def hand_uid(hand: str, *, static_base: bool = False) -> str:
    """The uid under which ManiSkill has `hand` (a name in configs/hands, or a hand file).

    Raises EnvConfigError for a hand without agent: it can be scored in MuJoCo alone.
    """
    spec = load_hand(hand)
    uid = hand if static_base or not spec.mocap else hand + FLOATING
    known = uid in AGENTS or Path(hand).suffix in SUFFIXES
    if not known or Path(spec.model).suffix.lower() != ".urdf":
        made = sorted({entry.hand for entry in AGENTS.values() if entry.hand})
        raise EnvConfigError(
            f"hand {hand!r} has no ManiSkill agent, so only MuJoCo can score it; hands with one: "
            f"{', '.join(made)}, and hand files whose model is a URDF"
        )
    return uid
