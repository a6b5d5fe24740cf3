"""Where traces come from. Nothing here knows the statistics."""
