"""Lenses against OpenCV's own code, by round trip, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.camera import Intrinsics
from schemas.distortion import COEFFICIENTS, MAX_SLOPE, Distortion
from schemas.errors import SchemaError

BROWN = Distortion(model="brown_conrady", k1=-0.28, k2=0.09, p1=0.0012, p2=-0.0008, k3=-0.01)
FISHEYE = Distortion(model="kannala_brandt", k1=0.05, k2=-0.01, k3=0.003, k4=-0.0005)
small = st.floats(-0.3, 0.3)
tangential = st.floats(-0.01, 0.01)
lenses = st.one_of(
    st.builds(
        Distortion, model=st.just("brown_conrady"), k1=small, k2=small, k3=small,
        p1=tangential, p2=tangential,
    ),
    st.builds(Distortion, model=st.just("kannala_brandt"), k1=small, k2=small, k3=small, k4=small),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(lens=lenses)
def test_what_undistorts_distorts_back(lens: Distortion) -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 21), np.linspace(-0.8, 0.8, 17))
    u, v = lens.undistort(x, y)
    back = lens.distort(u, v)
    good = np.isfinite(u)
    assert np.array_equal(good, np.isfinite(v))
    assert good[8, 10]  # the image centre always has a ray
    np.testing.assert_allclose(back[0][good], x[good], atol=1e-9)
    np.testing.assert_allclose(back[1][good], y[good], atol=1e-9)


@pytest.mark.parametrize(("lens", "reach"), [(BROWN, 0.7), (FISHEYE, 5.0)])
def test_a_sound_lens_gives_every_ray_back(lens: Distortion, reach: float) -> None:
    x, y = np.random.default_rng(0).uniform(-reach, reach, (2, 500))
    u, v = lens.undistort(*lens.distort(x, y))
    np.testing.assert_allclose(u, x, atol=1e-9)
    np.testing.assert_allclose(v, y, atol=1e-9)


def test_opencv_agrees() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-0.6, 0.6, (500, 2)), np.ones((500, 1))], axis=1)
    zero, K = np.zeros(3), np.array([[450.0, 0, 322], [0, 440, 238], [0, 0, 1]])
    for lens, project in (
        (BROWN, cv2.projectPoints),
        (FISHEYE, lambda p, *rest: cv2.fisheye.projectPoints(p[:, None], *rest)),
    ):
        numbers = np.array([getattr(lens, name) for name in COEFFICIENTS[lens.model]])
        expected, _ = project(points, zero, zero, K, numbers)
        ours = Intrinsics.from_matrix(K, 640, 480)
        ours = Intrinsics.from_array(ours.to_array(), lens.to_array())
        assert ours.distortion == lens
        np.testing.assert_allclose(ours.project(points), expected.reshape(-1, 2), atol=1e-9)


def test_by_hand() -> None:
    # r^2 = 0.25: radial 1 + 0.1 / 4 = 1.025; 2 p1 x y = 0.0024, 2 p2 x y = 0.0048;
    # p2 (r^2 + 2 x^2) = 0.02 (0.25 + 0.18), p1 (r^2 + 2 y^2) = 0.01 (0.25 + 0.32)
    brown = Distortion(model="brown_conrady", k1=0.1, p1=0.01, p2=0.02)
    x, y = brown.distort(0.3, 0.4)
    assert x == pytest.approx(0.3 * 1.025 + 0.0024 + 0.02 * 0.43, abs=1e-15)
    assert y == pytest.approx(0.4 * 1.025 + 0.01 * 0.57 + 0.0048, abs=1e-15)
    # at 45 degrees: theta = pi / 4, so r_d = theta (1 + k1 theta^2)
    fisheye = Distortion(model="kannala_brandt", k1=0.2)
    angle = np.pi / 4
    assert fisheye.distort(1.0, 0.0)[0] == pytest.approx(angle * (1 + 0.2 * angle**2), abs=1e-15)


def test_beyond_the_fold_there_is_no_ray() -> None:
    """k1 = -1/3: r - r^3 / 3 rises to 2/3 at r = 1 and comes back to 0 at sqrt(3)."""
    lens = Distortion(model="brown_conrady", k1=-1 / 3)
    u, _ = lens.undistort(np.array([0.0, 0.66, 0.667, 2.0]), np.zeros(4))
    assert np.isnan(u).tolist() == [False, False, True, True]
    assert 0 < u[1] < 1
    # An equidistant fisheye has nothing to say about rays at 90 degrees.
    u, _ = Distortion(model="kannala_brandt").undistort(np.array([1.5, np.pi / 2]), np.zeros(2))
    assert u[0] == pytest.approx(np.tan(1.5))
    assert u[0] < MAX_SLOPE
    assert np.isnan(u[1])


def test_stored_form_and_faults() -> None:
    for lens in (BROWN, FISHEYE, Distortion()):
        assert Distortion.from_array(lens.to_array()) == lens
    assert not Distortion().to_array().size
    with pytest.raises(SchemaError, match="unknown 'thin_prism'; choose from none, brown_conrady"):
        Distortion.from_dict({"model": "thin_prism"})
    with pytest.raises(SchemaError, match=r"\['p1'\] set, but kannala_brandt has k1, k2, k3, k4"):
        Distortion(model="kannala_brandt", p1=0.1)
    with pytest.raises(SchemaError, match="k6"):
        Distortion.from_dict({"model": "brown_conrady", "k6": 0.1})
    with pytest.raises(SchemaError, match="NaN"):
        Distortion(model="brown_conrady", k1=np.nan)
