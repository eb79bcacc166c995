"""Logins and permissions, decided without I/O: SASL exchanges, key stores, principals and access control.

Brokers and clients share this package. Sockets, files and clocks are elsewhere: TLS contexts in `net`, the server's
side of a connection in `broker.serving`.
"""
