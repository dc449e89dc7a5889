"""`pipeline calibrate-table`: where the table is, from one depth image."""

import json
import math
from dataclasses import replace
from pathlib import Path

import click

from pipeline.errors import UserError


@click.command("calibrate-table")
@click.argument("capture")
@click.option("--convention", type=click.Path(path_type=Path), help="JSON that says what the files "
              "of CAPTURE hold (configs/captures).")  # fmt: skip
@click.option("--pose", type=click.Path(path_type=Path), help="T_world_cam (4, 4), .npy or .json.")
@click.option("--max-depth", type=float, default=2.0, show_default=True, help="m; farther is no "
              "table.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="JSON to write, for crop --table.")
def calibrate_table(
    capture: str, convention: Path | None, pose: Path | None, max_depth: float, out: Path | None
) -> None:
    """Fit the table in CAPTURE and say where it is.

    With a camera pose (--pose, or the capture's own): the table's height and tilt in that world.
    Without one: the camera's pose in a world on the table.

    \b
    python -m pipeline calibrate-table realsense: --out table.json
    python -m pipeline calibrate-table m2t2/00 --convention configs/captures/m2t2.json
    python -m pipeline calibrate-table frame.npz --pose T_world_cam.json
    """
    from schemas.errors import SchemaError
    from stages.crop import CropError
    from stages.crop.files import read_transform
    from stages.robot import open_source
    from stages.robot.deploy import table_dict
    from stages.robot.table import calibrate_table as calibrate

    try:
        source = open_source(capture, convention)
        try:
            frame = source.read()
        finally:
            source.close()
        if pose is not None:
            frame = replace(frame, T_world_cam=read_transform(pose))
        fit = calibrate(frame, max_depth)
    except (CropError, SchemaError) as error:
        raise UserError(str(error)) from error
    if frame.T_world_cam is None:
        x, y, z = fit.T_world_cam[:3, 3]
        click.echo(f"camera     {x:+.4f} {y:+.4f} {z:+.4f} m in a world on the table")
    else:
        click.echo(f"height     {1000 * fit.height:+.1f} mm in the world's frame")
        click.echo(f"tilt       {math.degrees(fit.tilt):.2f} degrees against the world's z")
    click.echo(
        f"residual   {1000 * fit.residual:.2f} mm rms of {fit.points} points, {fit.share:.0%} of "
        "the near ones"
    )
    if out is not None:
        try:
            text = json.dumps(table_dict(fit), indent=1, allow_nan=False)
            out.write_text(text + "\n", encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"cannot write {out}: {error}") from error
        click.echo(f"{out}: for crop --table")
