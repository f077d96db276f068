"""Downstream scores made elsewhere: one format a file, found here and in $TOKENMART_PLUGINS."""
