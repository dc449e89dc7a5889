"""Random fields: their distributions, and that a pixel's value is the pixel's own."""

import numpy as np
import pytest

from stages.render.fields import normal, smooth_normal, smooth_uniform, uniform

W, H = 320, 240
PIXELS = np.arange(W * H)


def test_uniforms_and_normals_have_their_moments() -> None:
    u = uniform(3, "a", PIXELS)
    assert u.min() >= 0
    assert u.max() < 1
    counts, _ = np.histogram(u, 16, (0, 1))
    expected = len(u) / 16
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-square, 15 degrees, p = 0.001
    n = normal(3, "a", PIXELS)
    assert abs(n.mean()) < 4 / np.sqrt(len(n))
    assert abs(n.var() - 1) < 4 * np.sqrt(2 / len(n))
    assert np.abs(n).max() < 4.9
    # Gaussian to the third deviation: 0.27 % beyond it, less the little that the bound cuts off
    assert 0.0015 < (np.abs(n) > 3).mean() < 0.0027
    for shift in (1, W):  # neighbours are independent
        assert abs(np.mean(n[shift:] * n[:-shift])) < 4 / np.sqrt(len(n))


@pytest.mark.parametrize("length", [3.0, 8.0])
def test_smooth_fields_keep_the_variance_at_every_pixel(length: float) -> None:
    fields = np.array([smooth_normal(s, "a", PIXELS[:2000], W, length) for s in range(400)])
    # at every pixel, on the lattice or between: 400 draws have a variance within 1 +- 0.07
    assert np.abs(fields.var(axis=0) - 1).max() < 5 * np.sqrt(2 / 400)
    assert abs(fields.mean()) < 0.05
    image = smooth_normal(1, "a", PIXELS, W, length).reshape(H, W)
    near = np.mean(image[:, 1:] * image[:, :-1])
    far = np.mean(image[:, 40:] * image[:, :-40])
    assert near > 0.9
    assert abs(far) < 0.2
    u = np.array([smooth_uniform(s, "a", PIXELS[:50], W, length) for s in range(400)])
    assert abs((u < 0.1).mean() - 0.1) < 0.03


def test_a_value_depends_on_seed_purpose_and_pixel_alone() -> None:
    some = np.array([5, 70000, 12, 3])
    for make in (uniform, normal, lambda s, p, at: smooth_normal(s, p, at, W, 6.0)):
        whole = make(9, "x", PIXELS)
        assert np.array_equal(make(9, "x", some), whole[some])
        for other in (make(10, "x", PIXELS), make(9, "y", PIXELS)):
            assert abs(np.corrcoef(whole, other)[0, 1]) < 0.1
    assert uniform(2**64 - 1, "x", some).shape == (4,)


def test_values_are_those_of_every_machine() -> None:
    """Integers, sums, products and roots only: the bits must never change."""
    drawn = uniform(1, "axial", np.array([0, 1, 307199]))
    assert drawn.tolist() == GOLDEN_UNIFORM
    assert normal(1, "axial", np.array([0, 1, 307199])).tolist() == GOLDEN_NORMAL


GOLDEN_UNIFORM = [0.9987705131933221, 0.26472899471303113, 0.6873049097142678]
GOLDEN_NORMAL = [0.07194927605295635, -0.8641014613341808, 2.7368009560652586]
