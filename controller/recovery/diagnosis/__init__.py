"""From files to a diagnosis, without a cluster: which rank, why, and what to do."""
