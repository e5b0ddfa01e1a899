"""Report of ministat, byte for byte: the statistics, plot and t test of FreeBSD's program, as Debian has it (20150715).

Paper 002 judged offloading by it. Its conventions are kept where they differ from those of this project: the variance
is of sums in one pass, the median of an even number of values is the upper of the middle two, the interval of the
relative difference ignores that the reference is uncertain too, and values of different epochs count as independent.
"""

from pytest_ipperf.report.studies.ministat.data_set import DataSet, read_data_set
from pytest_ipperf.report.studies.ministat.session import comparison_reports
from pytest_ipperf.report.studies.ministat.student_t import CONFIDENCES
from pytest_ipperf.report.studies.ministat.text import MOST_SETS, WIDTH, ministat_lines

__all__ = ["CONFIDENCES", "MOST_SETS", "WIDTH", "DataSet", "comparison_reports", "ministat_lines", "read_data_set"]
