"""Entries of a competition ranked fairly: win rates, intervals, and who can't be told apart."""
