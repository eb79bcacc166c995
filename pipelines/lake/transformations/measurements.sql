-- The day is a column of its own, because tables are partitioned by columns.
select sensor, site, at, value, other_fields, to_date(at) as day
from raw
