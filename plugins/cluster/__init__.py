"""Many machines: extraction on Ray and Slurm, and stores in a bucket."""
