"""Measurements and long runs of the whole service, on this machine and against real processes.

Timings live here and nowhere else; nothing in the package `holdfast` may import from here.
"""
