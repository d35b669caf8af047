"""The loop's transactions: each file writes one kind of decision, whole or not at all."""
