from .definition import RegisteredMetric as RegisteredMetric
from .foretold import Foretold as Foretold
from .foretold import foretold as foretold
from .record import Entry as Entry
from .record import entries as entries
from .record import register as register
