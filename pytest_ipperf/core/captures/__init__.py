"""Captures of packets: pcap files, the flows in them, and traffic models fitted to a flow. Nothing here reads files."""
