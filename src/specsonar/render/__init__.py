"""From a Fingerprint to text, HTML and JSON."""
