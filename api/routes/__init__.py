"""The REST routes, one file for each kind."""
