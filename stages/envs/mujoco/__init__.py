"""MuJoCo models and protocols. Heavy imports are allowed here and nowhere above."""
