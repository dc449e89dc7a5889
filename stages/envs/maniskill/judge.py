"""Grasped, lifted, successful: from contact forces and heights alone."""

import torch

PUSH = 0.5  # N, a contact link that pushes harder counts


def judge(
    forces: torch.Tensor, lift: torch.Tensor, *, target_lift_dist: float, floating: bool
) -> dict[str, torch.Tensor]:
    """(N,) each, from (L, N, 3) N of every contact link on the target and (N,) m of its rise.

    Grasped: at least two links push with more than PUSH. Strictly: two of those pushes point more
    than 90 degrees apart, so a hand that carries an object like a tray does not hold it. Success:
    strictly grasped and lifted past `target_lift_dist`, or grasped alone for a `floating` object.
    """
    size = torch.linalg.norm(forces, dim=-1)
    pushes = size > PUSH
    count = pushes.sum(dim=0)
    unit = torch.where(pushes[..., None], forces / size.clamp(min=1e-9)[..., None], 0.0)
    opposed = (torch.einsum("inc,jnc->nij", unit, unit) < 0).flatten(1).any(dim=1)
    grasped, lifted = count >= 2, lift > target_lift_dist
    return {
        "success": grasped if floating else grasped & opposed & lifted,
        "is_grasped": grasped,
        "is_strictly_grasped": grasped & opposed,
        "is_lifted": lifted,
        "lift": lift,
        "contact_links": count,
    }
