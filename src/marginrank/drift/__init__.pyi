from .comparing import Drift as Drift
from .comparing import FeatureDrift as FeatureDrift
from .comparing import compare_features as compare_features
from .quantiles import FeatureQuantiles as FeatureQuantiles
from .quantiles import feature_quantiles as feature_quantiles
