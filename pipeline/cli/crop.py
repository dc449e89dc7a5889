"""`pipeline crop`: the dataset's crop on frames of a real camera."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline.errors import UserError


@click.command()
@click.argument("capture")
@click.option(
    "--intrinsics",
    metavar="K",
    help="CAPTURE is a depth image; fx,fy,cx,cy[,width,height] in pixels, or a .json file.",
)
@click.option("--convention", type=click.Path(path_type=Path), help="JSON that says what the files "
              "of CAPTURE hold (configs/captures).")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="PLY file to write.")
@click.option("--dataset", type=click.Path(path_type=Path), help="Take the crop of this dataset.")
@click.option("--crop-spec", type=click.Path(path_type=Path), help="Take the crop of this JSON.")
@click.option("--expect-digest", metavar="HEX", help="Refuse a crop with another digest.")
@click.option("--segment", type=click.Path(path_type=Path), help="Segment image, .npy or .png.")
@click.option(
    "--segments",
    metavar="NAME=ID,...",
    help="What its ids mean; object:*=ID names all from there on. [default: table=1,object:*=2]",
)
@click.option("--on-table", is_flag=True, help="Objects are what stands on the table.")
@click.option("--workspace", metavar="X,Y,Z,X,Y,Z", help="The object is what lies in this box, m "
              "from the table.")  # fmt: skip
@click.option(
    "--depth-scale",
    type=float,
    help="Metres per unit of a depth image. [default: 1 for floating images, 0.001 for integers]",
)
@click.option("--pose", type=click.Path(path_type=Path), help="T_world_cam (4, 4), .npy or .json.")
@click.option("--table", type=click.Path(path_type=Path), help="JSON of calibrate-table.")
@click.option("--table-height", type=float, default=0.0, show_default=True, help="m, world z.")
@click.option("--frames", type=click.IntRange(1), default=1, show_default=True, help="So many, "
              "numbered in the names of the files from the second on.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of random sampling.")
def crop(
    capture: str,
    out: Path,
    dataset: Path | None,
    crop_spec: Path | None,
    expect_digest: str | None,
    frames: int,
    seed: int,
    **given: Any,
) -> None:
    """Cut a cloud from CAPTURE exactly as the dataset's clouds were cut.

    CAPTURE is a depth image (.npy or .png, z-depth) with --intrinsics, a capture or a recording
    (docs/robot.md), or realsense:[SERIAL], a live camera.

    \b
    python -m pipeline crop depth.npy --intrinsics 615,615,320,240 \\
        --segment mask.npy --dataset data/out/demo --out cloud.ply
    python -m pipeline crop depth.png --intrinsics camera.json \\
        --crop-spec crop.json --pose T.npy --out cloud.ply
    python -m pipeline crop realsense: --dataset data/out/demo --on-table \\
        --table table.json --out cloud.ply
    python -m pipeline crop uoc/000000 --convention configs/captures/uoc.json \\
        --dataset data/out/demo --on-table --out cloud.ply
    """
    from schemas.errors import SchemaError
    from stages.crop import CropError
    from stages.crop.files import read_image, read_spec, write_ply
    from stages.robot.deploy import RobotCrop, read_table
    from stages.robot.errors import EndOfRecordingError
    from stages.robot.table import ON_THE_ORIGIN

    source = crop_spec if dataset is None else dataset / "dataset.json"
    if source is None:
        raise UserError("crop: give --dataset OUT or --crop-spec FILE, so that clouds match")
    try:
        spec = read_spec(source)
        if dataset is not None and crop_spec is not None:
            read_spec(crop_spec).check_digest(spec.digest())
        if expect_digest is not None:
            spec.check_digest(expect_digest)
        T, table_pose = None, (0.0, 0.0, given["table_height"], *ON_THE_ORIGIN[3:])
        if given["table"] is not None:
            T, table_pose = read_table(given["table"])
        robot = RobotCrop(
            spec=spec, segmenter=_segmenter(given, table_pose), T_world_cam=T, table_pose=table_pose
        )
        camera = _source(capture, given)
        try:
            for number in range(frames):
                frame = camera.read()
                cloud = robot(_posed(frame, given["pose"]), seed)
                path = out if not number else out.with_stem(f"{out.stem}-{number:03d}")
                write_ply(path, cloud)
                click.echo(
                    f"{path}: {len(cloud.points)} points in the {spec.frame} frame, of "
                    f"{cloud.valid_count} that survived the crop {spec.digest()[:16]}"
                )
        except EndOfRecordingError as error:
            raise UserError(f"--frames {frames}: {error}") from error
        finally:
            camera.close()
    except (CropError, SchemaError) as error:
        hint, mask = "", given["segment"]
        if mask and not given["segments"] and "segment" in str(error):
            hint = (
                f"\n{mask} holds the ids {_ids_in(read_image(mask))}; 1 is taken for the table and "
                '2.. for objects, say otherwise with --segments "object:0=1"'
            )
        raise UserError(f"{error}{hint}") from error
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}") from error


def _ids_in(image: Any) -> str:
    """The first few values of a segment image."""
    found = sorted(set(image.reshape(-1).tolist()))
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")


def _source(capture: str, given: dict[str, Any]) -> Any:
    from stages.crop.files import parse_intrinsics, read_image, to_metres
    from stages.robot import Frame, open_source

    if given["intrinsics"] is None:
        if given["depth_scale"] is not None:
            raise UserError("--depth-scale: goes with --intrinsics; a capture's own file says it")
        return open_source(capture, given["convention"])
    path = Path(capture)
    if not path.is_file():
        raise UserError(f"{path}: no such file")

    class _Image:
        def read(self) -> Frame:
            image = read_image(path)
            depth = to_metres(image, given["depth_scale"], path.name)
            K = parse_intrinsics(given["intrinsics"], image.shape)
            return Frame(depth=depth, intrinsics=K, name=path.name)

        def close(self) -> None:
            pass

    return _Image()


def _posed(frame: Any, pose: Path | None) -> Any:
    from stages.crop.files import read_transform

    return frame if pose is None else replace(frame, T_world_cam=read_transform(pose))


def _segmenter(given: dict[str, Any], table_pose: tuple[float, ...]) -> Any:
    from stages.robot.segments import MaskFile, OnTheTable, Workspace

    chosen = [n for n in ("segment", "on_table", "workspace") if given[n]]
    if len(chosen) > 1:
        raise UserError("give one of --segment, --on-table and --workspace")
    if given["segment"] is not None:
        return MaskFile(path=given["segment"], names=_names(given["segments"]))
    if given["on_table"]:
        known = given["table"] is not None or given["pose"] is not None
        return OnTheTable(table_pose=table_pose if known else None)
    if given["workspace"] is not None:
        try:
            numbers = [float(n) for n in given["workspace"].split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != 6:
            raise UserError(f"--workspace: expected six numbers, got {given['workspace']!r}")
        low, high = numbers[:3], numbers[3:]
        return Workspace(box_min=tuple(low), box_max=tuple(high), table_pose=table_pose)  # type: ignore[arg-type]
    return None


def _names(text: str | None) -> dict[str, int]:
    """Name -> id from `name=id,...`."""
    table: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, equals, number = part.strip().rpartition("=")
        if not (equals and name and number.isdigit() and int(number) < 2**16):
            raise UserError(f"--segments: expected name=id with 0 <= id < 65536, got {part!r}")
        table[name] = int(number)
    return table
