-- Customers as they are kept: amounts are texts and times are microseconds in Debezium's JSON.
select
  id,
  name,
  country,
  lower(email) as email,
  cast(credit as decimal(12, 2)) as credit,
  timestamp_micros(updated_at) as updated_at,
  _op,
  _sequence,
  _ts,
  _topic,
  _partition,
  _offset
from changes
