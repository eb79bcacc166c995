select id as order_id, user_id as customer_id, order_date, status, struct(_timestamp, _offset) as version
from raw_orders
