from .feature_drift import Drift as Drift
from .feature_drift import FeatureDrift as FeatureDrift
from .feature_drift import compare_features as compare_features
from .feature_quantiles import FeatureQuantiles as FeatureQuantiles
from .feature_quantiles import feature_quantiles as feature_quantiles
from .model import Health as Health
from .model import Model as Model
from .model import Provenance as Provenance
