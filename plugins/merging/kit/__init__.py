"""The files of the 2024 merging competition: its items in, its submission out."""
