"""The measuring session: started, journalled, resumed and ended."""
