"""Feature preparation: scikit-learn transformers that know queries.

`QueryMinMax`, `QueryStandardize` and `QueryPercentile` look at one query at a time and learn nothing;
`Standardize` and `ThresholdBins` learn from the training documents. `clean` drops documents that only add noise.
`SCALINGS` are those a ranker takes by name, and `choose_scaling` the choice of ``scaling="auto"``. All transformers
take and return arrays, frames or `Queries`.
"""

from marginrank.runtime.lazy_imports import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
