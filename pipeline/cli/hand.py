"""`pipeline hand`: which hands there are, and whether a hand file is sound."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import complete
from pipeline.errors import UserError

if TYPE_CHECKING:
    from stages.envs.mujoco.hand_report import JointRow


@click.group()
def hand() -> None:
    """List the hands, or check a hand file and draw it."""


@hand.command(name="list")
def list_hands() -> None:
    """The hand files, then the robots of the ManiSkill environment: whose files are here.

    \b
    python -m pipeline hand list
    """
    from stages.assets.hands.load import hand_names, load_hand
    from stages.assets.hands.models import model_is_here
    from stages.envs.maniskill.agent_table import AGENTS

    names = hand_names()
    width = max(map(len, names))
    click.echo(f"{'name':<{width}}  {'kind':<12}  joints  fingers  here  model")
    for name in names:
        spec = load_hand(name)
        here = "yes" if model_is_here(spec.model) else "no"
        click.echo(
            f"{name:<{width}}  {spec.kind:<12}  {len(spec.joint_names):>6}  "
            f"{len(spec.finger_prefixes):>7}  {here:<4}  {spec.model}"
        )
    click.echo(f"\n{'ManiSkill agent':<28}  {'base':<8}  here  from")
    for uid, entry in AGENTS.items():
        source = f"hand file {entry.hand}" if entry.hand else f"ManiSkill's {entry.native}"
        here = "no" if entry.missing else "yes"
        click.echo(
            f"{uid:<28}  {entry.base:<8}  {here:<4}  {source}"
            + (f"; {entry.missing}" if entry.missing else "")
        )


@hand.command()
@click.argument("file", metavar="NAME_OR_FILE", shell_complete=complete.hands)
@click.option("--save", "target", type=click.Path(path_type=Path), help="Draw it into a PNG.")
def check(file: str, target: Path | None) -> None:
    """Lint a hand of configs/hands or any hand file; exit code 1 when it has errors.

    \b
    python -m pipeline hand check allegro_right
    python -m pipeline hand check my_hand.yaml --save hand.png
    """
    from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
    from stages.assets.hands.load import hand_digest, load_hand

    try:
        spec = load_hand(file)
        digest = hand_digest(spec)
        from stages.envs.mujoco.hand_lint import lint_hand

        report = lint_hand(spec)
    except (HandError, HandNotFoundError, UnknownHandKeyError) as error:
        click.echo(f"error    {error}")
        raise SystemExit(1) from error
    except ImportError as error:
        raise UserError(f"hand check needs MuJoCo: {error}; pip install '.[generate]'") from error
    for finding in report.findings:
        click.echo(f"{finding.level:<8} {finding}")
    if report.joints:
        click.echo(_table(report.joints))
        click.echo(
            f"{spec.name}: {report.mass:.3f} kg, {report.bodies} bodies, "
            f"{report.actuators} actuators, digest {digest[:16]}"
        )
    if report.joints and target is not None:
        from pipeline.pictures.hand_sheet import hand_sheet
        from pipeline.pictures.points import save

        image = hand_sheet(file, spec, digest)
        try:
            save(image, target)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot write {target}: {error}") from error
        click.echo(f"{target}: open, closed, and the bodies that the file names")
    errors = sum(finding.level == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    click.echo(f"{errors} errors, {warnings} warnings")
    if errors:
        raise SystemExit(1)


def _table(rows: "tuple[JointRow, ...]") -> str:
    width = max(len("joint"), *(len(row.name) for row in rows))
    lines = [
        f"{'joint':<{width}}  {'low':>7} {'high':>7} {'open':>7} {'pregrasp':>8} {'closed':>7} "
        f"{'kp':>7} {'force':>7}"
    ]
    for row in rows:
        low, high = row.range
        lines.append(
            f"{row.name:<{width}}  {low:7.3f} {high:7.3f} {row.open:7.3f} {row.pregrasp:8.3f} "
            f"{row.closed:7.3f} {row.kp:7.4g} {row.force_limit:7.4g}"
        )
    return "\n".join(lines)
