"""The plan of an extraction: work, devices and cost; it loads no model."""
