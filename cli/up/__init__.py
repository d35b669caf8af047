"""`muster up`: a whole cluster of real processes on one machine, supervised in the foreground."""
