"""Where the files of a secured node are, by default; apart from `security_folder`, which every command would import."""

from __future__ import annotations

from typing import Final

ADMIN: Final = "admin"
"""The user that a folder is made with."""
DEFAULT: Final = "security"
ANNOUNCED: Final = f"{DEFAULT}/brokers"
CLIENT_PROPERTIES: Final = f"{DEFAULT}/client.properties"
