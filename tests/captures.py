"""The real captures of the reference data, and how their files are read."""

from pathlib import Path

import pytest

from tests.reference import REFERENCE

CAPTURES = REFERENCE / "captures"
CONVENTIONS = Path(__file__).parents[1] / "configs" / "captures"

# name -> (where, convention)
ALL: dict[str, tuple[Path, Path]] = {
    name: (CAPTURES / where, CONVENTIONS / f"{convention}.json")
    for name, where, convention in (
        *((n, f"6dof-graspnet/{n}.npy", "6dof_graspnet")
          for n in ("mustard", "sugar", "cheezit", "blue_mug", "cylinder", "green_bowl")),
        *((f"m2t2_{n}", f"m2t2/{n}", "m2t2") for n in ("00", "01")),
        *((f"uoc_{n}", f"uoc/{n}", "uoc") for n in ("000000", "000004", "000006")),
        ("graspnet", "graspnet-baseline", "graspnet_baseline"),
        ("hggd", "hggd", "hggd"),
        ("table_mug", "gpd", "gpd_table_mug"),
        ("krylon", "gpd", "gpd_krylon"),
    )
}  # fmt: skip

needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"no reference captures at {CAPTURES}"
)
