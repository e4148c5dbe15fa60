from .click_log import ClickLog as ClickLog
from .simulation import CascadeUser as CascadeUser
from .simulation import PositionUser as PositionUser
from .simulation import simulate_clicks as simulate_clicks
