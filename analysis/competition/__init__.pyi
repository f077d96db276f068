from .standings import Standings as Standings
from .standings import rank_file as rank_file
from .standings import stored_standings as stored_standings
