"""A recording reverse proxy: one process forwards and stamps, the other decodes and keeps."""
