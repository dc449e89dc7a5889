"""Leafing through a dataset: one album, shown in a window, on a web page or as a film."""
