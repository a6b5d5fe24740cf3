"""Models of what is seen: parameters, likelihood and sampler of each explanation, and the choice among them."""
