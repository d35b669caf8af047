"""`python dashboard/openapi.py > dashboard/openapi.json`: the API's own document, of which the types of the dashboard are made."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from api.app import create_app
from api.settings import Settings

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    files = {name: place / name for name in ("admin_token_file", "agent_token_file", "secret_file")}
    app = create_app(Settings(database_url=f"sqlite:///{place / 'x.db'}", log_store=place, **files))
    json.dump(app.openapi(), sys.stdout)
