"""Objects to bytes and back. Does no file I/O: whoever calls brings the place where chunks go."""
