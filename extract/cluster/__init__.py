"""Extraction on many machines: Ray actors that keep their model, or a job array of Slurm."""
