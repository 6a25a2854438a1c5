"""The faults an embedded store has to survive, as functions that can be run for as many rounds as one likes.

Each takes a folder to work in and a number of rounds, and returns a `Tally`. The tests run a few rounds, the long
form (`benchmarks/torture.py`) thousands. Nothing here depends on timing: a moment is random, never waited for.
"""
