"""The Jupyter server's window on the store: read-only routes for the sidebar. It never unpickles."""
