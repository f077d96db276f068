from .readings import compare_readings as compare_readings
from .score import score_table as score_table
