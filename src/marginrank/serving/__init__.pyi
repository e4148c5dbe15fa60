from .limits import ServiceLimits as ServiceLimits
from .routes import create_app as create_app
from .server import serve as serve
