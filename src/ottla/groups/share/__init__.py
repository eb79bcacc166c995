"""Share groups (KIP-932): a queue on a topic, whose members acknowledge each record by itself.

Here are machines only so far; no API of share groups is served yet.
"""
