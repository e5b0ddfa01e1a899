"""Both ends of modelled traffic: packets of a traffic model's streams, in one direction or both at once."""
