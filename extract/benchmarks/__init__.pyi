from .run import EvalRun as EvalRun
from .run import Response as Response
from .tasks import EvalTask as EvalTask
from .tasks import load_tasks as load_tasks
