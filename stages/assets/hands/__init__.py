"""Hands: what a hand is (HandSpec), where its model files are, how a YAML file names one."""
