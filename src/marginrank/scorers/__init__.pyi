from .additive import AdditiveRisk as AdditiveRisk
from .bins import Bins as Bins
from .bins import Shape as Shape
from .forms import Form as Form
from .linear import LinearRisk as LinearRisk
