"""Which data of benchmarks `tokenmart data gc` removes."""
