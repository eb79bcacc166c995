select window.start as hour_start, hour(window.start) as hour_of_day, count(*) as buy_cnt
from user_behavior
where behavior = 'buy'
group by window(ts, '1 hour')
