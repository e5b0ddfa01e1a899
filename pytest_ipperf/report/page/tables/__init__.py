"""Tables of the page: those of the terminal, tails, Table V of paper 001."""
