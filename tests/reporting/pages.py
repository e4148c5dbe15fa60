"""Reading a page back: its tables by caption, its commands, and the data of its charts."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser


class _Tables(HTMLParser):
    """Tables by caption: the heads, and rows of text and sort key."""

    def __init__(self):
        super().__init__()
        self.found = {}
        self._text = None

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self._heads, self._rows, self._caption = [], [], ""
        elif tag == "tr":
            self._row = []
        elif tag in ("caption", "th", "td"):
            self._text, self._key = "", dict(attrs).get("data-key")
            self._scope = dict(attrs).get("scope")

    def handle_data(self, data):
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag):
        if tag == "caption":
            self._caption = self._text
        elif tag == "th" and self._scope == "col":
            self._heads.append(self._text)
        elif tag in ("th", "td"):
            self._row.append((self._text, None if self._key is None else float(self._key)))
        elif tag == "tr" and self._row:
            self._rows.append(self._row)
        elif tag == "table":
            self.found[self._caption] = (self._heads, self._rows)
        if tag in ("caption", "th", "td"):
            self._text = None


def tables_of(page):
    parser = _Tables()
    parser.feed(without_scripts(page))
    return parser.found


def commands_of(page):
    """Lines of commands, as the copy button gives them."""
    found = re.findall(r'<div class="command"><span class="what">.*?</span><code>(.*?)</code>', page)
    return [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in found]


def charts_of(page):
    """Specifications of the charts; the first data block of a page that is no chart is their common look."""
    blocks = re.findall(r'<div class="plot"></div><script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(block) for block in blocks]


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
