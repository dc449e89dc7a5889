"""How real depth cameras err: values of `SensorConfig` by preset.

Sources, by the names used below:

- Nguyen 2012: Nguyen, Izadi, Lovell, "Modeling Kinect Sensor Noise for Improved 3D Reconstruction
  and Tracking", 3DIMPVT 2012: axial noise 0.0012 + 0.0019 (z - 0.4)^2 m, growing with the angle;
  lateral noise 0.8 + 0.035 angle / (pi/2 - angle) pixels.
- Khoshelham 2012: Khoshelham and Elberink, "Accuracy and Resolution of Kinect Depth Data for
  Indoor Mapping Applications", Sensors 12(2): baseline 75 mm, disparity steps of 1/8 pixel.
- Barron 2013: Barron and Malik, "Intrinsic Scene Properties from a Single RGB-D Image", CVPR 2013,
  and Handa 2014: "A Benchmark for RGB-D Visual Odometry, 3D Reconstruction and SLAM", ICRA 2014:
  pixels shifted at random before disparity is rounded.
- Intel: "Best-Known-Methods for Tuning Intel RealSense D400 Depth Cameras for Best Performance":
  RMS depth noise z^2 subpixel / (f B), subpixel 0.08 or less on textured targets; D400 series
  datasheet: baselines 55 mm (D415) and 50 mm (D435), least distances, the invalid depth band;
  disparities come in 1/32 pixel.
- Tolgyessy 2021: "Evaluation of the Azure Kinect and Its Comparison to Kinect V1 and Kinect V2",
  Sensors 21(2), and Kurillo 2022: "Evaluating the Accuracy of the Azure Kinect and Kinect v2",
  Sensors 22(7): a standard deviation of about a millimetre at one metre that grows little with
  distance, mixed pixels at edges; range of NFOV unbinned from its hardware specification.
- measured: on the real captures that docs/sensors.md names. A stereo camera's own.
"""

_REALSENSE = {
    "axial_grazing": 0.0001,  # Nguyen 2012
    "disparity_noise": 0.08,  # Intel
    "disparity_step": 1 / 32,  # Intel
    "depth_step": 0.001,  # the driver's default unit
    "correlation": 8.0,  # measured
    "white_share": 0.1,  # measured
    "lateral": 0.8,  # Nguyen 2012, as far as stereo goes: of a matching window, not of a dot
    "grazing_start": 60.0,  # measured
    "grazing_end": 90.0,
    "edge_dropout": 0.2,  # measured
    "flying": 0.02,
    "hole_fraction": 0.005,  # measured
    "hole_size": 4.0,
    "shadow": True,
    "max_range": 10.0,
}

SENSORS: dict[str, dict[str, float | bool]] = {
    "d415": _REALSENSE | {"baseline": 0.055, "min_range": 0.31},  # Intel, at 640x480
    "d435": _REALSENSE | {"baseline": 0.050, "min_range": 0.175},  # Intel, at 640x480
    "azure_kinect": {
        "axial_constant": 0.0008,  # Tolgyessy 2021 and Kurillo 2022, rounded
        "axial_quadratic": 0.0002,
        "axial_grazing": 0.0001,  # Nguyen 2012
        "depth_step": 0.001,
        "lateral": 0.3,
        "grazing_start": 70.0,
        "grazing_end": 90.0,
        "edge_dropout": 0.3,  # the driver drops most mixed pixels, not all (Tolgyessy 2021)
        "flying": 0.3,
        "hole_fraction": 0.002,
        "hole_size": 4.0,
        "min_range": 0.5,
        "max_range": 3.86,
    },
    "structured_light": {
        "axial_constant": 0.0012,  # Nguyen 2012
        "axial_quadratic": 0.0019,
        "axial_nearest": 0.4,
        "axial_grazing": 0.0001,
        "lateral": 0.8,
        "lateral_grazing": 0.035,
        "baseline": 0.075,  # Khoshelham 2012
        "disparity_step": 1 / 8,
        "depth_step": 0.001,
        "correlation": 2.0,  # Barron 2013: shifts that are alike in a neighbourhood
        "grazing_start": 60.0,
        "grazing_end": 85.0,
        "edge_dropout": 0.4,
        "flying": 0.02,
        "hole_fraction": 0.01,
        "hole_size": 6.0,
        "shadow": True,
        "min_range": 0.4,
        "max_range": 8.0,
    },
}
