from .definition import RegisteredMetric as RegisteredMetric
from .entry_file import Entry as Entry
from .entry_file import entries as entries
from .entry_file import register as register
from .preregistered import PreregisteredMetric as PreregisteredMetric
from .preregistered import preregistered_metrics as preregistered_metrics
