"""Sources of weights: one kind a file, found here and in $TOKENMART_PLUGINS."""
