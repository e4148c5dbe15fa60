from .click_log import ClickLog as ClickLog
from .propensities import Propensities as Propensities
from .propensities import corrected_clicks as corrected_clicks
from .propensities import document_weights as document_weights
from .propensity_estimation import estimate_propensities as estimate_propensities
from .simulation import CascadeUser as CascadeUser
from .simulation import PositionUser as PositionUser
from .simulation import simulate_clicks as simulate_clicks
