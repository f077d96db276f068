"""Scoring backends: what turns requests into token statistics, one file each."""
