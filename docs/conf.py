"""How Sphinx makes the pages of this folder into HTML.

No content lives here: the pages are Markdown, and readable as they are.
"""

from holdfast import __version__

project = "Holdfast"
version = release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
myst_heading_anchors = 3
