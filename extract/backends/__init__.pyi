from .backend import Backend as Backend
from .backend import Loading as Loading
from .backend import Scorer as Scorer
from .backend import find_backend as find_backend
