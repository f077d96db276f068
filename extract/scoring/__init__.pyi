from .engine import Engine as Engine
from .head import VocabularyHead as VocabularyHead
from .loading import load_config as load_config
from .loading import load_model as load_model
