"""A warehouse shared with other labs: exported as a bundle, attached read-only beside one's own."""
