"""Recording what a Python program receives, from inside it, without a change to it."""
