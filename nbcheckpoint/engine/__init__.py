"""Decides what is restored and what runs. Knows no Jupyter."""
