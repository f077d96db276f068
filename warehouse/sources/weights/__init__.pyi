from .gguf import GgufSource as GgufSource
from .hub import HubSource as HubSource
from .interface import Located as Located
from .interface import WeightSource as WeightSource
from .local import LocalSource as LocalSource
from .package import PackageSource as PackageSource
