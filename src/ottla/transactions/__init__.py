"""The transaction coordinator: one shard is one partition of `__transaction_state`."""
