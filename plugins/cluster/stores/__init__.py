"""Addresses of stores: `s3://`."""
