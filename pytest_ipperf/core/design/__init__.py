"""Design: cells, plans, questions, margins and metrics."""
