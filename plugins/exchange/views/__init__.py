"""Views over attached exports."""
