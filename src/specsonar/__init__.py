"""specsonar."""
