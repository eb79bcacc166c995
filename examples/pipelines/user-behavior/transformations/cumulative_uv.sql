-- The row of ten minutes has the visitors of the day until then.
select
  date_format(ts, 'yyyy-MM-dd') as date_str,
  max(substr(date_format(ts, 'HH:mm'), 1, 4) || '0') as time_str,
  size(collect_set(user_id)) as uv
from user_behavior
group by date_format(ts, 'yyyy-MM-dd')
