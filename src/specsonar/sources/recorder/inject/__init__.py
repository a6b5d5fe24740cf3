"""A folder for the recorded program's PYTHONPATH; nothing of it is imported here."""
