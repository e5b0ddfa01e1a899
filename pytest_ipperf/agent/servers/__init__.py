"""Server processes: started, watched, contained and stopped."""
