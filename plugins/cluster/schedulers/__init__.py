"""What `tokenmart extract --on` names."""
