"""Pure functions on arrays: laws, filters, intervals. Nothing here knows a file, a clock or a service."""
