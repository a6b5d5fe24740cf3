"""One file per dialect: how it is asked, and how it answers."""
