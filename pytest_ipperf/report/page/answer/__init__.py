"""The answer by arm: forest plot, sentences, map of all cells."""
