"""Active checks of nodes: a program that an ordinary job runs (`python -m muster.nodecheck`), and what it measures."""
