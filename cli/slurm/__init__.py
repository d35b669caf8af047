"""The commands of those who come from Slurm: their scripts run as they are."""
