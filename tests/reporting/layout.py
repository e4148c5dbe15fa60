"""Laws of layout for pages in a browser: nothing is cut off, nothing overlaps, and all text can be read."""

from __future__ import annotations

import json

#: The widths that pages are looked at in, each in light and in dark colors.
WIDE, PHONE = 1400, 390

_TEXTS = """
const unseen = "script, style, noscript, title, details:not([open]) > :not(summary)";
const shown = (node) => {
  const one = node.parentElement;
  if (!node.data.trim() || one.closest(unseen)) return false;
  const style = getComputedStyle(one);
  if (style.visibility !== "visible" || style.opacity === "0" || one.closest("[aria-hidden=true]")) return false;
  return Array.from(one.getClientRects()).some((box) => box.width > 1 && box.height > 1);
};
const texts = [];
const walker = document.createTreeWalker(document.querySelector(root), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) if (shown(walker.currentNode)) texts.push(walker.currentNode);
const boxesOf = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return Array.from(range.getClientRects());
};
const say = (node) => node.data.trim().slice(0, 60);
"""

_CUT_OFF = """
const out = [];
for (const node of texts) {
  let left = 0, right = width;
  for (let one = node.parentElement; one && one !== document.body; one = one.parentElement) {
    if (one.tagName !== "svg" && (one instanceof SVGElement || getComputedStyle(one).overflowX === "visible")) continue;
    if (scrolling && one.matches(scrolling)) { left = -Infinity; right = Infinity; break; }
    const box = one.getBoundingClientRect();
    left = Math.max(left, box.left); right = Math.min(right, box.right);
  }
  if (boxesOf(node).some((box) => box.left < left - 1 || box.right > right + 1)) out.push(say(node));
}
return out;
"""

_OVERLAPS = """
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
const out = [];
for (const svg of document.querySelectorAll("svg")) {
  const own = texts.filter((node) => svg.contains(node))
    .map((node) => [node, node.parentElement.getBoundingClientRect()]);
  own.forEach(([node, box], at) => own.slice(at + 1).forEach(([other, place]) => {
    if (meet(box, place)) out.push([say(node), say(other)]);
  }));
}
for (const button of document.querySelectorAll("button.copy")) {
  const place = button.getBoundingClientRect();
  for (const node of texts) {
    if (button.parentElement.contains(node) && !button.contains(node) && boxesOf(node).some((box) => meet(box, place)))
      out.push([say(node), "button"]);
  }
}
return out;
"""

_FAINT = """
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
  return [r, g, b, a];
};
const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => a * part + (1 - a) * below[at]);
const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const light = (color) => {
  const [r, g, b] = color.map((part) => linear(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const out = [];
for (const node of texts) {
  const chain = [];
  let opacity = 1;
  for (let one = node.parentElement; one; one = one.parentElement) {
    const style = getComputedStyle(one);
    opacity *= Number(style.opacity);
    if (!(one instanceof SVGElement)) chain.unshift(parse(style.backgroundColor));
  }
  const paper = chain.reduce((below, color) => over(color, below), [255, 255, 255]);
  const style = getComputedStyle(node.parentElement);
  const [r, g, b, a] = parse(node.parentElement instanceof SVGElement ? style.fill : style.color);
  const ink = over([r, g, b, a * opacity], paper);
  const [low, high] = [light(ink), light(paper)].sort((one, other) => one - other);
  const ratio = (high + 0.05) / (low + 0.05);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) out.push([say(node), Math.round(100 * ratio) / 100]);
}
return out;
"""


def check(page, root="body", scrolling=""):
    """Assert all laws, in light and in dark colors; texts in boxes that match ``scrolling`` may be out of sight."""
    found = {"cut off": cut_off(page, root, scrolling), "overlaps": overlaps(page, root)}
    for dark in (False, True):
        page.show(dark)
        found[f"faint, {'dark' if dark else 'light'}"] = faint(page, root)
    found = {what: texts for what, texts in found.items() if texts}
    assert not found, (page.width, found)
    assert not scrolls_sideways(page), page.width


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth") > page.width


def cut_off(page, root="body", scrolling=""):
    """Texts that stick out of the window or of a box; in boxes that match ``scrolling`` they may."""
    return _run(page, _CUT_OFF, root=root, scrolling=scrolling, width=page.width)


def overlaps(page, root="body"):
    """Pairs of texts in a picture, or of code and a button, that lie on each other."""
    return _run(page, _OVERLAPS, root=root)


def faint(page, root="body"):
    """Texts whose contrast is below 4.5, or 3 where they are large: WCAG 2.2, 1.4.3."""
    return _run(page, _FAINT, root=root)


def _run(page, law, **names):
    known = "".join(f"const {name} = {json.dumps(value)};" for name, value in names.items())
    return page.evaluate(f"(() => {{ {known} {_TEXTS} {law} }})()")
