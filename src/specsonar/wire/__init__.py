"""From bytes and times to events, without I/O."""
