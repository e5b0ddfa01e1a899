"""Put the answer of a session into words: names of cells, one plain sentence, the next step."""
