"""Sources of documents: one kind a file, found here and in $TOKENMART_PLUGINS."""
