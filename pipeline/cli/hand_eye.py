"""`pipeline hand-eye`: where the camera is on the robot, and how well poses agree on it."""

from pathlib import Path
from typing import Any, cast

import click

from pipeline.errors import UserError


@click.command("hand-eye")
@click.argument("measurements", type=click.Path(path_type=Path))
@click.option("--check", type=click.Path(path_type=Path), metavar="T", help="Report on this "
              "T_hand_cam or T_base_cam (.npy or .json) instead of solving.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="JSON (4, 4) to write.")
def hand_eye(measurements: Path, check: Path | None, out: Path | None) -> None:
    """Solve for the camera's place in MEASUREMENTS and print what is left at every pose.

    MEASUREMENTS is JSON: "mount" ("hand": the camera moves with the hand; "base": it stands, the
    board moves), "T_base_hand" and "T_cam_board", N matrices (4, 4) each.

    \b
    python -m pipeline hand-eye poses.json --out T_base_cam.json
    python -m pipeline hand-eye poses.json --check T_base_cam.json
    """
    import json

    from schemas.errors import SchemaError
    from schemas.files import read_json
    from stages.crop.errors import CropError
    from stages.crop.files import read_transform
    from stages.robot.hand_eye import residuals, solve_hand_eye

    keys = ("mount", "T_base_hand", "T_cam_board")
    try:
        values = read_json(measurements)
        if not isinstance(values, dict) or not set(keys) <= set(cast(dict[str, Any], values)):
            raise UserError(f"{measurements}: expected {', '.join(keys)}")
        mount, hands, boards = (cast(dict[str, Any], values)[key] for key in keys)
        if check is None:
            report = solve_hand_eye(hands, boards, mount)
        else:
            report = residuals(hands, boards, mount, read_transform(check))
    except (SchemaError, CropError, OSError, TypeError) as error:
        raise UserError(f"{measurements}: {error}") from error
    click.echo("\n".join(report.lines()))
    if out is not None:
        try:
            out.write_text(json.dumps(report.T.tolist()) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {out}: {error}") from error
        if report.mount == "base":
            click.echo(f"{out}: T_base_cam; for crop --pose if the base is the world")
        else:
            click.echo(
                f"{out}: T_hand_cam; for crop --pose, T_world_cam = T_world_hand @ T_hand_cam"
            )
