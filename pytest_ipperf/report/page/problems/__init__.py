"""Cards of the cells that are not green, with the evidence for each."""
