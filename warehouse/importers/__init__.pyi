from .interface import Importer as Importer
from .interface import Row as Row
from .store import import_items as import_items
from .store import importer as importer
