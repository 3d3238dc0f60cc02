"""Holdfast: one lock service for everything that must not happen twice at once.

Nothing heavy is imported here, so that `import holdfast` stays light.
"""

__version__ = "0.1.0"
