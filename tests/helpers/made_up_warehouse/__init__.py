"""A made-up warehouse of any size: schema-true Parquet with plausible distributions.

For tests of the metric library and for benchmarks at the locked problem's shape. The numbers
mean nothing, the shapes do: Zipf words, repeated phrases, two kinds of tokenizer, characters
split over several tokens, heavy-tailed gains from context. Never used as data of a problem.
"""

from made_up_warehouse.shape import Retrieval, Shape, Window
from made_up_warehouse.writer import VOCABULARY, write_warehouse

__all__ = ["VOCABULARY", "Retrieval", "Shape", "Window", "write_warehouse"]
