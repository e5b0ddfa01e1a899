"""Tables and figures of the published studies."""
