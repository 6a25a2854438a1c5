"""The server extension: where it finds the store, and which routes it adds."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from traitlets import Integer, Unicode, default

from nbcheckpoint.config import ENV_STORE
from nbcheckpoint.server.handler import handlers
from nbcheckpoint.server.stores import Stores
from nbcheckpoint.server.watching import Watchers


class NbcheckpointApp(ExtensionApp):
    """Serves the runs to the sidebar of JupyterLab and Notebook 7."""

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

    max_upload_bytes = Integer(
        64 << 30, min=0, help="The largest archive that may be imported through the browser, in bytes."
    ).tag(config=True)

    def initialize_settings(self) -> None:
        assert self.serverapp is not None
        stores = Stores(root=Path(self.serverapp.root_dir), url=self.store_url)
        self.settings["nbcheckpoint_stores"] = stores
        self.settings["nbcheckpoint_watchers"] = Watchers()
        self.settings["nbcheckpoint_max_upload"] = self.max_upload_bytes

    def initialize_handlers(self) -> None:
        self.handlers.extend(handlers())

    async def stop_extension(self) -> None:
        """The server ends: nobody waits for news any more."""
        self.settings["nbcheckpoint_watchers"].close()
