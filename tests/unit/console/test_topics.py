"""What the page shows of topics' settings."""

from __future__ import annotations

import pytest

from ottla.console.topics import without_markup


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("The <i>minimum</i> if <code>acks</code> is &quot;all&quot;", 'The minimum if acks is "all"'),
        (
            '<a href="#compaction">compacted</a> topics.<p>One of:<ul> <li>a</li><li>b</li></ul>',
            "compacted topics. One of: a b",
        ),
        ("At most <topic> of size <= 5 and > 3", "At most <topic> of size <= 5 and > 3"),
        ("&lt;script&gt; is text", "<script> is text"),
        ("", ""),
    ],
)
def test_documentation_in_html_is_shown_as_text(given: str, shown: str) -> None:
    assert without_markup(given) == shown
