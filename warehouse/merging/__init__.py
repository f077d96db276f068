"""Experts, rules and recipes of merged models, as problem files say them and headers show them."""
