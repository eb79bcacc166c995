"""A real broker for anybody's tests: `with Broker() as broker: ...`, or the pytest fixture `kafka`."""

from ottla.testing.broker import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed"]
