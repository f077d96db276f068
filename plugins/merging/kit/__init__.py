"""Files of the 2024 merging competition: read its items, write its submission."""
