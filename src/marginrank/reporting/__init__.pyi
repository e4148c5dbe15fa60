from .report_builder import write_report as write_report
