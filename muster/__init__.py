"""Muster's shared vocabulary, and what a training program imports (`muster.report`)."""
