"""Network namespaces, veth pairs and delay lines of this machine."""
