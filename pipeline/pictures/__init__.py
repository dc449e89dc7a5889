"""Pictures of clouds, grasps and labels: in a window, or drawn off-screen into a PNG."""
