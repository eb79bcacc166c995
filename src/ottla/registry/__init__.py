"""A schema registry with Confluent's REST interface, as a process of its own on `ottla.client`.

Decisions are pure (`state`, `commands`, `rest`, `formats` and the languages of schemas); `topic` writes and reads
`_schemas`, `election` finds the one instance that writes, `server` is HTTP.
"""
