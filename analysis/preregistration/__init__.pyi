from .definition import RegisteredMetric as RegisteredMetric
from .record import Entry as Entry
from .record import entries as entries
from .record import register as register
