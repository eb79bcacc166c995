"""A web console, a process of its own on `ottla.client`: pages, JSON and a WebSocket for people, MCP for assistants."""
