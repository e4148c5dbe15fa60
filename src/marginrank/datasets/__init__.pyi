from .digit_images import digits as digits
from .python_docs import Collection as Collection
from .python_docs import pydocs as pydocs
