"""The notebook side: everything that knows IPython."""
