"""Commands that follow a build of rankings."""
