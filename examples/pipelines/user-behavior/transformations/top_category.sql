select coalesce(category_dim.parent_category_name, 'other') as category_name, count(*) as buy_cnt
from user_behavior
left join category_dim on category_dim.sub_category_id = user_behavior.category_id
where user_behavior.behavior = 'buy'
group by 1
