"""`pipeline label`: score grasps that someone else published."""

import time
from collections import Counter
from pathlib import Path

import click

from pipeline.cli import complete
from pipeline.errors import UserError
from stages.envs.config import PROTOCOLS
from stages.grasp.formats import FORMATS


@click.command()
@click.argument("grasps", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format", "format_", required=True, type=click.Choice(sorted(FORMATS)), help="Of GRASPS."
)
@click.option(
    "--hand",
    required=True,
    shell_complete=complete.hands,
    help="A name in configs/hands, or a hand file.",
)
@click.option(
    "--objects",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of the objects: one folder or mesh file an object id.",
)
@click.option("--protocol", default="fc", show_default=True, type=click.Choice(PROTOCOLS))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Parquet to write.")
@click.option("--workers", default=2, show_default=True, help="Processes, one a core.")
@click.option("--confidence", default=0, show_default=True, help="Perturbed repeats a grasp.")
def label(
    grasps: tuple[Path, ...],
    format_: str,
    hand: str,
    objects: Path,
    protocol: str,
    out: Path,
    workers: int,
    confidence: int,
) -> None:
    """Label published GRASPS (files or folders) and write one row a grasp.

    Killed and run again, it goes on where it was.

    \b
    python -m pipeline label grasps/ --format dexgraspbench --hand shadow_right \\
        --objects objects/ --out labels.parquet
    python -m pipeline label mug.h5 --format acronym --hand panda_gripper \\
        --objects meshes/ --protocol tabletop --out mug.parquet
    """
    from pipeline.scoring import find_files, forget_parts, label_groups, read_groups, write_table
    from stages.assets.errors import MeshFileError
    from stages.assets.hands.errors import HandError, HandNotFoundError
    from stages.assets.hands.load import load_hand
    from stages.assets.published import published_asset
    from stages.envs.config import ConfidenceConfig
    from stages.envs.errors import EnvConfigError
    from stages.grasp.errors import GraspFormatError
    from stages.label.config import LabelConfig

    parts = out.with_name(f"{out.name}.parts")
    try:
        config = LabelConfig(
            protocols=(protocol,),
            workers=workers,
            confidence=ConfidenceConfig(repeats=confidence),
        )
        files = find_files(grasps, FORMATS[format_].suffix)
        groups = read_groups(files, format_, load_hand(hand))
        total = sum(len(group.grasps) for group in groups)
        click.echo(f"{total} grasps of {hand} in {len(files)} files, {len(groups)} object sizes")
        start = time.monotonic()
        with click.progressbar(length=total, label=protocol) as bar:
            labels = label_groups(
                groups,
                lambda g: published_asset(objects, g.grasps.object_id, g.scale, g.object_file),
                hand, config, protocol, parts, bar.update,
            )  # fmt: skip
        seconds = time.monotonic() - start
        write_table(out, groups, labels)
    except (
        MeshFileError, HandError, HandNotFoundError, EnvConfigError, GraspFormatError, ValueError
    ) as error:  # fmt: skip
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"label: {error}; labels so far are kept in {parts}") from error
    forget_parts(parts)
    counts = Counter(code for label_ in labels for code in label_.outcome.tolist())
    for code, count in counts.most_common():
        click.echo(f"  {code:<20} {count}")
    known = [
        (bool(ours), theirs)
        for group, label_ in zip(groups, labels, strict=True)
        for ours, theirs in zip(label_.success, group.published, strict=True)
        if theirs is not None
    ]
    if known:
        agree = sum(ours == theirs for ours, theirs in known)
        click.echo(f"  agrees with the published success on {agree} of {len(known)}")
    click.echo(f"{out}: {total} labels, {total / seconds:.1f} a second with {workers} workers")
