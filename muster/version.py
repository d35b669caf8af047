"""The one version of both distributions, and the versions of the agent protocol they speak."""

VERSION = "0.1.0"
PROTOCOL = 1
PROTOCOL_OLDEST = 1
