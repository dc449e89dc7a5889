"""`pipeline crop`: the dataset's crop on a depth image of a real camera."""

from pathlib import Path
from typing import Any

import click

from pipeline.errors import UserError


@click.command()
@click.argument("depth", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--intrinsics",
    required=True,
    metavar="K",
    help="fx,fy,cx,cy[,width,height] in pixels, or a .json file.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="PLY file to write.")
@click.option("--dataset", type=click.Path(path_type=Path), help="Take the crop of this dataset.")
@click.option("--crop-spec", type=click.Path(path_type=Path), help="Take the crop of this JSON.")
@click.option("--expect-digest", metavar="HEX", help="Refuse a crop with another digest.")
@click.option("--segment", type=click.Path(path_type=Path), help="Segment image, .npy or .png.")
@click.option(
    "--segments",
    metavar="NAME=ID,...",
    help="What the ids mean. [default: table=1,object:0=2,object:1=3,...]",
)
@click.option(
    "--depth-scale",
    type=float,
    help="Metres per unit of DEPTH. [default: 1 for floating images, 0.001 for integer ones]",
)
@click.option("--pose", type=click.Path(path_type=Path), help="T_world_cam (4, 4), .npy or .json.")
@click.option("--table-height", type=float, default=0.0, show_default=True, help="m, world z.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random sampling.")
def crop(
    depth: Path,
    intrinsics: str,
    out: Path,
    dataset: Path | None,
    crop_spec: Path | None,
    expect_digest: str | None,
    segment: Path | None,
    segments: str | None,
    depth_scale: float | None,
    pose: Path | None,
    table_height: float,
    seed: int,
) -> None:
    """Cut a cloud from DEPTH (.npy or .png, z-depth) exactly as the dataset's clouds were cut.

    \b
    python -m pipeline crop depth.npy --intrinsics 615,615,320,240 \\
        --segment mask.npy --dataset data/out/demo --out cloud.ply
    python -m pipeline crop depth.png --intrinsics camera.json \\
        --crop-spec crop.json --pose T.npy --out cloud.ply
    """
    from schemas.errors import SchemaError
    from stages.crop import CropError, crop_depth
    from stages.crop.files import (
        parse_intrinsics,
        read_image,
        read_spec,
        read_transform,
        to_metres,
        write_ply,
    )

    source = crop_spec if dataset is None else dataset / "dataset.json"
    if source is None:
        raise UserError("crop: give --dataset OUT or --crop-spec FILE, so that clouds match")
    ids = None
    try:
        spec = read_spec(source)
        if dataset is not None and crop_spec is not None:
            read_spec(crop_spec).check_digest(spec.digest())
        if expect_digest is not None:
            spec.check_digest(expect_digest)
        image = read_image(depth)
        metres = to_metres(image, depth_scale, depth.name)
        ids = None if segment is None else read_image(segment)
        cloud = crop_depth(
            metres,
            parse_intrinsics(intrinsics, image.shape),
            spec,
            seed=seed,
            segment=ids,
            segment_table=None if ids is None else _segment_table(segments, int(ids.max())),
            T_world_cam=None if pose is None else read_transform(pose),
            table_pose=(0.0, 0.0, table_height, 1.0, 0.0, 0.0, 0.0),
        )
    except (CropError, SchemaError) as error:
        hint = ""
        if ids is not None and segments is None and "segment" in str(error):
            hint = (
                f"\n{segment} holds the ids {_ids_in(ids)}; 1 is taken for the table and 2.. for "
                'objects, say otherwise with --segments "object:0=1"'
            )
        raise UserError(f"{error}{hint}") from error
    try:
        write_ply(out, cloud)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}") from error
    click.echo(
        f"{out}: {len(cloud.points)} points in the {spec.frame} frame, of {cloud.valid_count} that "
        f"survived the crop {spec.digest()[:16]}"
    )


def _ids_in(image: Any) -> str:
    """The first few values of a segment image."""
    found = sorted(set(image.reshape(-1).tolist()))
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")


def _segment_table(text: str | None, largest: int) -> dict[str, int]:
    """Name -> id from `name=id,...`, or the project's own ids up to the largest in the image."""
    if text is None:
        objects = {f"object:{i - 2}": i for i in range(2, largest + 1)}
        return {"background": 0, "table": 1, **objects}
    table: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = part.strip().rpartition("=")
        if not (equals and name and number.isdigit() and int(number) < 2**16):
            raise UserError(f"--segments: expected name=id with 0 <= id < 65536, got {part!r}")
        table[name] = int(number)
    return table
