"""Collection: cells, levels, questions and mistakes of tests."""
