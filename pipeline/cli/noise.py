"""`pipeline noise fit`: a sensor's numbers from frames of a real camera."""

from pathlib import Path
from typing import Any

import click

from pipeline.errors import UserError


@click.group()
def noise() -> None:
    """Noise of real depth cameras."""


@noise.command()
@click.argument("captures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--plane", is_flag=True, help="CAPTURES show a flat surface.")
@click.option(
    "--object", "objects", multiple=True, metavar="MESH",
    help="What they show: ycb://NAME or a mesh file, m; one for all, or one each in order.",
)  # fmt: skip
@click.option(
    "--base", default="d435", show_default=True, help='Preset that gives the rest, "" for none.'
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="YAML to write.")
def fit(
    captures: tuple[Path, ...], plane: bool, objects: tuple[str, ...], base: str, out: Path
) -> None:
    """Fit a sensor to CAPTURES (.npz or 6-DOF GraspNet's .npy) and write it as a config.

    The file holds `render.camera` and `render.sensor`; `extends: FILE` in a run's config takes
    them.

    \b
    python -m pipeline noise fit a.npz b.npz --object ycb://006_mustard_bottle --out mine.yaml
    python -m pipeline noise fit wall.npz --plane --base structured_light --out mine.yaml
    """
    import yaml

    from stages.render.errors import RegistrationError, RenderConfigError, SensorFitError
    from stages.render.fit import fit_sensor
    from stages.render.sensor_config import SensorConfig
    from stages.robot.errors import CalibrationError

    if plane == bool(objects):
        raise UserError("noise fit: give either --plane or --object MESH, so that depth is known")
    try:
        start = SensorConfig(preset=base)  # type: ignore[arg-type]
        samples = _plane_samples(captures) if plane else _object_samples(captures, objects)
        sizes = {sample.intrinsics for sample in samples}
        if len(sizes) > 1:
            raise UserError(f"noise fit: expected one camera, got {len(sizes)} sets of intrinsics")
        found = fit_sensor(samples, start)
    except (RegistrationError, RenderConfigError, SensorFitError, CalibrationError) as error:
        raise UserError(f"noise fit: {error}") from error
    K = sizes.pop()
    camera: dict[str, Any] = {"preset": ""}
    camera |= {name: getattr(K, name) for name in ("fx", "fy", "cx", "cy", "width", "height")}
    sensor: dict[str, Any] = {"preset": base, **found.numbers}
    head = "".join(f"# {line}\n" for line in ("Fitted by `pipeline noise fit`.", *found.notes))
    body = yaml.safe_dump({"render": {"camera": camera, "sensor": sensor}}, sort_keys=False)
    try:
        out.write_text(head + body, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}") from error
    for line in found.notes:
        click.echo(line)
    for name, value in found.numbers.items():
        click.echo(f"  {name:<18} {value:g}")
    click.echo(f"{out}: {base or 'no preset'} with these numbers")


def _plane_samples(captures: tuple[Path, ...]) -> list[Any]:
    from pipeline.captures import read_capture
    from stages.render.fit import plane_sample

    return [plane_sample(read_capture(path, whole=True)) for path in captures]


def _object_samples(captures: tuple[Path, ...], objects: tuple[str, ...]) -> list[Any]:
    from pipeline.captures import paired, read_capture, read_mesh
    from stages.render.fit import sample_of
    from stages.render.register import register
    from stages.render.retake import ray_backend, retake

    backend = ray_backend()
    samples: list[Any] = []
    for path, entry in paired(captures, objects):
        capture, (name, mesh) = read_capture(path), read_mesh(entry)
        pose = register(capture.points(), *mesh)
        click.echo(
            f"{capture.name}: {name} registered, median distance {1000 * pose.median:.2f} mm, "
            f"{pose.inliers:.0%} within three times that"
        )
        exact = retake(backend, capture, mesh, pose.T_cam_object).silhouette
        samples.append(sample_of(capture, exact))
    return samples
