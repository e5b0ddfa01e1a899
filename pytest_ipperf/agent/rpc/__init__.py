"""Remote procedure calls of an agent: its server, its channel to the controller, and the handlers of each call."""
