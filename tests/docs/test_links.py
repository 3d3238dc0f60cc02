"""Every link of every page leads to a file that is there.

Links out of the repository are not followed: a test does not depend on other people's servers.
"""

import pytest

from tests.docs.pages import ROOT, links

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    targets = links(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
