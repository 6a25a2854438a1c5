"""The Jupyter server's window on the store: routes for the sidebar, made from one table. It never unpickles."""
