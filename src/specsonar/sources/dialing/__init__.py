"""Asking a real service for streamed answers: where, in which dialect, with what prompts, key and budget."""
