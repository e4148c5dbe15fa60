"""What Yue et al. (SIGIR 2007) print in Tables 6 to 11."""

from __future__ import annotations

from typing import Final

#: MAP and wins/losses of SVMmap as printed, TREC 9 and TREC 10: trained on Indri (Tables 6 and 9), on submissions
#: (7 and 10), and on submissions without the best (8 and 11).
INDRI: Final = {
    "svmmap": ".242, .236",
    "best system": ".204 39/11**, .181 37/13**",
    "2nd best": ".199 38/12**, .174 43/7**",
    "3rd best": ".188 34/16**, .174 38/12**",
    "svmauc": ".237 29/21, .234 24/26",
    "svmacc": ".147 47/3**, .155 47/3**",
    "svmacc2": ".219 39/11**, .207 43/7**",
    "svmacc3": ".113 49/1**, .153 45/5**",
    "svmacc4": ".155 48/2**, .155 48/2**",
}
SUBMISSIONS: Final = {
    "svmmap": ".290, .287",
    "best system": ".280 28/22, .283 29/21",
    "2nd best": ".269 30/20, .251 36/14**",
    "3rd best": ".266 30/20, .233 36/14**",
    "svmauc": ".282 29/21, .278 35/15**",
    "svmacc": ".213 49/1**, .222 49/1**",
    "svmacc2": ".270 34/16**, .261 42/8**",
    "svmacc3": ".133 50/0**, .182 46/4**",
    "svmacc4": ".233 47/3**, .238 46/4**",
}
WITHOUT_BEST: Final = {
    "svmmap": ".284, .288",
    "best system": ".280 27/23, .283 31/19",
    "2nd best": ".269 30/20, .251 36/14**",
    "3rd best": ".266 30/20, .233 35/15**",
    "svmauc": ".274 31/19**, .272 38/12**",
    "svmacc": ".215 49/1**, .211 50/0**",
    "svmacc2": ".267 35/15**, .258 44/6**",
    "svmacc3": ".133 50/0**, .174 46/4**",
    "svmacc4": ".228 46/4**, .234 45/5**",
}
#: By what was trained on, and by collection of runs.
PRINTED: Final = {
    "all systems": {"paper, Indri": INDRI, "paper, submissions": SUBMISSIONS},
    "without the best": {"paper, submissions": WITHOUT_BEST},
}
