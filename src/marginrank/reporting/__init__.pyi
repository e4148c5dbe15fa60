from .click_report import ClickReport as ClickReport
from .click_report import write_click_report as write_click_report
from .report_builder import write_report as write_report
