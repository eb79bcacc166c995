select site, day, count(*) as measurements, min(value) as least, max(value) as greatest, max(at) as last_at
from measurements
group by site, day
