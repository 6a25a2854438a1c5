"""The server extension: where it finds the store, and which routes it adds."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from traitlets import Unicode, default

from nbcheckpoint.config import ENV_STORE
from nbcheckpoint.server.routes import HANDLERS
from nbcheckpoint.server.stores import Stores


class NbcheckpointApp(ExtensionApp):
    """Serves run records to the sidebar of JupyterLab and Notebook 7."""

    name = "nbcheckpoint"
    description = "Lists the runs nbcheckpoint has saved."
    load_other_extensions = True

    store_url = Unicode(
        help="""The store to list, as a folder or URL. By default NBCHECKPOINT_STORE; failing that, the
        nearest .nbcheckpoint/ folder from the notebook's own folder (or the server's root) upwards."""
    ).tag(config=True)

    @default("store_url")
    def _default_store_url(self) -> str:
        return os.environ.get(ENV_STORE, "")

    def initialize_settings(self) -> None:
        assert self.serverapp is not None
        self.settings["nbcheckpoint_stores"] = Stores(root=Path(self.serverapp.root_dir), url=self.store_url)

    def initialize_handlers(self) -> None:
        self.handlers.extend(HANDLERS)
