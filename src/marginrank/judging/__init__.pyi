from .agreement import Agreement as Agreement
from .agreement import RaterAgreement as RaterAgreement
from .agreement import agreement as agreement
from .judgements import Judgements as Judgements
from .judgements import read_judgements as read_judgements
